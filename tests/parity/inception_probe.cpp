// The Inception network on tensors that a Python script wrote, so that the script can compare it
// with the peers, or time it beside them. A request in JSON; tensors come and go as safetensors.
//   noisemark_inception_probe '{"command": "features", "weights": "w.safetensors",
//     "resize": "tf1-bilinear", "taps": ["64", "2048"], "in": "request.safetensors", "out":
//     "reply.safetensors"}'
//   "input" gives the resized images, "distances" FID and KID of the images "a" and "b" at the
//   first tap, "inception-score" that of "a"; subsets and splits are drawn as torch-fidelity does.
//   noisemark_inception_probe pace '{"weights": "w.safetensors", "resize": "tf1-bilinear",
//     "batch": 16, "resolution": 32, "threads": 2}'

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "suite/io/safetensors.h"
#include "suite/quality/distance/draws.h"
#include "suite/quality/distance/frechet.h"
#include "suite/quality/distance/measures.h"
#include "suite/quality/inception/extractor.h"
#include "suite/quality/inception/weights.h"

namespace noisemark::suite::inception {
namespace {

using Json = nlohmann::json;

// torch-fidelity's own seed.
constexpr uint32_t kSeed = 2020;

at::Tensor pictures_of(const Json& request, const std::string& wanted = "pictures") {
  const SafetensorsFile file = read_safetensors(request.at("in"));
  for (const auto& [name, tensor] : file.tensors) {
    if (name == wanted) return tensor;
  }
  throw bad_input("request", wanted, "missing", "a tensor");
}

/// The names of requests and replies, in the order of kTaps.
constexpr std::array<std::string_view, kTaps.size()> kTapNames{"64", "192", "768", "2048",
                                                               "logits"};

Tap tap_named(const std::string& name) {
  for (size_t i = 0; i < kTaps.size(); ++i) {
    if (kTapNames.at(i) == name) return kTaps.at(i);
  }
  throw bad_input("request", "taps", name, "64, 192, 768, 2048 or logits");
}

Extractor extractor_of(const Json& request) {
  Settings settings;
  settings.resize = resize_named(request.at("resize"));
  settings.batch = request.value("batch", settings.batch);
  return {read_weights(request.at("weights")), settings};
}

std::vector<Tap> taps_of(const Json& request) {
  std::vector<Tap> taps;
  for (const Json& name : request.at("taps")) taps.push_back(tap_named(name));
  return taps;
}

NamedTensors features(const Json& request) {
  const std::vector<Tap> taps = taps_of(request);
  const auto found = extractor_of(request).features(pictures_of(request), taps);
  NamedTensors reply;
  for (size_t i = 0; i < taps.size(); ++i)
    reply.emplace_back(kTapNames.at(static_cast<size_t>(taps[i])), found[i]);
  return reply;
}

NamedTensors input(const Json& request) {
  const at::Tensor prepared =
      network_input(pictures_of(request), resize_named(request.at("resize")));
  return {{"input", prepared.contiguous()}};
}

NamedTensors in_float64(const std::vector<std::pair<std::string, double>>& values) {
  NamedTensors reply;
  for (const auto& [name, value] : values) {
    reply.emplace_back(name, at::tensor({value}, at::kDouble));
  }
  return reply;
}

NamedTensors distances(const Json& request) {
  const Extractor extractor = extractor_of(request);
  const std::vector<Tap> taps = taps_of(request);
  const at::Tensor a = extractor.features(pictures_of(request, "a"), taps).front();
  const at::Tensor b = extractor.features(pictures_of(request, "b"), taps).front();
  KernelDistanceOptions options;
  options.subsets = request.at("kid_subsets");
  options.subset_size = request.at("kid_subset_size");
  options.draw = numpy_draws(kSeed);
  const KernelDistance kid = kernel_distance(a, b, options);
  return in_float64({{"fid", frechet_distance(a, b).value},
                     {"kid_mean", kid.mean},
                     {"kid_std", kid.standard_deviation}});
}

NamedTensors score(const Json& request) {
  constexpr std::array kTap{Tap::kLogits};
  const at::Tensor pictures = pictures_of(request, "a");
  const at::Tensor logits = extractor_of(request).features(pictures, kTap).front();
  const InceptionScore found =
      inception_score(logits, request.at("isc_splits"), numpy_permutation(kSeed, pictures.size(0)));
  return in_float64({{"mean", found.mean}, {"standard_deviation", found.standard_deviation}});
}

struct Command {
  std::string_view name;
  NamedTensors (*run)(const Json&);
};

constexpr std::array kCommands{Command{"features", features}, Command{"input", input},
                               Command{"distances", distances}, Command{"inception-score", score}};

void answer(const Json& request) {
  const std::string wanted = request.at("command");
  for (const Command& command : kCommands) {
    if (command.name == wanted) return write_safetensors(request.at("out"), command.run(request));
  }
  throw bad_input("request", "command", wanted, "features, input, distances or inception-score");
}

double seconds_of_one_batch(const Extractor& extractor, const at::Tensor& pictures) {
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(extractor.features(pictures));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The protocol of baselines/peers/pace.py.
void pace(const Json& request) {
  at::set_num_threads(request.at("threads"));
  const int64_t batch = request.at("batch");
  const int64_t resolution = request.at("resolution");
  const Extractor extractor = extractor_of(request);
  const at::Tensor pictures = at::randint(256, {batch, 3, resolution, resolution}, at::kByte);
  std::cout << Json{{"ready", true}, {"batch", batch}} << std::endl;
  std::string word;
  while (std::cin >> word && word != "quit") {
    int64_t steps = 0;
    std::cin >> steps;
    std::vector<double> step_s;
    for (int64_t s = 0; s < steps; ++s) step_s.push_back(seconds_of_one_batch(extractor, pictures));
    std::cout << Json(std::map<std::string, std::vector<double>>{{"step_s", step_s}}) << std::endl;
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() == 1) return answer(Json::parse(words[0]));
  if (words.size() == 2 && words[0] == "pace") return pace(Json::parse(words[1]));
  throw bad_input("arguments", "", "", "[pace] and one request in JSON");
}

}  // namespace
}  // namespace noisemark::suite::inception

int main(int argc, char** argv) {
  try {
    noisemark::suite::inception::run({argv + 1, argv + argc});
    return 0;
  } catch (const noisemark::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(noisemark::ExitCode::kInternal);
  }
}
