#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "memopt/mode.h"
#include "memopt/saved_tensor_scope.h"
#include "tests/memopt/small_net.h"

// What it costs to train in the scope of mode "none", which asks for every saved tensor and is told
// to keep it: a training step of a small network with the scope and without it, in turns, because a
// machine's speed drifts by more than the difference. The smaller the pictures, the more of the
// step is the asking. `overhead` is the median over rounds of the ratio of the two times, less 1.
namespace noisemark::memopt {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Step {
 public:
  explicit Step(int64_t size) {
    at::manual_seed(1);
    net_ = std::make_unique<test::SmallNet>();
    x_ = at::randn({4, 3, size, size});
    target_ = at::randn({4, 3, size, size});
  }

  double without_scope() {
    const Clock::time_point begin = Clock::now();
    net_->train_step(x_, target_);
    return seconds_since(begin);
  }

  double in_scope() {
    const Clock::time_point begin = Clock::now();
    none_->begin_step(++number_);
    at::Tensor loss;
    {
      const SavedTensorScope scope(*none_);
      loss = at::mse_loss(net_->forward(x_), target_);
    }
    loss.backward();
    none_->end_step();
    net_->update();
    net_->average();
    net_->zero_grad();
    return seconds_since(begin);
  }

 private:
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  std::unique_ptr<test::SmallNet> net_;
  std::unique_ptr<Mode> none_ = make_mode("none");
  at::Tensor x_, target_;
  int64_t number_ = 0;
};

void step_in_the_scope_of_none(benchmark::State& state) {
  Step step(state.range(0));
  std::vector<double> plain, scoped, ratios;
  for (auto _ : state) {
    const bool scope_first = ratios.size() % 2 == 1;
    if (scope_first) scoped.push_back(step.in_scope());
    plain.push_back(step.without_scope());
    if (!scope_first) scoped.push_back(step.in_scope());
    ratios.push_back(scoped.back() / plain.back());
  }
  state.counters["without_s"] = median(plain);
  state.counters["with_s"] = median(scoped);
  state.counters["overhead"] = median(ratios) - 1;
}

BENCHMARK(step_in_the_scope_of_none)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

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
