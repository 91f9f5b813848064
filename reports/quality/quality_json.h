#pragma once

#include <string>
#include <string_view>

#include "reports/quality/quality.h"

namespace noisemark::reports {

inline constexpr std::string_view kQualitySchemaName = "noisemark.quality";
inline constexpr std::string_view kQualitySchemaVersion = "1.1.0";

/// quality.json: keys are the field names of quality.h in their order, verdicts by their names,
/// what is missing null. Doubles read back bit for bit.
[[nodiscard]] std::string quality_json(const QualityStudy& study);

}  // namespace noisemark::reports
