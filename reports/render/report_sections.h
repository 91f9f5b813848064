#pragma once

#include <string>
#include <string_view>

#include "reports/render/plot.h"
#include "reports/result/result.h"

/// The parts of report.md, each a pure function that returns whole lines beginning with its
/// heading. Internal to report.cpp.
namespace noisemark::reports::sections {

[[nodiscard]] std::string verdict(const Result& result);
/// Sentences for the first screen; empty where it was not measured.
[[nodiscard]] std::string speed_in_short(const Result& result);
[[nodiscard]] std::string memory_in_short(const Result& result);
[[nodiscard]] std::string quality_in_short(const Result& result);
[[nodiscard]] std::string what_ran(const Result& result);
[[nodiscard]] std::string gates(const Result& result);
[[nodiscard]] std::string throughput(const Result& result);
[[nodiscard]] std::string step_time(const Result& result, const std::string& plot);
/// Returns nothing where one process trained alone.
[[nodiscard]] std::string ranks(const Result& result);
[[nodiscard]] std::string memory(const Result& result, const std::string& plot);
[[nodiscard]] std::string saved_tensors(const Result& result);
/// Returns nothing under mode "none".
[[nodiscard]] std::string memory_mode(const Result& result);
/// Returns nothing where nobody asked for a largest batch.
[[nodiscard]] std::string batch_fit(const Result& result);
[[nodiscard]] std::string operators(const Result& result);
/// A part of operators(): the kernels of convolutions; empty for results that have none.
[[nodiscard]] std::string convolutions(const Result& result);
/// Returns nothing where everything was computed in one type.
[[nodiscard]] std::string mixed_precision(const Result& result);
/// Readings of a GPU beside training; empty for results that have none.
[[nodiscard]] std::string device_use(const Result& result);
/// A part of memory(): what the GPU's allocator holds; empty for a CPU.
[[nodiscard]] std::string device_memory(const MemorySection& memory);
/// A part of memory(): what convolutions took beside the limit; empty for results without either.
[[nodiscard]] std::string convolution_workspace(const MemorySection& memory);
[[nodiscard]] std::string training_memory(const Result& result);
[[nodiscard]] std::string quality(const Result& result, const std::string& plot);
/// Returns nothing where the run drew none.
[[nodiscard]] std::string samples(const Result& result);
[[nodiscard]] std::string noise(const Result& result);
[[nodiscard]] std::string environment(const Result& result);
[[nodiscard]] std::string seeds(const Result& result);
[[nodiscard]] std::string data(const Result& result);
[[nodiscard]] std::string repeat(const Result& result);
[[nodiscard]] std::string provenance(const Result& result, const std::string& result_sha256);

/// «This was not measured: REASON.», with a reason even when none was given.
[[nodiscard]] std::string not_measured(const std::string& reason);

/// Shortens a GPU kernel's name as C++ writes it to what a person needs: without the type that it
/// returns, its parameters, namespaces and the endings that all kernels of cuDNN have. What is
/// longer than a column of a table loses its middle: «sm90_xmma_fprop ... nhwc_tilesize128x128x64».
[[nodiscard]] std::string short_kernel_name(std::string_view name);

}  // namespace noisemark::reports::sections
