#pragma once

#include <string>

#include "reports/plot.h"
#include "reports/result.h"

/// The parts of report.md, each a pure function that returns whole lines beginning with its
/// heading. Internal to report.cpp.
namespace noisemark::reports::sections {

[[nodiscard]] std::string verdict(const Result& result);
[[nodiscard]] std::string what_ran(const Result& result);
[[nodiscard]] std::string gates(const Result& result);
[[nodiscard]] std::string throughput(const Result& result);
[[nodiscard]] std::string step_time(const Result& result, const std::string& plot);
[[nodiscard]] std::string memory(const Result& result, const std::string& plot);
[[nodiscard]] std::string saved_tensors(const Result& result);
/// Empty under mode "none".
[[nodiscard]] std::string memory_mode(const Result& result);
/// Empty where nobody asked for one.
[[nodiscard]] std::string batch_fit(const Result& result);
[[nodiscard]] std::string operators(const Result& result);
/// Empty where everything was computed in one type.
[[nodiscard]] std::string mixed_precision(const Result& result);
/// What was read of a GPU beside training; empty of results that have none of it.
[[nodiscard]] std::string device_use(const Result& result);
/// A part of memory(): what the GPU's allocator holds; empty of a CPU.
[[nodiscard]] std::string device_memory(const MemorySection& memory);
[[nodiscard]] std::string training_memory(const Result& result);
[[nodiscard]] std::string quality(const Result& result, const std::string& plot);
/// Empty where the run drew none.
[[nodiscard]] std::string samples(const Result& result);
[[nodiscard]] std::string noise(const Result& result);
[[nodiscard]] std::string environment(const Result& result);
[[nodiscard]] std::string seeds(const Result& result);
[[nodiscard]] std::string data(const Result& result);
[[nodiscard]] std::string repeat(const Result& result);
[[nodiscard]] std::string provenance(const Result& result, const std::string& result_sha256);

/// «Not measured: REASON.», with a reason even when none was given.
[[nodiscard]] std::string not_measured(const std::string& reason);

/// The samples after the warm-up.
[[nodiscard]] std::vector<double> steady(const Result& result, const std::vector<double>& samples);

}  // namespace noisemark::reports::sections
