// The Fréchet distance of two sets of moments, again and again, so that a Python script can time it
// beside the peers in one run; both files are read before the first turn.
//   noisemark_frechet_turns A.npz B.npz THREADS
// Speaks the protocol of baselines/peers/pace.py: a step is one distance, and a turn's answer holds
// its value too.

#include <ATen/Parallel.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "reports/base/error.h"
#include "suite/io/numpy.h"
#include "suite/quality/distance/frechet.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::ordered_json;

Gaussian moments_in(const std::string& path) {
  const NpzFile file(path);
  return checked_gaussian(file.array("mu"), file.array("sigma"), path);
}

int threads_of(const std::string& word) {
  int threads = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), threads);
  if (error == std::errc{} && stop == word.data() + word.size() && threads >= 1) return threads;
  throw bad_input("noisemark_frechet_turns", "THREADS", word, "an integer of at least 1");
}

Json take_turn(const Gaussian& a, const Gaussian& b, int64_t steps) {
  std::vector<double> step_s;
  FrechetDistance distance;
  for (int64_t i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    distance = frechet_distance(a, b);
    step_s.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return {{"step_s", step_s}, {"value", distance.value}, {"method", distance.method}};
}

void run(const std::vector<std::string>& words) {
  if (words.size() != 3) {
    throw bad_input("noisemark_frechet_turns", "arguments", std::to_string(words.size()),
                    "A.npz B.npz THREADS");
  }
  const int threads = threads_of(words[2]);
  at::set_num_threads(threads);
  const Gaussian a = moments_in(words[0]);
  const Gaussian b = moments_in(words[1]);
  const Json ready = {{"ready", true}, {"batch", 1}, {"threads", threads}};
  std::cout << ready.dump() << std::endl;
  std::string word;
  while (std::cin >> word && word != "quit") {
    int64_t steps = 0;
    std::cin >> steps;
    std::cout << take_turn(a, b, steps).dump() << std::endl;
  }
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  try {
    noisemark::suite::run({argv + 1, argv + argc});
    return 0;
  } catch (const noisemark::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(noisemark::ExitCode::kInternal);
  }
}
