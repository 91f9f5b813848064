#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "memopt/plan/block_program.h"

// Times planning over blocks whose choices are already known, at three budgets between the
// smallest possible peak and that of the cheapest selection. `gap` says how far the answer may be
// from the cheapest; 0 is exact.
namespace noisemark::memopt::plan {
namespace {

constexpr size_t kBlocks = 40;
constexpr size_t kChoices = 50;

/// The cost of saving all of a block's bytes, and how it grows up to there.
constexpr size_t kLabels = 1'000;

enum class Cost {
  kConvex,        ///< the first bytes are cheap, as when the cheapest operators are replayed first
  kProportional,  ///< every byte costs the same, as when everything is copied to the host
  kWithError,     ///< convex, and some choices lose precision for less time
};

std::vector<Block> make_blocks(Cost cost) {
  std::mt19937_64 generator(1);
  const auto fraction = [&] { return std::ldexp(static_cast<double>(generator() >> 11U), -53); };
  std::vector<Block> blocks(kBlocks);
  for (Block& block : blocks) {
    const double size = 64e6 * (0.2 + fraction());
    for (size_t i = 0; i < kChoices; ++i) {
      Choice& choice = block.emplace_back();
      const double part = i == 0 ? 1 : fraction();
      const double error = cost == Cost::kWithError && i > 0 ? std::max(0.0, fraction() - 0.5) : 0;
      const double saved = cost == Cost::kProportional ? 1 - part : std::pow(1 - part, 1.5);
      const double rate = cost == Cost::kProportional ? 1 : (0.8 + 0.4 * fraction()) * (1 - error);
      choice.held_bytes = std::llround(size * part);
      choice.window_bytes = std::llround(size * std::max(part, 0.6 + 0.8 * fraction()));
      choice.cost_ns = 0.1 * size * saved * rate;
      choice.error_squared = error * 1e-6;
    }
  }
  return blocks;
}

void solve_at(benchmark::State& state, Cost cost) {
  const std::vector<Block> blocks = make_blocks(cost);
  Limits limits;
  if (cost == Cost::kWithError) limits.error_squared = 1e-6 * 0.05 * kBlocks;
  const int64_t highest = solve(blocks, limits, kLabels)->peak_bytes;
  const int64_t lowest = smallest_peak(blocks, limits);
  limits.peak_bytes = lowest + (highest - lowest) * state.range(0) / 100;
  for (auto _ : state) benchmark::DoNotOptimize(solve(blocks, limits, kLabels));
}

void add_all() {
  const std::vector<std::pair<const char*, Cost>> kinds = {
      {"solve/convex", Cost::kConvex},
      {"solve/proportional", Cost::kProportional},
      {"solve/with_error", Cost::kWithError}};
  for (const auto& [name, cost] : kinds) {
    benchmark::RegisterBenchmark(name, [cost](benchmark::State& state) { solve_at(state, cost); })
        ->ArgName("budget_percent")
        ->Arg(20)
        ->Arg(50)
        ->Arg(80)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace noisemark::memopt::plan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  noisemark::memopt::plan::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
