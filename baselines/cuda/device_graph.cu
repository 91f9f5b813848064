#include "baselines/cuda/device_graph.h"

#include <ATen/cuda/CUDAGraph.h>
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

/// What is issued to `after` from now on waits for what was issued to `before`.
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
    // Of this thread alone: others lock pages for the next batches meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      give_up();
      throw;
    }
    graph_.capture_end();
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
  /// What the work threw is the news; that nothing was recorded follows from it.
  void give_up() {
    try {
      graph_.capture_end();
    } catch (const c10::Error& error) {
      TORCH_WARN("a recording was given up: ", error.what_without_backtrace());
    }
  }

  c10::DeviceIndex index_;
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_cuda_graph(c10::Device device) {
  return std::make_unique<CudaDeviceGraph>(device);
}

}  // namespace noisemark::baselines
