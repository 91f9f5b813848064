#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "memopt/cuda/device_parts.h"
#include "memopt/device/device_clock.h"

namespace noisemark::memopt {

std::string cuda_device_model(c10::Device device) {
  const int index = device.has_index() ? device.index() : c10::cuda::current_device();
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

namespace {

constexpr double kSecondsPerMillisecond = 1e-3;

__device__ uint64_t nanoseconds_now() {
  uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits until the host releases this hold or a later one, at most `longest_ns`: work that the host
/// waits for may lie behind this.
__global__ void wait_for_release(const volatile uint32_t* released, uint32_t hold,
                                 uint64_t longest_ns) {
  constexpr unsigned kBetweenLooks_ns = 200;
  const uint64_t begin = nanoseconds_now();
  while (*released < hold && nanoseconds_now() - begin < longest_ns) __nanosleep(kBetweenLooks_ns);
}

/// Holds of a clock, numbered from 1. The host writes the number of the last one that is over where
/// kernels read it.
class Holds {
 public:
  Holds() {
    C10_CUDA_CHECK(cudaHostAlloc(&memory_, sizeof(uint32_t), cudaHostAllocMapped));
    C10_CUDA_CHECK(cudaHostGetDevicePointer(&on_device_, memory_, 0));
    release_up_to(0);
  }
  /// The current device is the one whose kernels read the word.
  ~Holds() {
    release_up_to(last_);
    C10_CUDA_CHECK_WARN(cudaDeviceSynchronize());
    C10_CUDA_CHECK_WARN(cudaFreeHost(memory_));
  }
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  void add(double longest_s, cudaStream_t stream) {
    ++last_;
    wait_for_release<<<1, 1, 0, stream>>>(static_cast<const uint32_t*>(on_device_), last_,
                                          static_cast<uint64_t>(longest_s * 1e9));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    // The hold before is released only when the next one lies in the queue, or the device would run
    // ahead of it.
    release_up_to(last_ - 1);
  }
  void release_all() { release_up_to(last_); }

 private:
  void release_up_to(uint32_t hold) {
    *static_cast<volatile uint32_t*>(memory_) = hold;
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  void* memory_ = nullptr;     ///< uint32, page-locked
  void* on_device_ = nullptr;  ///< the same word
  uint32_t last_ = 0;
};

class CudaEventClock final : public DeviceClock {
 public:
  explicit CudaEventClock(c10::Device device) : device_(device) {}
  ~CudaEventClock() override {
    const c10::cuda::CUDAGuard guard(device_);
    holds_.reset();
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

  void hold(double longest_s) override {
    const c10::cuda::CUDAGuard guard(device_);
    if (!holds_) holds_.emplace();
    holds_->add(longest_s, c10::cuda::getCurrentCUDAStream(device_.index()));
  }
  void release() override {
    if (holds_) holds_->release_all();
  }

 private:
  c10::Device device_;
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
  std::optional<Holds> holds_;  ///< is empty until there was one
};

}  // namespace

std::unique_ptr<DeviceClock> make_cuda_event_clock(c10::Device device) {
  return std::make_unique<CudaEventClock>(device);
}

}  // namespace noisemark::memopt
