#include "baselines/device_parts.h"

#include <ATen/Parallel.h>

#include <algorithm>

#ifdef NOISEMARK_CUDA
#include "baselines/cuda/norms.h"
#endif

namespace noisemark::baselines {
namespace {

using kernels::BFloat16;
using kernels::GroupNorm;
using kernels::RmsNorm;

/// Values below which starting another thread costs more than it saves.
constexpr int64_t kGrainValues = 1 << 14;

/// A channels-last task works on so much of x that it is still in a second-level cache when the
/// second sweep comes.
constexpr int64_t kTaskBytes = 256 << 10;

template <typename Job>
void run(const Job& job, void (*kernel)(const Job&, int64_t, int64_t)) {
  const int64_t tasks = job.shape.samples * job.tasks_per_sample();
  const int64_t values =
      job.shape.channels * job.shape.pixels / std::max<int64_t>(1, job.tasks_per_sample());
  at::parallel_for(0, tasks, std::max<int64_t>(1, kGrainValues / std::max<int64_t>(1, values)),
                   [&](int64_t begin, int64_t end) { kernel(job, begin, end); });
}

const kernels::GroupNormKernels& group_norm() {
  return kernels::group_norm_kernels(memopt::current_cpu_level());
}
const kernels::RmsNormKernels& rms_norm() {
  return kernels::rms_norm_kernels(memopt::current_cpu_level());
}

/// Splits tasks among at::get_num_threads() threads.
class CpuNormDevice final : public NormDevice {
 public:
  void forward(const GroupNorm<float>& job) const override {
    run(job, group_norm().float32.forward);
  }
  void forward(const GroupNorm<BFloat16>& job) const override {
    run(job, group_norm().bfloat16.forward);
  }
  void from_statistics(const GroupNorm<float>& job) const override {
    run(job, group_norm().float32.from_statistics);
  }
  void from_statistics(const GroupNorm<BFloat16>& job) const override {
    run(job, group_norm().bfloat16.from_statistics);
  }
  void backward(const GroupNorm<float>& job) const override {
    run(job, group_norm().float32.backward);
  }
  void backward(const GroupNorm<BFloat16>& job) const override {
    run(job, group_norm().bfloat16.backward);
  }
  void forward(const RmsNorm<float>& job) const override { run(job, rms_norm().float32.forward); }
  void forward(const RmsNorm<BFloat16>& job) const override {
    run(job, rms_norm().bfloat16.forward);
  }
  void from_statistics(const RmsNorm<float>& job) const override {
    run(job, rms_norm().float32.from_statistics);
  }
  void from_statistics(const RmsNorm<BFloat16>& job) const override {
    run(job, rms_norm().bfloat16.from_statistics);
  }
  void backward(const RmsNorm<float>& job) const override { run(job, rms_norm().float32.backward); }
  void backward(const RmsNorm<BFloat16>& job) const override {
    run(job, rms_norm().bfloat16.backward);
  }

  [[nodiscard]] int64_t groups_per_task(const kernels::Shape& shape, int64_t groups,
                                        int64_t element_bytes) const override {
    if (!shape.channels_last) return 1;
    const int64_t group_bytes = shape.channels / groups * shape.pixels * element_bytes;
    return std::clamp<int64_t>(kTaskBytes / std::max<int64_t>(1, group_bytes), 1, groups);
  }
};

#ifdef NOISEMARK_CUDA

class CudaNormDevice final : public NormDevice {
 public:
  void forward(const GroupNorm<float>& job) const override { kernels::cuda::forward(job); }
  void forward(const GroupNorm<BFloat16>& job) const override { kernels::cuda::forward(job); }
  void from_statistics(const GroupNorm<float>& job) const override {
    kernels::cuda::from_statistics(job);
  }
  void from_statistics(const GroupNorm<BFloat16>& job) const override {
    kernels::cuda::from_statistics(job);
  }
  void backward(const GroupNorm<float>& job) const override { kernels::cuda::backward(job); }
  void backward(const GroupNorm<BFloat16>& job) const override { kernels::cuda::backward(job); }
  void forward(const RmsNorm<float>& job) const override { kernels::cuda::forward(job); }
  void forward(const RmsNorm<BFloat16>& job) const override { kernels::cuda::forward(job); }
  void from_statistics(const RmsNorm<float>& job) const override {
    kernels::cuda::from_statistics(job);
  }
  void from_statistics(const RmsNorm<BFloat16>& job) const override {
    kernels::cuda::from_statistics(job);
  }
  void backward(const RmsNorm<float>& job) const override { kernels::cuda::backward(job); }
  void backward(const RmsNorm<BFloat16>& job) const override { kernels::cuda::backward(job); }

  [[nodiscard]] int64_t groups_per_task(const kernels::Shape& shape, int64_t groups,
                                        int64_t element_bytes) const override {
    return kernels::cuda::groups_per_task(shape, groups, element_bytes);
  }
};

#endif

}  // namespace

const NormDevice* find_norm_device(c10::Device device) {
  static const CpuNormDevice cpu;
  if (device.is_cpu()) return &cpu;
#ifdef NOISEMARK_CUDA
  static const CudaNormDevice cuda;
  if (device.is_cuda()) return &cuda;
#endif
  return nullptr;
}

std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device) {
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return make_cuda_graph(device);
#endif
  (void)device;
  return nullptr;
}

}  // namespace noisemark::baselines
