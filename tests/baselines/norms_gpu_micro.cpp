#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "baselines/fused_norm.h"
#include "memopt/device/device_clock.h"
#include "memopt/treatment/norm_chain.h"
#include "tests/gpu.h"
#include "tests/memopt/timed_launches.h"

// The fused norms on a GPU at the shapes of the U-Nets, in tensors too large for any cache: 256 MiB
// whatever their type. `of_copy` is the fraction of the device's copy bandwidth: the bytes that no
// implementation can avoid (read x, write y; read x and dy, write dx) by time, over those of a
// plain copy. A forward pass must know all of a group before it writes its first value, and
// backward its sums: what of x and dy no cache holds until then is read twice, which `of_copy`
// counts once; from_statistics and `echo` read all once. Times are between events, around several
// launches that all lie in the GPU's queue when the first of them begins.
namespace noisemark::baselines {
namespace {

constexpr int64_t kGroups = 32;

struct Shape {
  const char* name;
  int64_t channels;
  int64_t resolution;
};
constexpr Shape kShapes[] = {{"128x32", 128, 32},
                             {"256x16", 256, 16},
                             {"384x16", 384, 16},
                             {"512x8", 512, 8},
                             {"256x4", 256, 4}};

void add(const std::string& name, double bytes, double bandwidth,
         const std::function<void()>& work) {
  const auto run = [=](benchmark::State& state) {
    const at::NoGradGuard no_grad;
    const std::unique_ptr<memopt::DeviceClock> clock = memopt::make_device_clock(kGpu);
    memopt::test::prepare(kGpu, *clock, work);
    double total = 0;
    for (auto _ : state) {
      const double seconds = memopt::test::seconds_of(kGpu, *clock, work);
      state.SetIterationTime(seconds);
      total += seconds;
    }
    const auto times = static_cast<double>(state.iterations());
    state.counters["GB/s"] = 1e-9 * bytes * times / total;
    state.counters["of_copy"] = bytes * times / total / bandwidth;
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond)->UseManualTime();
}

struct Subject {
  std::string name;
  at::Tensor x, dy, weight, bias;
  double bandwidth;
};

void add_group_norm(const Subject& s) {
  const auto bytes = static_cast<double>(s.x.nbytes());
  const auto [y, mean, rstd] =
      group_norm_act(s.x, kGroups, s.weight, s.bias, 1e-6, kernels::Act::kSilu);
  add("group_norm_silu" + s.name + "/forward", 2 * bytes, s.bandwidth,
      [s] { (void)group_norm_act(s.x, kGroups, s.weight, s.bias, 1e-6, kernels::Act::kSilu); });
  add("group_norm_silu" + s.name + "/from_statistics", 2 * bytes, s.bandwidth, [s, mean, rstd] {
    (void)group_norm_act_from_statistics(s.x, kGroups, s.weight, s.bias, kernels::Act::kSilu, mean,
                                         rstd);
  });
  add("group_norm_silu" + s.name + "/backward", 3 * bytes, s.bandwidth, [s, mean, rstd] {
    (void)group_norm_act_backward(s.dy, s.x, s.weight, s.bias, mean, rstd, kGroups,
                                  kernels::Act::kSilu);
  });
}

void add_rms_norm(const Subject& s) {
  const auto bytes = static_cast<double>(s.x.nbytes());
  const at::Tensor g = s.weight.view({1, -1, 1, 1});
  const auto [y, inverse] = rms_norm_act(s.x, g, {}, {}, kernels::Act::kSilu);
  add("rms_norm_silu" + s.name + "/forward", 2 * bytes, s.bandwidth,
      [s, g] { (void)rms_norm_act(s.x, g, {}, {}, kernels::Act::kSilu); });
  add("rms_norm_silu" + s.name + "/from_statistics", 2 * bytes, s.bandwidth, [s, g, inverse] {
    (void)rms_norm_act_from_statistics(s.x, g, {}, {}, kernels::Act::kSilu, inverse);
  });
  add("rms_norm_silu" + s.name + "/backward", 3 * bytes, s.bandwidth, [s, g, inverse] {
    (void)rms_norm_act_backward(s.dy, s.x, g, {}, {}, inverse, kernels::Act::kSilu);
  });
}

/// `echo` makes this again: from the norm's saved statistics, float32 alone.
void add_norm_chain(const Subject& s) {
  const int64_t samples = s.x.size(0);
  const int64_t channels = s.x.size(1);
  const int64_t pixels = s.x.size(2) * s.x.size(3);
  const auto [y, mean, rstd] =
      at::native_group_norm(s.x, s.weight, s.bias, samples, channels, pixels, kGroups, 1e-6);
  const at::Tensor tables = at::empty_like(at::rand({2 * samples * channels}, s.x.options()));
  add("echo_group_norm_silu" + s.name, 2 * static_cast<double>(s.x.nbytes()), s.bandwidth,
      [s, y = y, mean = mean, rstd = rstd, tables, samples, channels, pixels] {
        memopt::treatment::NormChain job;
        job.samples = samples;
        job.channels = channels;
        job.groups = kGroups;
        job.pixels = pixels;
        job.activation = memopt::treatment::Activation::kSilu;
        job.x = s.x.const_data_ptr<float>();
        job.mean = mean.const_data_ptr<float>();
        job.rstd = rstd.const_data_ptr<float>();
        job.weight = s.weight.const_data_ptr<float>();
        job.bias = s.bias.const_data_ptr<float>();
        job.scale = tables.mutable_data_ptr<float>();
        job.shift = job.scale + samples * channels;
        job.y = y.mutable_data_ptr<float>();
        memopt::find_norm_chain(at::kCUDA)(job);
      });
}

/// Returns as many images as no cache holds.
at::Tensor normals(const Shape& shape, at::ScalarType type, at::MemoryFormat order) {
  const int64_t picture_bytes = shape.channels * shape.resolution * shape.resolution *
                                static_cast<int64_t>(c10::elementSize(type));
  const int64_t pictures =
      (memopt::test::kMoreBytesThanCachesHold + picture_bytes - 1) / picture_bytes;
  return at::randn({pictures, shape.channels, shape.resolution, shape.resolution}, at::device(kGpu))
      .to(type)
      .contiguous(order);
}

void add_all() {
  const at::NoGradGuard no_grad;
  const double bandwidth = memopt::test::copy_bandwidth(kGpu);
  benchmark::AddCustomContext("copy_GB/s", std::to_string(1e-9 * bandwidth));
  for (const Shape& shape : kShapes) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const auto order : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const Subject subject{std::string("/") + shape.name +
                                  (type == at::kFloat ? "/fp32" : "/bf16") +
                                  (order == at::MemoryFormat::Contiguous ? "/nchw" : "/nhwc"),
                              normals(shape, type, order),
                              normals(shape, type, order),
                              at::randn({shape.channels}, at::device(kGpu)),
                              at::randn({shape.channels}, at::device(kGpu)),
                              bandwidth};
        add_group_norm(subject);
        add_rms_norm(subject);
        const bool planes = order == at::MemoryFormat::Contiguous;
        if (type == at::kFloat && planes) add_norm_chain(subject);
      }
    }
  }
}

/// 77, or 1 where the environment says that there must be a GPU.
int without_gpu() {
  std::puts("no GPU here");
  const char* required = std::getenv("NOISEMARK_REQUIRE");
  const std::string words = std::string(",") + (required == nullptr ? "" : required) + ",";
  return words.find(",cuda,") != std::string::npos ? 1 : 77;
}

}  // namespace
}  // namespace noisemark::baselines

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!at::hasCUDA()) return noisemark::baselines::without_gpu();
  noisemark::baselines::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
