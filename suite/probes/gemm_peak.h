#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace noisemark::suite {

/// The fastest matrix product of a process.
struct GemmPeak {
  double flop_per_s = 0;
  std::vector<int64_t> sizes;  ///< n of the square products that were timed
};

/// The best single call among several square sizes, at::mm into memory that exists, with the
/// threads and the settings (TF32) in force. Takes about `seconds`, of which every size that fits
/// gets its share; each is called at least once after a call that does not count. Sizes that do not
/// fit are left out.
[[nodiscard]] GemmPeak measure_gemm_peak(at::Device device, at::ScalarType type, double seconds);

/// For a report: "best call of square at::mm, n = 512, 1024, 2048, 4096".
[[nodiscard]] std::string gemm_peak_method(const GemmPeak& peak);

}  // namespace noisemark::suite
