#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "memopt/plan/planner.h"
#include "memopt/planned_mode.h"

namespace noisemark::memopt {

/// What a mode "budget:..." asks for.
struct Budget {
  BudgetTarget target = BudgetTarget::kPeak;
  int64_t bytes = 0;
};

/// "2GiB", "512MiB", "96KiB" or a number of bytes. Empty for anything else.
[[nodiscard]] std::optional<int64_t> parse_bytes(std::string_view text);
/// In the largest unit that leaves a whole number: "512MiB".
[[nodiscard]] std::string spell_bytes(int64_t bytes);

/// "SIZE" or "saved=SIZE". Empty for anything else.
[[nodiscard]] std::optional<Budget> read_budget(std::string_view text);

/// "budget:SIZE" bounds the most bytes of all owners in a steady step, "budget:saved=SIZE" the most
/// bytes held for backward. Throws std::invalid_argument for another spelling, with the canonical
/// one where there is one.
[[nodiscard]] Budget parse_budget(std::string_view spelling);
[[nodiscard]] std::string spell_budget(const Budget& budget);

/// No plan is within a budget.
class BudgetTooSmall : public std::runtime_error {
 public:
  BudgetTooSmall(const Budget& budget, int64_t smallest_bytes);
  /// The smallest budget that can be met.
  [[nodiscard]] int64_t smallest_bytes() const { return smallest_bytes_; }

 private:
  int64_t smallest_bytes_;
};

/// A planned mode whose plan is the cheapest that the planner knows within a budget. The third pass
/// compares whatever any option could make again. Where the budget cannot be met, the next forward
/// pass throws BudgetTooSmall.
class BudgetMode final : public PlannedMode {
 public:
  explicit BudgetMode(const Budget& budget);

  void attach(const ModelView& model) override;
  void begin_forward() override;

  /// Of the plan in force; null and empty before the third pass has ended.
  [[nodiscard]] std::shared_ptr<const Planner> planner() const { return planner_; }
  [[nodiscard]] const std::optional<BudgetAnswer>& answer() const { return answer_; }
  /// What making the plan took.
  [[nodiscard]] double planning_s() const { return planning_s_; }

 private:
  TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph, const Overrides& overrides,
                         bool verified) override;
  TreatmentPlan choose_plan(std::shared_ptr<const BlockOptions> options);

  Budget budget_;
  std::shared_ptr<const Planner> planner_;
  std::optional<BudgetAnswer> answer_;
  double planning_s_ = 0;
  std::exception_ptr failure_;
};

/// What every spelling of a budget mode begins with.
inline constexpr std::string_view kBudgetPrefix = "budget:";

/// Throws std::invalid_argument, as parse_budget() does.
[[nodiscard]] std::unique_ptr<Mode> make_budget_mode(std::string_view spelling);

}  // namespace noisemark::memopt
