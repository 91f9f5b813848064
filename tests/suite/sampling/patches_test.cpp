#include "suite/sampling/patches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "suite/io/safetensors.h"
#include "suite/sampling/sampler.h"
#include "tests/suite/models/models_for_tests.h"
#include "tests/suite/parallel/ranks.h"

namespace noisemark::suite {
namespace {

using test::file_bytes;
using test::kLimit;
using test::put_bytes;
using test::Ranks;
using test::Words;

ModelConfig config_of(const std::string& network) {
  ModelConfig config = network == "lucid" ? test::small_lucid() : test::small_ho();
  config.resolution = 32;  // four bands still have rows where the image is lowest
  config.attention_resolutions = {16};
  if (network == "pooled") config.downsample = "max_pool";
  return config;
}

std::shared_ptr<Denoiser> network_of(const std::string& network, at::ScalarType dtype) {
  auto model = test::perturbed(config_of(network));
  model->eval();
  place_model(*model, at::kCPU, dtype, false);
  return model;
}

/// One image twice, then another one twice.
std::vector<at::Tensor> pictures_of(const std::string& network, at::ScalarType dtype) {
  const at::Tensor a = test::inputs_for(config_of(network)).x.to(dtype);
  const at::Tensor b = a * 0.9 + a.roll(5, 2) * 0.2;
  return {a, a, b, b};
}

at::Tensor times() {
  return at::full({2}, 300, at::kLong);
}

struct Way {
  std::string network;
  std::string mode = "full_sync";
  at::ScalarType dtype = at::kDouble;

  [[nodiscard]] std::string name() const {
    return fmt::format("{} {} {}", network, mode, at::toString(dtype));
  }
};

/// More ranks than two show only what two do not: bands that have a neighbour on both sides.
std::vector<Way> ways_of(int64_t ranks) {
  std::vector<Way> ways;
  for (const char* network : {"ho", "pooled", "lucid"}) {
    ways.push_back({network, "full_sync", at::kFloat});
    for (const std::string& mode : patch_modes()) {
      if (ranks == 2 || mode == "full_sync") ways.push_back({network, mode});
    }
  }
  return ways;
}

std::string counts_of(const PatchTally& tally) {
  return fmt::format("{} steps, {} of {} bytes", tally.steps, tally.traffic.bytes,
                     tally.expected_bytes);
}

/// Evaluates the images one after another, the first one synchronously, and the last one once
/// more as the first of other samples.
void evaluate(const Way& way, const std::shared_ptr<Group>& group, const std::string& out) {
  const c10::InferenceMode no_gradients;
  PatchOptions options;
  set_patch_mode(way.mode, options);
  options.warmup = 0;
  PatchedDenoiser patched(network_of(way.network, way.dtype), config_of(way.network), group,
                          options);
  NamedTensors found;
  const auto pictures = pictures_of(way.network, way.dtype);
  for (size_t i = 0; i < pictures.size(); ++i) {
    found.emplace_back(std::to_string(i), patched.forward(pictures[i], times()));
  }
  patched.begin_samples();
  found.emplace_back("again", patched.forward(pictures.back(), times()));
  write_safetensors(out + "/" + way.name(), found);
  put_bytes(out + "/counts " + way.name(),
            counts_of(patched.synchronous()) + "; " + counts_of(patched.displaced()));
}

const test::NamedJob kEvaluate{"evaluate",
                               [](const Rank& rank, const Words&, const std::string& out) {
                                 const auto group = Group::join(rank, kLimit);
                                 for (const Way& way : ways_of(rank.ranks))
                                   evaluate(way, group, out);
                               }};

using NamedWeights = std::map<std::string, at::Tensor>;

/// Runs one of each layer that DistriFusion has a module for.
class LayersOfPeer final : public Denoiser {
 public:
  explicit LayersOfPeer(NamedWeights weights)
      : weights_(std::move(weights)),
        first_(convolution("first", 1)),
        second_(convolution("second", 1)),
        third_(convolution("third", 2)),
        norms_{norm("norms.0"), norm("norms.1")} {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& /*t*/) override {
    RowExchange& rows = *rows_in_force();
    at::Tensor h = convolve_rows(first_, x, 1, 1, rows);
    h = convolve_rows(second_, normalize_rows(h, norms_[0], rows), 1, 1, rows);
    h = attend(normalize_rows(h, norms_[1], rows), rows);
    return convolve_rows(third_, h, 1, 1, rows);
  }

 private:
  static constexpr int64_t kHeads = 2;
  static constexpr int64_t kGroups = 4;

  void take(torch::nn::Module& module, const std::string& name) {
    for (auto& item : module.named_parameters()) {
      item.value().set_data(weights_.at(name + "." + item.key()));
    }
  }

  torch::nn::Conv2d convolution(const std::string& name, int64_t stride) {
    const at::Tensor& weight = weights_.at(name + ".weight");
    torch::nn::Conv2d layer(
        torch::nn::Conv2dOptions(weight.size(1), weight.size(0), 3).stride(stride).padding(1));
    take(*layer, name);
    return layer;
  }

  torch::nn::GroupNorm norm(const std::string& name) {
    torch::nn::GroupNorm layer(
        torch::nn::GroupNormOptions(kGroups, weights_.at(name + ".weight").size(0)));
    take(*layer, name);
    return layer;
  }

  at::Tensor per_pixel(const at::Tensor& x, const std::string& name) {
    const at::Tensor& weight = weights_.at(name + ".weight");
    return at::conv2d(x, weight.view({weight.size(0), weight.size(1), 1, 1}),
                      weights_.at(name + ".bias"));
  }

  at::Tensor attend(const at::Tensor& x, RowExchange& rows) {
    const QueriesAndKeys all = join_keys(per_pixel(x, "qkv"), rows);
    const auto by_head = [&](const at::Tensor& one) {
      return one.reshape({one.size(0), kHeads, one.size(1) / kHeads, -1}).transpose(2, 3);
    };
    const at::Tensor out =
        at::scaled_dot_product_attention(by_head(all.q), by_head(all.k), by_head(all.v));
    return per_pixel(out.transpose(2, 3).reshape(x.sizes()), "out");
  }

  NamedWeights weights_;
  torch::nn::Conv2d first_;
  torch::nn::Conv2d second_;
  torch::nn::Conv2d third_;
  std::vector<torch::nn::GroupNorm> norms_;
};

/// The words are a file of weights and images, the mode and the number of synchronous steps:
/// tests/parity/distrifusion_test.py compares what is written.
const test::NamedJob kLayersOfPeer{
    "layers_of_peer", [](const Rank& rank, const Words& words, const std::string& out) {
      const c10::InferenceMode no_gradients;
      const auto tensors = read_safetensors(words.at(0)).tensors;
      const NamedWeights given(tensors.begin(), tensors.end());
      PatchOptions options;
      set_patch_mode(words.at(1), options);
      options.warmup = std::stoll(words.at(2)) - 1;
      options.unbiased_variance = true;
      PatchedDenoiser patched(std::make_shared<LayersOfPeer>(given), config_of("ho"),
                              Group::join(rank, kLimit), options);
      NamedTensors found;
      for (int64_t step = 0; given.contains("x." + std::to_string(step)); ++step) {
        const std::string name = std::to_string(step);
        found.emplace_back(name, patched.forward(given.at("x." + name), times()));
      }
      write_safetensors(out + "/found", found);
    }};

struct Found {
  std::map<std::string, at::Tensor>
      outputs;  ///< the outputs of rank 0, which are those of all ranks
  std::string counts;
};
using FoundByWay = std::map<std::string, Found>;

FoundByWay evaluate_all(int64_t number) {
  Ranks ranks(number, "evaluate");
  for (int64_t rank = 0; rank < number; ++rank) ranks.start(rank);
  const std::vector<int> codes = ranks.wait();
  FoundByWay all;
  for (int64_t rank = 0; rank < number; ++rank) {
    EXPECT_EQ(codes[static_cast<size_t>(rank)], 0) << ranks.words_of(rank);
    if (codes[static_cast<size_t>(rank)] != 0) return all;
    for (const Way& way : ways_of(number)) {
      Found& found = all[way.name()];
      const auto tensors = read_safetensors(ranks.out(rank) + "/" + way.name()).tensors;
      const std::map<std::string, at::Tensor> outputs(tensors.begin(), tensors.end());
      if (rank > 0) {
        for (const auto& [name, output] : outputs) EXPECT_TRUE(output.equal(found.outputs[name]));
      }
      found = {outputs, file_bytes(ranks.out(rank) + "/counts " + way.name())};
    }
  }
  return all;
}

/// The ranks evaluate all of their ways when the first one is asked for.
Found evaluated(int64_t number, const Way& way) {
  static std::map<int64_t, FoundByWay> known;
  if (!known.contains(number)) known[number] = evaluate_all(number);
  return known[number][way.name()];
}

double largest(const at::Tensor& difference) {
  return difference.abs().max().item<double>();
}

/// Largest difference of output `name` from what one process computes of image `number`.
double off(const Found& found, const Way& way, const std::string& name, size_t number) {
  const c10::InferenceMode no_gradients;
  const auto model = network_of(way.network, way.dtype);
  const at::Tensor picture = pictures_of(way.network, way.dtype)[number];
  const auto output = found.outputs.find(name);
  if (output == found.outputs.end()) return INFINITY;
  return largest(output->second - model->forward(picture, times()));
}

double bound_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : 1e-5;  // those of the issue
}

TEST(PatchParallel, full_sync_gives_what_one_process_gives) {
  for (const std::string network : {"ho", "lucid"}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const Way way{network, "full_sync", dtype};
      for (const int64_t number : {2, 4}) {
        const Found found = evaluated(number, way);
        EXPECT_LT(off(found, way, "0", 0), bound_of(dtype)) << network << number;
        EXPECT_LT(off(found, way, "2", 2), bound_of(dtype)) << network << number;
      }
    }
  }
}

/// Activations a step old are as good as new where the image did not change.
TEST(PatchParallel, displaced_takes_what_the_others_had_in_the_step_before) {
  for (const std::string network : {"ho", "lucid"}) {
    const Way way{network, "displaced"};
    const Found found = evaluated(2, way);
    EXPECT_LT(off(found, way, "0", 0), 1e-12) << network;
    EXPECT_LT(off(found, way, "1", 1), 1e-12) << network;
    EXPECT_GT(off(found, way, "2", 2), 1e-4) << network << ": the others had another image";
    EXPECT_GT(off(found, way, "2", 0), 1e-2) << network << ": and the own one is new";
    EXPECT_LT(off(found, way, "3", 3), off(found, way, "2", 2)) << network;
    EXPECT_LT(off(found, way, "again", 3), 1e-12) << network << ": other samples begin anew";
  }
}

TEST(PatchParallel, no_sync_keeps_what_the_others_had_in_the_last_synchronous_step) {
  const Way way{"lucid", "no_sync"};
  const Found found = evaluated(2, way);
  EXPECT_LT(off(found, way, "1", 1), 1e-12);
  EXPECT_GT(off(found, way, "2", 2), 1e-4);
  EXPECT_TRUE(found.outputs.at("3").equal(found.outputs.at("2"))) << "nothing comes any more";
  const Way normed{"ho", "no_sync"};
  EXPECT_GT(off(evaluated(2, normed), normed, "1", 1), 1e-4) << "norms know their own band alone";
}

/// Counts for what the job does: two images of float64, five evaluations, two of them
/// synchronous.
std::string counts_by_formula(const Way& way, int64_t number) {
  const PatchElements elements = patch_elements(config_of(way.network), 2, number);
  const int64_t all = 8 * (elements.layers + elements.output);
  int64_t others = all;
  if (way.mode == "no_sync") others -= 8 * elements.layers;
  if (way.mode == "separate_gn") others -= 8 * elements.norms;
  if (way.mode == "full_sync") {
    return fmt::format("5 steps, {0} of {0} bytes; 0 steps, 0 of 0 bytes", 5 * all);
  }
  return fmt::format("2 steps, {0} of {0} bytes; 3 steps, {1} of {1} bytes", 2 * all, 3 * others);
}

TEST(PatchParallel, gives_as_many_bytes_as_the_formula_says) {
  for (const std::string network : {"ho", "pooled", "lucid"}) {
    for (const std::string& mode : patch_modes()) {
      const Way way{network, mode};
      EXPECT_EQ(evaluated(2, way).counts, counts_by_formula(way, 2)) << network;
    }
    const Way way{network, "full_sync"};
    EXPECT_EQ(evaluated(4, way).counts, counts_by_formula(way, 4)) << network;
  }
}

/// The image of "1" has not changed, that of "2" has.
TEST(PatchParallel, rules_for_norms_differ_in_whose_statistics_they_take) {
  const auto off_of = [](const std::string& mode, const std::string& name, size_t number) {
    const Way way{"ho", mode};
    return off(evaluated(2, way), way, name, number);
  };
  for (const char* mode : {"displaced", "sync_gn", "stale_gn"}) {
    EXPECT_LT(off_of(mode, "1", 1), 1e-12) << mode;
  }
  EXPECT_GT(off_of("separate_gn", "1", 1), 1e-4) << "norms know their own band alone";
  const std::set<double> all{off_of("displaced", "2", 2), off_of("sync_gn", "2", 2),
                             off_of("stale_gn", "2", 2), off_of("separate_gn", "2", 2)};
  EXPECT_EQ(all.size(), 4U);
}

/// The bytes are counted by hand, for one image of 1 x 8 x 8 and a network of one stage with four
/// channels.
TEST(PatchBytes, of_a_small_network_are_what_one_counts_by_hand) {
  ModelConfig config;
  config.name = "lucid-unet";
  config.channels = 1;
  config.resolution = 8;
  config.dim = 4;
  config.dim_mults = {1};
  config.attn_heads = 1;
  config.attn_dim_head = 2;
  const PatchElements found = patch_elements(config, 1, 2);
  // Rows of eight: down 2 blocks (4, 4), up 2 blocks (8, 4), middle 2 (4, 4), last (8, 4), and the
  // last convolutions of the stage (4) and (4).
  const int64_t rows = 2 * 8 * (2 * (4 + 4) + 2 * (8 + 4) + 2 * (4 + 4) + (8 + 4) + 4 + 4);
  const int64_t keys = 3 * (4 * 8) * (2 * 2);  // three attentions, half of the 8 x 8 pixels
  EXPECT_EQ(found.layers, rows + keys);
  EXPECT_EQ(found.output, 4 * 8);
}

TEST(PatchBytes, count_the_group_norms_of_the_network) {
  for (const char* network : {"ho", "pooled", "lucid"}) {
    int64_t norms = 0;
    for (const auto& module : network_of(network, at::kFloat)->modules()) {
      if (module->as<torch::nn::GroupNorm>() != nullptr) ++norms;
    }
    const bool between_bands = std::string(network) != "lucid";  // its norms are over channels
    EXPECT_EQ(patch_elements(config_of(network), 1, 2).group_norms, between_bands ? norms : 0);
  }
}

TEST(PatchParallel, refuses_bands_that_cannot_be_halved_as_the_picture_is) {
  const ModelConfig config = config_of("ho");
  require_equal_bands(4, config);
  EXPECT_EQ(test::outcome([&] { require_equal_bands(3, config); }),
            std::pair(ExitCode::kBadInput,
                      std::string("--patch-parallel: 3 (a divisor of the 16 rows that the image "
                                  "has in its lowest stage)")));
}

TEST(PatchParallel, refuses_bands_beyond_which_a_layer_reads) {
  ModelConfig config = config_of("lucid");
  config.resolution = 16;
  config.dim_mults = {1, 2};
  require_equal_bands(4, config);
  EXPECT_EQ(test::outcome([&] { require_equal_bands(8, config); }),
            std::pair(ExitCode::kBadInput,
                      std::string("--patch-parallel: 8 (at most 5: the first convolution reaches 3 "
                                  "rows into the next band)")));
}

}  // namespace
}  // namespace noisemark::suite
