#include "reports/quality/quality_text.h"

#include <fmt/format.h>

#include <cmath>

#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

bool is_ratio(const QualityRow& row) {
  return row.scale == DifferenceScale::kLogRatio;
}

}  // namespace

std::string difference_text(const QualityRow& row, double difference) {
  if (is_ratio(row)) return fmt::format("{:+.3f} %", 100 * std::expm1(difference));
  return fmt::format("{:+.6g}", difference);
}

std::string size_text(const QualityRow& row, double difference) {
  return difference_text(row, difference).substr(1);
}

std::string interval_text(const QualityRow& row, const Interval& interval) {
  return fmt::format("{} to {}", difference_text(row, interval.low),
                     difference_text(row, interval.high));
}

std::string margin_text(const QualityRow& row) {
  if (is_ratio(row)) return fmt::format("{:g} %", 100 * row.margin);
  return format_number(row.margin);
}

std::string measure_text(const QualityRow& row) {
  return row.timestep ? fmt::format("{} at t {}", row.measure, *row.timestep) : row.measure;
}

}  // namespace noisemark::reports
