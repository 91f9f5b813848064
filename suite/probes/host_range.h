#pragma once

#include <c10/core/DeviceType.h>
#include <kineto/ActivityType.h>

namespace noisemark::suite {

/// Whether an event of LibTorch's profiler may be a range of the host that can launch kernels: an
/// operator or a node of autograd. Calls of CUDA itself and what CUPTI cost stand on the host's
/// time line too, but are numbered by CUPTI: their numbers would take kernels away from the
/// operators that happen to have the same.
[[nodiscard]] constexpr bool is_host_range(c10::DeviceType device, libkineto::ActivityType type) {
  return device == c10::DeviceType::CPU && type != libkineto::ActivityType::CUDA_RUNTIME &&
         type != libkineto::ActivityType::CUDA_DRIVER && type != libkineto::ActivityType::OVERHEAD;
}

}  // namespace noisemark::suite
