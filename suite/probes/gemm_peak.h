#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace noisemark::suite {

/// The fastest matrix product of this process in FLOP/s: the best single call among several square
/// sizes, at::mm into memory that exists, with the threads and the settings (TF32) in force. Takes
/// about `seconds`, of which every size that fits gets its share; each is called at least once
/// after a call that does not count.
[[nodiscard]] double measure_gemm_peak(at::Device device, at::ScalarType type, double seconds);

/// For a report: "best call of square at::mm, n = 512, 1024, 2048, 4096".
[[nodiscard]] std::string gemm_peak_method(at::Device device);

}  // namespace noisemark::suite
