#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "baselines/ops.h"

// Fused against plain operator groups, forward and backward, at the shapes of the two U-Nets at
// batch 16. `bytes_per_second` counts what no implementation can avoid, read x, write y, read dy,
// read x again, write dx, so a figure near the memory's bandwidth is as good as it gets.
namespace noisemark::baselines {
namespace {

struct Shape {
  const char* name;
  int64_t channels;
  int64_t resolution;
};

constexpr int64_t kBatch = 16;
constexpr int64_t kGroups = 32;
constexpr Shape kShapes[] = {
    {"64x32", 64, 32}, {"128x32", 128, 32}, {"256x16", 256, 16}, {"512x8", 512, 8}};

using Inputs = std::vector<at::Tensor>;
using Group = std::function<at::Tensor(const Ops&, const Inputs&)>;

void forward_and_backward(benchmark::State& state, const Ops& ops, const Group& group,
                          const Inputs& inputs) {
  at::Tensor dy;
  {
    const at::NoGradGuard no_grad;
    dy = at::randn_like(group(ops, inputs));
  }
  for (auto _ : state) {
    const at::Tensor y = group(ops, inputs);
    benchmark::DoNotOptimize(torch::autograd::grad({y}, inputs, {dy}));
  }
  state.SetBytesProcessed(state.iterations() * 5 * static_cast<int64_t>(inputs[0].nbytes()));
}

at::Tensor leaf(const at::Tensor& x) {
  return x.detach().requires_grad_(true);
}

Inputs group_norm_inputs(const at::Tensor& x) {
  return {leaf(x), leaf(at::randn({x.size(1)})), leaf(at::randn({x.size(1)}))};
}

Inputs rms_norm_inputs(const at::Tensor& x) {
  const auto film = [&] { return leaf(at::randn({x.size(0), x.size(1), 1, 1}).to(x.dtype())); };
  return {leaf(x), leaf(at::randn({1, x.size(1), 1, 1})), film(), film()};
}

at::Tensor group_norm_silu(const Ops& ops, const Inputs& in) {
  return ops.group_norm_act(in[0], kGroups, in[1], in[2], 1e-6, Activation::kSilu);
}

at::Tensor rms_norm_film_silu(const Ops& ops, const Inputs& in) {
  return ops.rms_norm_film_silu(in[0], in[1], in[2], in[3]);
}

void add(const std::string& name, const Ops& ops, const Group& group, const Inputs& inputs) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [&ops, group, inputs](benchmark::State& state) {
                                 forward_and_backward(state, ops, group, inputs);
                               })
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void add_both(const std::string& name, const Group& group, const Inputs& inputs) {
  add(name + "/plain", plain_ops(), group, inputs);
  add(name + "/fused", fused_ops(), group, inputs);
}

void add_all() {
  for (const Shape& shape : kShapes) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const auto order : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const at::Tensor x = at::randn({kBatch, shape.channels, shape.resolution, shape.resolution})
                                 .to(type)
                                 .contiguous(order);
        const std::string suffix = std::string("/") + shape.name +
                                   (type == at::kFloat ? "/fp32" : "/bf16") +
                                   (order == at::MemoryFormat::Contiguous ? "/nchw" : "/nhwc");
        add_both("group_norm_silu" + suffix, group_norm_silu, group_norm_inputs(x));
        add_both("rms_norm_film_silu" + suffix, rms_norm_film_silu, rms_norm_inputs(x));
      }
    }
  }
}

}  // namespace
}  // namespace noisemark::baselines

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  noisemark::baselines::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
