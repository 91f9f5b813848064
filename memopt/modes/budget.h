#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/plan/options.h"
#include "memopt/plan/planner.h"

namespace noisemark::memopt {

/// The demand of a mode "budget:...".
struct Budget {
  BudgetTarget target = BudgetTarget::kPeak;
  int64_t bytes = 0;
  /// The bound of the relative L2 error of the recorded step's gradient; empty: no bit may differ.
  std::optional<double> error = {};
  bool strict = false;  ///< a step that did not keep it is an error
};

/// The beginning of every spelling of a budget mode.
inline constexpr std::string_view kBudgetPrefix = "budget:";
/// The error of a budget that allows errors and does not say how large.
inline constexpr double kDefaultError = 1e-2;

/// "SIZE" or "saved=SIZE", behind it nothing, ",error=E" or ",error", which allows kDefaultError,
/// and behind that nothing or ",strict". Empty for anything else.
[[nodiscard]] std::optional<Budget> read_budget(std::string_view text);
/// The same in words, for errors.
[[nodiscard]] std::string budget_forms();

/// "budget:" and what read_budget() reads: bounds the most bytes of all owners in a steady step, or
/// with "saved=" the most bytes held for backward. Throws std::invalid_argument for anything else:
/// «found (accepted)».
[[nodiscard]] Budget parse_budget(std::string_view spelling);
/// The canonical spelling, which parse_budget() reads back to the byte.
[[nodiscard]] std::string spell_budget(const Budget& budget);
/// The spelling that can be typed instead of `budget` where `bytes` are needed:
/// "budget:saved=20.05MiB".
[[nodiscard]] std::string spell_budget_of_at_least(const Budget& budget, int64_t bytes);

/// Returns the options from keeping everything, the first, to replaying everything, all of them
/// lossless: "keep"; "exact", which keeps everything too, but masks in 1 bit and what was widened
/// as it was before; "gist"; and what recomputes values, each with what "exact" does and with what
/// "gist" does.
[[nodiscard]] std::vector<BlockOption> lossless_options();
/// Returns those, and keeping and each way to recompute values with every way to round what is
/// held.
[[nodiscard]] std::vector<BlockOption> all_options();

}  // namespace noisemark::memopt
