#include "baselines/device_parts.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

namespace noisemark::baselines {
namespace {

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : c10::cuda::current_device();
}

/// Makes what is issued to `after` from now on wait for what was issued to `before`.
void order(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventRecord(event, before));
  C10_CUDA_CHECK(cudaStreamWaitEvent(after, event, 0));
  C10_CUDA_CHECK(cudaEventDestroy(event));
}

class CudaDeviceGraph final : public DeviceGraph {
 public:
  explicit CudaDeviceGraph(c10::Device device)
      : index_(index_of(device)), stream_(c10::cuda::getStreamFromPool(false, index_)) {}

  void warm_up(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(index_);
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(index_);
    order(current, stream_);
    {
      const c10::cuda::CUDAStreamGuard on_side(stream_);
      work();
    }
    order(stream_, current);
  }

  void capture(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(index_);
    c10::cuda::device_synchronize();
    // While it records, the allocator may not give cached blocks back to the driver: what earlier
    // steps left would stand in the way of the recording's own memory.
    c10::cuda::CUDACachingAllocator::emptyCache();
    const c10::cuda::CUDAStreamGuard on_side(stream_);
    // The mode holds for this thread alone: others lock pages for the next batches meanwhile.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      give_up();
      throw;
    }
    end();
  }

  void replay() override {
    const c10::cuda::CUDAGuard guard(index_);
    graph_.replay();
  }

  int64_t own_bytes() override {
    const c10::MempoolId_t pool = graph_.pool();
    int64_t bytes = 0;
    for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot(pool, false).segments) {
      const bool own = segment.device == index_ && segment.owner_private_pool_id == pool;
      if (own) bytes += static_cast<int64_t>(segment.total_size);
    }
    return bytes;
  }

 private:
  void end() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      leave_pool();
      throw;
    }
  }

  /// LibTorch ends its own part of a recording only after CUDA's, which may fail. Until then its
  /// allocators ask this object's graph about every allocation and give nothing back, and its
  /// generator takes what is drawn for a part of the recording. Call it on the side stream.
  void leave_pool() {
    unless_ended([&] {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(index_, pool_);
      c10::cuda::CUDACachingAllocator::releasePool(index_, pool_);
    });
    unless_ended([&] {
      at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
      host->end_allocate_to_pool(pool_);
      host->release_pool(pool_);
    });
    end_generators_part();
  }

  /// A recording of something ends it, for nothing but the end of one does.
  void end_generators_part() {
    try {
      at::Tensor something = at::empty({1}, c10::Device(c10::kCUDA, index_));
      at::cuda::CUDAGraph another;
      another.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      something.zero_();
      another.capture_end();
    } catch (const c10::Error& error) {
      TORCH_WARN("the generator may still record: ", error.what_without_backtrace());
    }
  }

  /// This had ended if something later than it failed.
  template <typename End>
  static void unless_ended(const End& end) {
    try {
      end();
    } catch (const c10::Error&) {
    }
  }

  /// The work's own exception is thrown: that nothing was recorded follows from it.
  void give_up() {
    try {
      end();
    } catch (const c10::Error& error) {
      TORCH_WARN("a recording was given up: ", error.what_without_backtrace());
    }
  }

  c10::DeviceIndex index_;
  c10::cuda::CUDAStream stream_;
  c10::MempoolId_t pool_ = at::cuda::graph_pool_handle();  ///< memory pool of the work
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_cuda_graph(c10::Device device) {
  return std::make_unique<CudaDeviceGraph>(device);
}

}  // namespace noisemark::baselines
