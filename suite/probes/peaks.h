#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reports/profile/roofline.h"

namespace noisemark::suite {

/// The library that multiplies. ATen's float32 products on a CPU are MKL's and its convolutions
/// oneDNN's, and MKL reaches half of what oneDNN does on some makers' processors.
enum class ProductBy : uint8_t { kMm, kConvolution };

/// The fastest matrix product of a process.
struct GemmPeak {
  double flop_per_s = 0;
  std::vector<int64_t> sizes;  ///< n of the square products that were timed
  ProductBy by = ProductBy::kMm;
};

/// The best single call among several square sizes, with the threads and the settings (TF32) in
/// force: at::mm into memory that exists and, in float32 on a CPU, the same product as a 1x1
/// convolution by oneDNN. Takes about `seconds`, of which every size that fits gets its share; each
/// is called at least once after a call that does not count. Sizes that do not fit are left out.
[[nodiscard]] GemmPeak measure_gemm_peak(at::Device device, at::ScalarType type, double seconds);

/// Words for a report: "best call of square at::mm, n = 512, 1024, 2048, 4096".
[[nodiscard]] std::string gemm_peak_method(const GemmPeak& peak);

/// The best single call of a fill, a sum, a copy and an addition in place within working sets from
/// 64 KiB on a CPU and 1 MiB on a GPU, each twice as large as the one before, up to what no
/// cache holds. With the threads in force. Takes about `seconds`; every call is made at least
/// twice.
[[nodiscard]] std::vector<reports::MemoryPeak> measure_memory_peaks(c10::Device device,
                                                                    double seconds);

}  // namespace noisemark::suite
