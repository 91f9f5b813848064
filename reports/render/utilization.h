#pragma once

#include <string>
#include <vector>

#include "reports/render/table.h"

/// The metrics of a study of training (TBD, IISWC 2018) for any results: how busy the device and
/// the host were, and what lay in memory. A figure that a machine cannot measure is named as such.
namespace noisemark::reports {

/// Throughput and shares of the time in which the parts of GPU and processor worked, a row for each
/// result that came to a step, with why a figure is missing and the definitions beneath. Empty
/// without a row.
[[nodiscard]] std::string utilization_table(const std::vector<NamedResult>& results);

/// The work of an image, the speed that was reached, and its share of the measured peak, a row for
/// each result whose profile was made. Empty without a row.
[[nodiscard]] std::string arithmetic_table(const std::vector<NamedResult>& results);

/// The bytes at the peak of a step by owner, in MiB, and their sum, which is the measured peak or
/// says that it is not; a row for each result whose memory was measured. Empty without a row.
[[nodiscard]] std::string memory_table(const std::vector<NamedResult>& results);

/// The three of them under their headings; those that are empty are left out.
[[nodiscard]] std::string machine_sections(const std::vector<NamedResult>& results);

}  // namespace noisemark::reports
