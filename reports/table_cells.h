#pragma once

#include <string>

#include "reports/result.h"

/// What tables of several results show of each: cells, in one form everywhere.
namespace noisemark::reports {

/// «16.38 [16.21, 16.52]», with «(not steady)» where it applies; "none".
[[nodiscard]] std::string rate_cell(const Result& result);

/// Bytes of a figure of the memory section, or of the metric of that name, which a peer may have
/// that knows no owners; "none".
[[nodiscard]] std::string bytes_cell(const Result& result, int64_t MemorySection::*figure,
                                     const char* metric);

/// The verdict without its explanation: "CUSTOM".
[[nodiscard]] std::string verdict_cell(const Result& result);

}  // namespace noisemark::reports
