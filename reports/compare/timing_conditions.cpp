#include "reports/compare/timing_conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

#include "reports/environment_changes.h"

namespace noisemark::reports {
namespace {

/// How often the other side comes next. Runs of one second are taken in the order of their pairs.
size_t changes_of_side(const Cell& cell) {
  std::vector<std::tuple<std::string, size_t, bool>> runs;
  for (size_t i = 0; i < cell.pairs.size(); ++i) {
    runs.emplace_back(cell.pairs[i].first->result.created_utc, i, false);
    runs.emplace_back(cell.pairs[i].second->result.created_utc, i, true);
  }
  std::sort(runs.begin(), runs.end());
  size_t changes = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    changes += std::get<2>(runs[i]) != std::get<2>(runs[i - 1]) ? 1 : 0;
  }
  return changes;
}

/// An idle device is not slowed down: what it says after training counts as well.
bool slowed_down(const Result& result) {
  return !slow_downs(result.environment).empty();
}

/// "3 of 8 runs of NEW WORDS" for the first side of which more than `most_frac` are so.
std::string too_many(const Cell& cell, double most_frac, const char* words,
                     const std::function<bool(const Result&)>& is_so) {
  for (const bool base : {true, false}) {
    const auto count = std::count_if(
        cell.pairs.begin(), cell.pairs.end(),
        [&](const RunPair& pair) { return is_so((base ? pair.first : pair.second)->result); });
    if (static_cast<double>(count) <= most_frac * static_cast<double>(cell.pairs.size())) continue;
    return fmt::format("{} of {} runs of {} {}", count, cell.pairs.size(), base ? "BASE" : "NEW",
                       words);
  }
  return "";
}

}  // namespace

TimingConditions timing_conditions(const Cell& cell) {
  TimingConditions conditions;
  conditions.stored = changes_of_side(cell) < cell.pairs.size();
  conditions.unsteady = too_many(cell, 0.5, "never became steady", [](const Result& result) {
    return !result.protocol.warmup_stable;
  });
  conditions.throttled =
      too_many(cell, kMostThrottledFrac, "saw the device slow itself down", slowed_down);
  return conditions;
}

}  // namespace noisemark::reports
