#include "reports/quality/gradient_bound.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "reports/quality/measures.h"

namespace noisemark::reports {
namespace {

constexpr std::array<CodecBound, 5> kBounds = {{
    {"dpr16", 0x1p-10},
    {"dpr10", 0x1p-4},
    {"dpr8", 0x1p-3},
    {"q4", 0.3},
    {"q2", kLoosestGradientBound},
}};

/// Of the loosest codec among the parts of a mode, which "+" joins and "," sets limits to.
std::optional<double> bound_of_codec(std::string_view mode) {
  std::optional<double> bound;
  while (!mode.empty()) {
    const size_t end = std::min(mode.find_first_of("+,"), mode.size());
    const std::string_view part = mode.substr(0, end);
    for (const CodecBound& one : kBounds) {
      if (one.codec == part) bound = std::max(bound.value_or(0), one.bound);
    }
    mode.remove_prefix(std::min(end + 1, mode.size()));
  }
  return bound;
}

}  // namespace

std::span<const CodecBound> codec_bounds() {
  return kBounds;
}

double gradient_error_bound(const Result& result) {
  if (const auto defined = quality_key(result, "gradient_error_max")) return *defined;
  if (const auto& allowed = result.memory_mode.budget.error_frac) return kBudgetSlack * *allowed;
  return bound_of_codec(result.identity.mode).value_or(kLoosestGradientBound);
}

}  // namespace noisemark::reports
