#include "memopt/accounting/allocation_source.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/device/device_clock.h"
#include "memopt/replay/value_samples.h"
#include "memopt/treatment/norm_chain.h"

#include <ATen/Version.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"

#ifdef NOISEMARK_CUDA
#include "memopt/cuda/device_parts.h"
#endif

// The one file that knows which devices were built: it defines what each floor asks of a device.
namespace noisemark::memopt {
namespace {

class SteadyClock final : public DeviceClock {
 public:
  Mark mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return marks_.size() - 1;
  }
  void synchronize() override {}
  double seconds_between(Mark begin, Mark end) const override {
    return std::chrono::duration<double>(marks_.at(end) - marks_.at(begin)).count();
  }
  void clear() override { marks_.clear(); }
  void hold(double /*longest_s*/) override {}
  void release() override {}

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<DeviceClock> make_device_clock(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<SteadyClock>();
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return make_cuda_event_clock(device);
#endif
  TORCH_CHECK(false, "device clock: ", device.str(), " is not supported by this build");
}

std::string device_model(c10::Device device) {
  if (device.is_cpu()) return "cpu, " + at::get_cpu_capability();
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return cuda_device_model(device);
#endif
  return device.str();
}

AllocationSource* find_allocation_source(c10::Device device) {
  if (device.is_cpu()) return &cpu_allocation_source();
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return &cuda_allocation_source(device);
#endif
  return nullptr;
}

std::vector<at::Tensor> library_workspaces([[maybe_unused]] c10::Device device) {
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return cuda_library_workspaces(device);
#endif
  return {};
}

const codecs::CodecDevice* find_codec_device(c10::Device device) {
  if (device.is_cpu()) return &codecs::cpu_codec_device();
#ifdef NOISEMARK_CUDA
  if (device.is_cuda()) return &codecs::cuda_codec_device();
#endif
  return nullptr;
}

treatment::NormChainOnDevice find_norm_chain(c10::DeviceType device) {
  if (device == c10::kCPU) return &treatment::run_norm_chain_on_cpu;
#ifdef NOISEMARK_CUDA
  if (device == c10::kCUDA) return &treatment::run_norm_chain_on_cuda;
#endif
  return nullptr;
}

const replay::SampleDevice* find_sample_device(c10::DeviceType device) {
  if (device == c10::kCPU) return &replay::cpu_sample_device();
#ifdef NOISEMARK_CUDA
  if (device == c10::kCUDA) return &replay::cuda_sample_device();
#endif
  return nullptr;
}

}  // namespace noisemark::memopt
