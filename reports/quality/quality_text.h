#pragma once

#include <string>

#include "reports/quality/quality.h"

/// Differences of a row's scale as text for people.
namespace noisemark::reports {

/// "+0.314 %" of a log-ratio, "+0.000123" of a difference.
[[nodiscard]] std::string difference_text(const QualityRow& row, double difference);
/// The same without a sign, for what is said to be better or worse.
[[nodiscard]] std::string size_text(const QualityRow& row, double difference);
/// "-0.210 % to +0.838 %"
[[nodiscard]] std::string interval_text(const QualityRow& row, const Interval& interval);
/// "1 %" or "0.001"
[[nodiscard]] std::string margin_text(const QualityRow& row);
/// "val_loss", "loss at t 62"
[[nodiscard]] std::string measure_text(const QualityRow& row);

}  // namespace noisemark::reports
