#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/ab/judge.h"
#include "reports/ab/record.h"

namespace noisemark::suite {

/// A build to compare.
struct AbProgram {
  std::string name;    ///< name as the user spelled it
  std::string binary;  ///< path of a `noisemark`
};

struct AbRequest {
  AbProgram a;
  AbProgram b;
  std::vector<std::string> pace;  ///< words after `noisemark pace`: benchmark and options
  int64_t pairs = 0;              ///< number in the first look
  double seconds = 60;            ///< about how long the first look may take
  double turn_s = 0.2;            ///< longest turn, unless a single step takes longer
  double slow_down_frac = 0;      ///< control, put into every step of B
  bool short_runs = false;        ///< compare what has no noise before the first pair
  /// The calibrated noise floor for an identity, asked once; empty: there is none. May throw.
  std::function<double(const reports::Strings&)> noise_floor;
  reports::AbOptions judge;      ///< the rules by which an extension is decided
  reports::Strings environment;  ///< environment section of the record; not read
};

/// AbRecord::ended of a measurement that AbWatch::stop ended.
inline constexpr std::string_view kInterruptedWord = "interrupted";

/// Lets a caller follow and end a measurement.
struct AbWatch {
  std::function<void(const reports::AbRecord&)> on_pair;   ///< hears of each pair; may be empty
  std::function<bool()> stop;                              ///< asked between turns; may be empty
  std::function<void(reports::AbSide)> on_short_run = {};  ///< hears of each before it begins; may
                                                           ///< be empty
  /// Is called after the last turn of a pair, while its processes live: AbPair::clock_reasons.
  std::function<std::string()> clock_reasons = {};
};

/// First makes, with short_runs, one run of each build (build.h), and a second one where their
/// figures are not equal. Then makes pairs of live processes one after the other, and within a pair
/// passes the token in blocks ABBA and BAAB, the builds in swapped order from pair to pair. The
/// length of a turn follows from the first pair's start: at most as asked for, and so that at least
/// one block fits. Makes as many pairs again when wants_extension(). Stops early, and the record
/// says so, when `stop` says it or when identities differ. When a process fails the record so far
/// goes to `on_pair`, marked, before the Error is thrown on.
[[nodiscard]] reports::AbRecord measure_ab(const AbRequest& request, const AbWatch& watch = {});

/// Turn sizes for a pair that may take `pair_s`, of which `start_s` pass before the first step that
/// counts, when a step takes `step_s` and a turn should not take longer than `turn_s`.
[[nodiscard]] reports::AbPlan plan_turns(double pair_s, double start_s, double step_s,
                                         double turn_s = 0.2);

}  // namespace noisemark::suite
