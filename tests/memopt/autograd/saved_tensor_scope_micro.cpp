#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/record/history.h"
#include "memopt/record/step_graph.h"
#include "tests/memopt/scoped_steps.h"

// The cost of training in the scope of mode "none", which asks for every saved tensor and is told
// to keep it: a training step of a small network with the scope and without it, in turns, because a
// machine's speed drifts by more than the difference. The smaller the images, the more of the
// step is the asking. Every planned mode watches calls in a forward pass, and that watch is timed
// in the same way. `overhead` is the median over rounds of the ratio of the two times, less 1.
//
// That watch also notes which memory is written without history: the last benchmark times one such
// write of a few elements, watched and not.
namespace noisemark::memopt {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void in_turns(benchmark::State& state, double (test::ScopedSteps::*timed)()) {
  test::ScopedSteps step(state.range(0));
  std::vector<double> without, with, ratios;
  for (auto _ : state) {
    const bool timed_first = ratios.size() % 2 == 1;
    if (timed_first) with.push_back((step.*timed)());
    without.push_back(step.without_scope());
    if (!timed_first) with.push_back((step.*timed)());
    ratios.push_back(with.back() / without.back());
  }
  state.counters["without_s"] = median(without);
  state.counters["with_s"] = median(with);
  state.counters["overhead"] = median(ratios) - 1;
}

void step_in_the_scope_of_none(benchmark::State& state) {
  in_turns(state, &test::ScopedSteps::in_scope);
}

void step_under_a_watch_of_calls(benchmark::State& state) {
  in_turns(state, &test::ScopedSteps::under_call_watch);
}

void write_without_history(benchmark::State& state) {
  const c10::NoGradGuard no_grad;
  const StepGraph graph;
  std::optional<CallWatch> watch;
  if (state.range(0) == 1) watch.emplace(graph);
  const at::Tensor memory = at::ones({16});
  for (auto _ : state) memory.mul_(1);
}

BENCHMARK(write_without_history)->ArgName("watched")->Arg(0)->Arg(1);
BENCHMARK(step_in_the_scope_of_none)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);
BENCHMARK(step_under_a_watch_of_calls)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace noisemark::memopt

int main(int argc, char** argv) {
  noisemark::memopt::install_saved_tensor_engine();
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
