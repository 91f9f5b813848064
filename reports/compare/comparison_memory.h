#pragma once

#include <string>

#include "reports/compare/comparison.h"

namespace noisemark::reports {

/// The section of a comparison about who owned which bytes at the peak: a table for a lone cell, or
/// for the first cells in which they differ, each with the sum and whether that is peak_bytes.
/// Empty where no bytes by owner were compared.
[[nodiscard]] std::string memory_by_owner(const Comparison& comparison);

}  // namespace noisemark::reports
