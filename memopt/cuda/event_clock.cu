#include "memopt/cuda/event_clock.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <vector>

namespace noisemark::memopt {
namespace {

constexpr double kSecondsPerMillisecond = 1e-3;

class CudaEventClock final : public DeviceClock {
 public:
  explicit CudaEventClock(c10::Device device) : device_(device) {}
  ~CudaEventClock() override {
    for (cudaEvent_t event : events_) C10_CUDA_CHECK_WARN(cudaEventDestroy(event));
  }

  Mark mark() override {
    const c10::cuda::CUDAGuard guard(device_);
    if (used_ == events_.size()) {
      cudaEvent_t event = nullptr;
      C10_CUDA_CHECK(cudaEventCreate(&event));
      events_.push_back(event);
    }
    const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
    C10_CUDA_CHECK(cudaEventRecord(events_[used_], stream));
    return used_++;
  }

  void synchronize() override {
    const c10::cuda::CUDAGuard guard(device_);
    c10::cuda::device_synchronize();
  }

  double seconds_between(Mark begin, Mark end) const override {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events_.at(begin), events_.at(end)));
    return static_cast<double>(milliseconds) * kSecondsPerMillisecond;
  }

  /// Keeps the events: making one costs more than recording it.
  void clear() override { used_ = 0; }

 private:
  c10::Device device_;
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
};

}  // namespace

std::unique_ptr<DeviceClock> make_cuda_event_clock(c10::Device device) {
  return std::make_unique<CudaEventClock>(device);
}

}  // namespace noisemark::memopt
