#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "memopt/modes/budget.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/modes/planned_mode.h"
#include "suite/io/safetensors.h"
#include "suite/train/trainer.h"
#include "tests/suite/parallel/ranks.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

using test::kLimit;
using test::LastGradients;
using test::outcome;
using test::put_bytes;
using test::Ranks;
using test::tiny_definition;
using test::TinySession;
using test::Words;

/// Every mode that settles follows its plan after that many steps.
constexpr int64_t kSteps = 8;

/// The settings by which the session of a rank, or that of one process for all, is made.
struct Way {
  std::string precision = "fp32";
  std::string mode = "none";
  int64_t accumulation = 1;
  std::string dropout = "0";
  std::string reduction = "exact";
  std::string schedule = "1f1b";
  int64_t micro_batches = 0;  ///< micro-batches of a pipeline; 0: no pipeline
  std::string model = "lucid-unet";

  [[nodiscard]] Words words() const {
    return {precision, mode,     std::to_string(accumulation),  dropout,
            reduction, schedule, std::to_string(micro_batches), model};
  }
};

Way way_of(const Words& words) {
  return {words.at(0), words.at(1), std::stoll(words.at(2)), words.at(3),
          words.at(4), words.at(5), std::stoll(words.at(6)), words.at(7)};
}

/// Weights stay where they are, so that every step's gradient is that of the same weights.
Definition still_definition(const Way& way) {
  Definition definition = tiny_definition();
  definition.model.name = way.model;
  definition.model.groups = 4;
  definition.model.dropout = std::stod(way.dropout);
  definition.optimizer.lr = 1e-30;
  definition.train.batch = 8;
  definition.train.accumulation = way.accumulation;
  return definition;
}

TrainerOptions options_in(std::shared_ptr<Group> group, const std::string& precision) {
  TrainerOptions options = TinySession::options_of(parse_precision(precision, at::kCPU), at::kCPU);
  options.group = std::move(group);
  return options;
}

/// Stages of parts whose number is the same in every run, because where a network is divided moves
/// last bits. Cuts in its middle, so that skip connections cross.
std::shared_ptr<Division> divided_for(int64_t stages) {
  Division division;
  for (int64_t stage = 0; stage < stages; ++stage) {
    division.firsts.push_back(static_cast<size_t>(stage == 0 ? 0 : 4 + 3 * stage));
  }
  division.part_s.assign(64, 0);
  return std::make_shared<Division>(division);
}

TinySession session_of(const Way& way, const std::shared_ptr<Group>& group) {
  TrainerOptions options = options_in(group, way.precision);
  options.reduction = reduction_of(way.reduction);
  options.pipeline.schedule = pipeline_schedule_of(way.schedule);
  options.pipeline.micro_batches = way.micro_batches;
  if (group) options.pipeline.division = divided_for(group->rank().ranks);
  return TinySession(still_definition(way), options, way.mode);
}

/// Trains. Returns the last gradients, and the loss of their step.
NamedTensors last_gradients(const TinySession& session) {
  LastGradients last(*session.trainer);
  double loss = 0;
  for (int64_t step = 0; step < kSteps; ++step) loss = session.trainer->step({&last}).loss;
  NamedTensors found = last.gradients();
  found.emplace_back("loss", at::scalar_tensor(loss, at::kDouble).reshape({1}));
  return found;
}

NamedTensors train(const Way& way, const std::shared_ptr<Group>& group) {
  return last_gradients(session_of(way, group));
}

const test::NamedJob kGradients{
    "gradients", [](const Rank& rank, const Words& words, const std::string& out) {
      write_safetensors(out + "/found", train(way_of(words), Group::join(rank, kLimit)));
    }};

/// Has each rank do the job; empty if one failed. `read` takes the file of a rank's findings.
template <typename Read>
auto found_by_ranks(int64_t number, const std::string& job, const Way& way, const Read& read) {
  Ranks ranks(number, job, way.words());
  for (int64_t rank = 0; rank < number; ++rank) ranks.start(rank);
  const std::vector<int> codes = ranks.wait();
  std::vector<decltype(read(std::string()))> found;
  for (int64_t rank = 0; rank < number; ++rank) {
    EXPECT_EQ(codes[static_cast<size_t>(rank)], 0) << ranks.words_of(rank);
    if (codes[static_cast<size_t>(rank)] != 0) return decltype(found){};
    found.push_back(read(ranks.out(rank) + "/found"));
  }
  return found;
}

/// Each rank's findings.
std::vector<NamedTensors> trained_by_ranks(int64_t number, const Way& way) {
  return found_by_ranks(number, "gradients", way, [](const std::string& file) {
    const auto tensors = read_safetensors(file).tensors;
    return NamedTensors(tensors.begin(), tensors.end());
  });
}

at::Tensor as_one_vector(const NamedTensors& tensors) {
  NamedTensors sorted = tensors;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : sorted) parts.push_back(tensor.flatten().to(at::kDouble));
  return at::cat(parts);
}

double distance(const NamedTensors& a, const NamedTensors& b) {
  const at::Tensor whole = as_one_vector(b);
  return at::linalg_vector_norm(as_one_vector(a) - whole).item<double>() /
         at::linalg_vector_norm(whole).item<double>();
}

void expect_gradients_of_one(int64_t number, const Way& way, double tolerance) {
  const NamedTensors one = train(way, nullptr);
  for (const NamedTensors& found : trained_by_ranks(number, way)) {
    EXPECT_LE(distance(found, one), tolerance);
  }
}

// 1e-6 is the bound of the suite's definition of data parallelism; the sum of eight samples in
// another order moves float32 by some 1e-7. In float64 it moves by some 1e-16.
constexpr double kSingle = 1e-6;
constexpr double kDouble = 1e-12;

TEST(GradientsOfRanks, two_have_that_of_one_on_the_joined_batch) {
  expect_gradients_of_one(2, {"fp32", "none", 1, "0"}, kSingle);
}

TEST(GradientsOfRanks, four_have_it_too_with_accumulation_and_dropout) {
  expect_gradients_of_one(4, {"fp32", "none", 2, "0.1"}, kSingle);
}

TEST(GradientsOfRanks, masks_of_dropout_are_those_of_one_rank) {
  expect_gradients_of_one(2, {"fp64", "none", 1, "0.5"}, kDouble);
}

/// Attention leaves its activations in another order of memory, in which masks are drawn.
TEST(GradientsOfRanks, masks_of_dropout_after_attention_are_those_of_one_rank) {
  Way way{"fp64", "none", 1, "0.5"};
  way.model = "ho-unet";
  expect_gradients_of_one(2, way, kDouble);
}

TEST(GradientsOfRanks, micro_batches_are_those_of_one_rank) {
  expect_gradients_of_one(2, {"fp64", "none", 4, "0.5"}, kDouble);
}

/// The findings of a rank about a mode beside "none".
struct Certificate {
  std::string mode;
  int64_t followed = 0;  ///< passes that followed the mode's plan
  double bound = 0;      ///< most that the gradient may be off; 0: not by a bit
  double error = 0;
  std::string bits;  ///< digest of gradients and loss
};

/// The most that a mode may move the gradient of a step that it did not measure.
double bound_of(const std::string& mode) {
  if (mode.starts_with("budget:")) return 2 * memopt::parse_budget(mode).error.value_or(0);
  const memopt::ModeWord* rounding = memopt::parse_mode(mode).rounding();
  return rounding == nullptr ? 0 : rounding->gradient_bound;
}

/// Every word of the grammar, all places together, and budgets near what `mirror` needs, with room
/// for the optimizer and for what goes on its way.
std::vector<std::string> every_mode(const memopt::PlanEstimate& of_mirror) {
  std::vector<std::string> modes{"echo+attn+gist+dpr8+offload:all"};
  for (const memopt::ModeWord& word : memopt::mode_words()) modes.emplace_back(word.word);
  const std::string saved = fmt::format("budget:saved={}", of_mirror.peak_saved_bytes * 9 / 8);
  modes.push_back(fmt::format("budget:{}", of_mirror.peak_bytes.value() * 9 / 8));
  modes.insert(modes.end(), {saved, saved + ",error=0.05"});
  return modes;
}

memopt::PlanEstimate estimate_of_mirror(const Way& way, const std::shared_ptr<Group>& group) {
  const TinySession session = session_of(way, group);
  (void)last_gradients(session);
  return dynamic_cast<const memopt::PlannedMode&>(*session.mode).estimate().value();
}

Certificate certify(const Way& way, const std::shared_ptr<Group>& group, const NamedTensors& none) {
  const TinySession session = session_of(way, group);
  const NamedTensors found = last_gradients(session);
  return {way.mode, memopt::report_of(*session.mode).followed_passes, bound_of(way.mode),
          distance(found, none), tensors_sha256(found)};
}

const test::NamedJob kCertificates{
    "certificates", [](const Rank& rank, const Words& words, const std::string& out) {
      const auto group = Group::join(rank, kLimit);
      Way way = way_of(words);
      const NamedTensors none = train(way, group);
      way.mode = "mirror";
      std::string lines = fmt::format("none 1 0 0 {}\n", tensors_sha256(none));
      for (const std::string& mode : every_mode(estimate_of_mirror(way, group))) {
        way.mode = mode;
        const Certificate found = certify(way, group, none);
        lines += fmt::format("{} {} {} {} {}\n", found.mode, found.followed, found.bound,
                             found.error, found.bits);
      }
      put_bytes(out + "/found", lines);
    }};

std::vector<Certificate> read_certificates(const std::string& file) {
  std::istringstream lines(test::file_bytes(file));
  std::vector<Certificate> all;
  for (Certificate one; lines >> one.mode >> one.followed >> one.bound >> one.error >> one.bits;) {
    all.push_back(one);
  }
  return all;
}

void expect_certified(const Certificate& found, const std::string& bits_of_none) {
  EXPECT_GE(found.followed, 1) << "it kept everything";
  EXPECT_LE(found.error, found.bound);
  if (found.bound == 0) {
    EXPECT_EQ(found.bits, bits_of_none);
  } else {
    EXPECT_GT(found.error, 0) << "nothing was rounded";
  }
}

/// The certificate of every mode, on each rank, and equal gradients on all of them.
void expect_every_mode_certified(int64_t number) {
  const auto ranks =
      found_by_ranks(number, "certificates", {"fp32", "none", 2, "0.1"}, read_certificates);
  ASSERT_EQ(std::ssize(ranks), number);
  for (const std::vector<Certificate>& found : ranks) {
    ASSERT_EQ(found.size(), memopt::mode_words().size() + 5);
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(found[i].mode);
      expect_certified(found[i], found.front().bits);
      EXPECT_EQ(found[i].bits, ranks.front()[i].bits) << "another gradient than rank 0";
    }
  }
}

TEST(GradientsOfRanks, of_two_keep_the_promise_of_every_mode) {
  expect_every_mode_certified(2);
}

TEST(GradientsOfRanks, of_four_keep_the_promise_of_every_mode) {
  expect_every_mode_certified(4);
}

TEST(GradientsOfRanks, rounded_to_bf16_are_near_and_the_same_on_all_ranks) {
  Way way{"fp32", "none", 2, "0.1"};
  const NamedTensors one = train(way, nullptr);
  way.reduction = "bf16";
  const std::vector<NamedTensors> found = trained_by_ranks(2, way);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(at::equal(as_one_vector(found[0]), as_one_vector(found[1])));
  // A rounding to eight bits moves a number by at most 2^-9 of it. There are three: of two halves,
  // each of which may be as long as the mean, and of their sum.
  EXPECT_LE(distance(found[0], one), 3 * 0x1p-9);
  EXPECT_GE(distance(found[0], one), 1e-4) << "nothing was rounded";
}

/// The gradients of all stages, and the loss, which every stage knows.
NamedTensors trained_by_stages(int64_t number, const Way& way) {
  std::map<std::string, at::Tensor> all;
  for (const NamedTensors& found : trained_by_ranks(number, way)) {
    for (const auto& [name, tensor] : found) {
      const auto [known, is_new] = all.try_emplace(name, tensor);
      if (is_new) continue;
      EXPECT_EQ(name, "loss") << "two stages have it";
      EXPECT_TRUE(at::equal(known->second, tensor));
    }
  }
  return {all.begin(), all.end()};
}

class PipelineGradients : public testing::TestWithParam<const char*> {};

// Micro-batches are summed in another order: kSingle and kDouble, as for ranks.
TEST_P(PipelineGradients, of_two_stages_are_those_of_one_device) {
  Way way{"fp32", "none", 1, "0.1"};
  const NamedTensors one = train(way, nullptr);
  way.schedule = GetParam();
  way.micro_batches = 4;
  EXPECT_LE(distance(trained_by_stages(2, way), one), kSingle);
}

TEST_P(PipelineGradients, of_three_stages_and_the_other_network_are_too) {
  Way way{"fp64", "none", 1, "0.5"};
  way.model = "ho-unet";
  const NamedTensors one = train(way, nullptr);
  way.schedule = GetParam();
  for (const int64_t micro_batches : {2, 4}) {
    way.micro_batches = micro_batches;
    EXPECT_LE(distance(trained_by_stages(3, way), one), kDouble) << micro_batches;
  }
}

TEST_P(PipelineGradients, keep_every_bit_under_lossless_modes) {
  Way way{"fp32", "none", 1, "0.1"};
  way.schedule = GetParam();
  way.micro_batches = 2;
  const at::Tensor plain = as_one_vector(trained_by_stages(2, way));
  for (const char* mode : {"echo", "gist", "offload:all"}) {
    way.mode = mode;
    EXPECT_TRUE(at::equal(as_one_vector(trained_by_stages(2, way)), plain)) << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineGradients, testing::Values("gpipe", "1f1b"));

Definition moving_definition() {
  Definition definition = tiny_definition();
  definition.train.batch = 8;
  return definition;
}

std::string trained(const Definition& definition, const std::shared_ptr<Group>& group,
                    double* loss = nullptr, bool shards = false) {
  TrainerOptions options = options_in(group, "fp32");
  options.shard_optimizer = shards;
  const TinySession session(definition, options);
  for (int64_t step = 0; step < kSteps; ++step) {
    const StepRecord record = session.trainer->step();
    if (loss != nullptr) *loss = record.loss;
  }
  return tensors_sha256(session.trainer->weights()) +
         tensors_sha256(session.trainer->averaged_weights());
}

const test::NamedJob kTrain{
    "train", [](const Rank& rank, const Words&, const std::string& out) {
      double loss = 0;
      put_bytes(out + "/weights", trained(moving_definition(), Group::join(rank, kLimit), &loss));
      put_bytes(out + "/loss", std::to_string(loss));
    }};

TEST(RanksTrain, to_the_same_weights_and_the_loss_of_one) {
  Ranks ranks(2, "train");
  ranks.start(0);
  ranks.start(1);
  ASSERT_EQ(ranks.wait(), (std::vector{0, 0})) << ranks.words_of(0);
  EXPECT_EQ(test::file_bytes(ranks.out(0) + "/weights"),
            test::file_bytes(ranks.out(1) + "/weights"));
  double loss = 0;
  (void)trained(moving_definition(), nullptr, &loss);
  for (int64_t rank = 0; rank < 2; ++rank) {
    // Roundings of the gradient, which Adam's first steps make as large as the step: by trial.
    EXPECT_NEAR(std::stod(test::file_bytes(ranks.out(rank) + "/loss")), loss, 1e-4 * loss);
  }
}

/// The bytes of what a rank keeps.
int64_t bytes_of(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    // Counts of steps: four bytes for each piece.
    if (tensor.dim() > 0) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

const test::NamedJob kShard{
    "shard", [](const Rank& rank, const Words& words, const std::string& out) {
      Definition definition = moving_definition();
      definition.train.batch = 12;
      definition.ema = test::tiny_averages().at(std::stoul(words.at(1)));
      const auto group = Group::join(rank, kLimit);
      put_bytes(out + "/weights", trained(definition, group, nullptr, words.front() == "shards"));
      TrainerOptions options = options_in(group, "fp32");
      options.shard_optimizer = true;
      const TinySession session(definition, options);
      put_bytes(out + "/optimizer", std::to_string(bytes_of(session.trainer->optimizer_state())));
      put_bytes(out + "/ema", std::to_string(bytes_of(session.trainer->ema().shadows())));
      put_bytes(out + "/all", std::to_string(bytes_of(session.trainer->parameters())));
    }};

/// Returns what the ranks wrote under `names`.
std::vector<std::string> sharded(int64_t number, const Words& words,
                                 const std::vector<std::string>& names) {
  Ranks ranks(number, "shard", words);
  for (int64_t rank = 0; rank < number; ++rank) ranks.start(rank);
  EXPECT_EQ(ranks.wait(), std::vector<int>(static_cast<size_t>(number), 0)) << ranks.words_of(0);
  std::vector<std::string> found;
  for (int64_t rank = 0; rank < number; ++rank) {
    for (const std::string& name : names) {
      found.push_back(test::file_bytes(ranks.out(rank) + "/" + name));
    }
  }
  return found;
}

TEST(ShardsOfTheOptimizer, keep_every_bit_of_weights_and_average) {
  for (const char* average : {"0", "1"}) {
    for (const int64_t number : {2, 3}) {
      const auto whole = sharded(number, {"whole", average}, {"weights"});
      EXPECT_EQ(sharded(number, {"shards", average}, {"weights"}), whole) << number;
      EXPECT_FALSE(whole.front().empty());
    }
  }
}

TEST(ShardsOfTheOptimizer, are_equal_to_a_block) {
  constexpr int64_t kNumber = 3;
  constexpr int64_t kBlockBytes = kShardBlock * 4;
  const auto found = sharded(kNumber, {"shards", "0"}, {"optimizer", "ema", "all"});
  for (size_t i = 0; i < found.size(); i += 3) {
    const int64_t share = std::stoll(found[i + 2]) / kNumber;
    EXPECT_LE(std::llabs(std::stoll(found[i]) - 2 * share), 2 * kBlockBytes);
    EXPECT_LE(std::llabs(std::stoll(found[i + 1]) - share), kBlockBytes);
  }
}

TEST(ShardsOfTheOptimizer, hold_every_element_once_and_end_at_blocks) {
  const std::vector<int64_t> elements{1, 640, 3, 100, 65, 1000, 7};
  for (const int64_t number : {1, 2, 3, 5}) {
    std::vector<int64_t> reached(elements.size());
    for (const Pieces& share : divide(elements, number)) {
      for (const Piece& piece : share) {
        EXPECT_EQ(piece.begin, reached[piece.tensor]);
        EXPECT_EQ(piece.begin % kShardBlock, 0);
        reached[piece.tensor] = piece.end;
      }
    }
    EXPECT_EQ(reached, elements) << number;
  }
}

std::shared_ptr<Group> group_of_one() {
  return Group::join({.address = "127.0.0.1", .port = test::free_port()}, kLimit);
}

TEST(RanksTrain, and_one_rank_alone_keeps_every_bit) {
  const Definition definition = moving_definition();
  EXPECT_EQ(trained(definition, group_of_one()), trained(definition, nullptr));
}

/// The bytes that a step of one rank reduces, which are those of the gradient over `divisor`.
void expect_reduced(Reduction reduction, int64_t divisor) {
  Definition definition = moving_definition();
  definition.train.accumulation = 2;
  TrainerOptions options = options_in(group_of_one(), "fp32");
  options.reduction = reduction;
  const TinySession session(definition, options);
  int64_t bytes = 0;
  for (const auto& [name, weight] : session.trainer->weights()) {
    bytes += static_cast<int64_t>(weight.nbytes());
  }
  (void)session.trainer->step();
  EXPECT_EQ(session.trainer->reducer()->reduced().bytes * divisor, bytes);
  EXPECT_GE(session.trainer->reducer()->reduced().operations, 1);
}

TEST(RanksTrain, on_every_byte_of_the_gradient_once_a_step) {
  expect_reduced(Reduction::kExact, 1);
}

TEST(RanksTrain, on_half_of_the_bytes_where_they_are_rounded_to_bf16) {
  expect_reduced(Reduction::kBf16, 2);
}

Batch first_batch(const Definition& definition, const BatchShare& share) {
  LoaderOptions options;
  options.last_step = 1;
  options.share = share;
  return Loader(open_dataset(definition, ""), definition, options).next();
}

TEST(RanksTrain, on_samples_whose_pictures_times_and_noise_are_those_of_the_whole_batch) {
  const Definition definition = moving_definition();
  const Batch whole = first_batch(definition, {});
  const Batch first = first_batch(definition, {0, 2});
  const Batch second = first_batch(definition, {1, 2});
  EXPECT_TRUE(at::equal(at::cat({first.images, second.images}), whole.images));
  EXPECT_TRUE(at::equal(at::cat({first.timesteps, second.timesteps}), whole.timesteps));
  EXPECT_TRUE(at::equal(at::cat({first.noise, second.noise}), whole.noise));
  EXPECT_FALSE(at::equal(first.noise, second.noise));
}

/// Returns how a trainer names the first non-finite tensor of a step that `spoil` broke.
std::string first_non_finite(const Definition& definition, TrainerOptions options,
                             const std::function<void(const NamedTensors&)>& spoil) {
  const TinySession session(definition, options);
  spoil(session.trainer->parameters());
  try {
    (void)session.trainer->step();
    return "none";
  } catch (const NonFinite& error) {
    return error.tensor();
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void make_gradient_infinite(const at::Tensor& parameter) {
  parameter.register_hook([](const at::Tensor& gradient) { return gradient * kInfinity; });
}

/// One text for each place where a number can overflow: in the loss and in a gradient of rank 1, in
/// a weight of all ranks, and in the norm of gradients that are finite.
const test::NamedJob kOverflows{
    "overflows", [](const Rank& rank, const Words& /*words*/, const std::string& out) {
      const Definition definition = tiny_definition();
      const TrainerOptions options = options_in(Group::join(rank, kLimit), "fp32");
      TrainerOptions spoiled = options;
      if (rank.rank == 1) spoiled.fault.loss_factor = kInfinity;
      std::string found = first_non_finite(definition, spoiled, [](const auto&) {}) + "\n";
      found += first_non_finite(definition, options,
                                [&](const NamedTensors& parameters) {
                                  if (rank.rank == 1) make_gradient_infinite(parameters[3].second);
                                }) +
               "\n";
      found += first_non_finite(definition, options,
                                [](const NamedTensors& parameters) {
                                  parameters[3].second.detach().fill_(kInfinity);
                                }) +
               "\n";
      found +=
          first_non_finite(definition, options,
                           [](const NamedTensors& parameters) {
                             parameters[3].second.register_hook([](const at::Tensor& gradient) {
                               return at::full_like(gradient, 3e38F);
                             });
                           }) +
          "\n";
      put_bytes(out + "/found", found);
    }};

TEST(RanksTrain, and_name_the_rank_on_which_a_number_overflowed_first) {
  Ranks ranks(2, "overflows");
  for (int64_t rank = 0; rank < 2; ++rank) ranks.start(rank);
  EXPECT_EQ(ranks.wait(), (std::vector<int>{0, 0})) << ranks.words_of(0) << ranks.words_of(1);
  const std::string third = TinySession(tiny_definition()).trainer->parameters()[3].first;
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(test::file_bytes(ranks.out(rank) + "/found"),
              "output of aten::mul in forward on rank 1\ngradient of " + third +
                  " on rank 1\nweight " + third + "\nnorm of the gradients\n");
  }
}

/// A training through c10d's Reducer as the only rank, and the same one without ranks.
struct OneRank {
  explicit OneRank(const Definition& definition)
      : without(definition), by_one(definition, options_in(group, "fp32")) {}

  static std::shared_ptr<Group> alone() {
    return Group::join({.address = "127.0.0.1", .port = test::free_port()}, kLimit);
  }

  std::shared_ptr<Group> group = alone();
  TinySession without;
  TinySession by_one;
};

TEST(OneRank, trains_with_the_bits_of_a_training_without_ranks) {
  const OneRank pair(tiny_definition());
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(pair.without.trainer->step().loss, pair.by_one.trainer->step().loss) << step;
  }
  EXPECT_GE(pair.group->traffic().operations, kSteps) << "gradients were not reduced";
}

}  // namespace
}  // namespace noisemark::suite
