/// Seconds of the distances between sets of d features.

#include <benchmark/benchmark.h>

#include "suite/quality/distance/frechet.h"
#include "suite/quality/distance/measures.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace {

using namespace noisemark::suite;  // NOLINT(google-build-using-namespace): a program, not a header

/// A spectrum as features have one: six decades.
at::Tensor features(uint64_t seed, int64_t n, int64_t d) {
  return test::normals(seed, n, d) * test::spectrum(d, 3);
}

Gaussian gaussian(uint64_t seed, int64_t d) {
  Moments moments(d);
  moments.add(features(seed, 3 * d, d));
  return moments.gaussian();
}

void frechet_of_moments(benchmark::State& state) {
  const Gaussian a = gaussian(1, state.range(0));
  const Gaussian b = gaussian(2, state.range(0));
  for (auto _ : state) {
    const FrechetDistance distance = frechet_distance(a, b);
    state.SetLabel(std::string(distance.method));
    benchmark::DoNotOptimize(distance.value);
  }
}
BENCHMARK(frechet_of_moments)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();

void frechet_of_few_features(benchmark::State& state) {
  const int64_t d = state.range(0);
  const at::Tensor a = features(1, d / 4, d);
  const at::Tensor b = features(2, d / 4, d);
  for (auto _ : state) benchmark::DoNotOptimize(frechet_distance(a, b).value);
}
BENCHMARK(frechet_of_few_features)
    ->Arg(256)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void moments_of_a_batch(benchmark::State& state) {
  const int64_t d = state.range(0);
  const at::Tensor batch = features(1, 256, d).to(at::kFloat);
  Moments moments(d);
  for (auto _ : state) moments.add(batch);
  state.SetItemsProcessed(state.iterations() * 256);
}
BENCHMARK(moments_of_a_batch)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();

void kernel_distance_of_ten_subsets(benchmark::State& state) {
  const at::Tensor a = features(1, 2000, state.range(0)).to(at::kFloat);
  const at::Tensor b = features(2, 2000, state.range(0)).to(at::kFloat);
  KernelDistanceOptions options;
  options.subsets = 10;
  for (auto _ : state) benchmark::DoNotOptimize(kernel_distance(a, b, options).mean);
}
BENCHMARK(kernel_distance_of_ten_subsets)
    ->Arg(256)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void precision_recall_of_2000(benchmark::State& state) {
  const at::Tensor a = features(1, 2000, state.range(0));
  const at::Tensor b = features(2, 2000, state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(precision_recall(a, b).recall_frac);
}
BENCHMARK(precision_recall_of_2000)
    ->Arg(256)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
