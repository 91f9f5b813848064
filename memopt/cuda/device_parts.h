#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}  // namespace at

namespace noisemark::memopt {
class AllocationSource;
class DeviceClock;
namespace codecs {
class CodecDevice;
}  // namespace codecs
namespace replay {
class SampleDevice;
}  // namespace replay
namespace treatment {
struct NormChain;
}  // namespace treatment
}  // namespace noisemark::memopt

// The parts that device_parts.cpp hands out for a CUDA device. C++17.
namespace noisemark::memopt {

/// Allocations of LibTorch's caching allocator on one GPU, in requested bytes, by its trace
/// tracker. That cannot be detached, so a source lives as long as the process; without a listener
/// it keeps only its table of live blocks. A block is released when LibTorch gives it back, as in
/// its own `allocated_bytes`, though another stream may still be using it.
[[nodiscard]] AllocationSource& cuda_allocation_source(c10::Device device);

/// Workspaces that LibTorch took from its caching allocator for cuBLAS and cuBLASLt, and keeps:
/// each as a tensor of one byte over the beginning of its block, which owns nothing.
[[nodiscard]] std::vector<at::Tensor> cuda_library_workspaces(c10::Device device);

/// Marks are CUDA events on the device's current stream; it is held by a kernel of one thread that
/// looks at a word of the host's memory.
[[nodiscard]] std::unique_ptr<DeviceClock> make_cuda_event_clock(c10::Device device);

/// The driver calls it so: "NVIDIA H200".
[[nodiscard]] std::string cuda_device_model(c10::Device device);

}  // namespace noisemark::memopt

namespace noisemark::memopt::codecs {

/// Kernels on the current stream of the current device, a warp for each block.
[[nodiscard]] const CodecDevice& cuda_codec_device();

}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt::treatment {

/// All of a job, on the current stream of the current device; its pointers are to that device's
/// memory.
void run_norm_chain_on_cuda(const NormChain& job);

}  // namespace noisemark::memopt::treatment

namespace noisemark::memopt::replay {

/// One block of threads for each sample.
[[nodiscard]] const SampleDevice& cuda_sample_device();

}  // namespace noisemark::memopt::replay
