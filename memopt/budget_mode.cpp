#include "memopt/budget_mode.h"

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "memopt/plan/codec_figures.h"

namespace noisemark::memopt {
namespace {

constexpr std::string_view kSaved = "saved=";

struct Unit {
  std::string_view name;
  int64_t bytes;
};
/// The largest first.
constexpr std::array<Unit, 4> kUnits = {
    {{"GiB", int64_t{1} << 30}, {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}, {"", 1}}};

std::string too_small_words(const Budget& budget, int64_t smallest_bytes) {
  return spell_budget(budget) + " cannot be met: the smallest budget that can is " +
         std::to_string(smallest_bytes) + " bytes";
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number <= 0) return std::nullopt;
  const std::string_view name = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    if (number > std::numeric_limits<int64_t>::max() / unit.bytes) return std::nullopt;
    return number * unit.bytes;
  }
  return std::nullopt;
}

std::string spell_bytes(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes % unit.bytes == 0) {
      return std::to_string(bytes / unit.bytes).append(unit.name);
    }
  }
  return {};
}

std::optional<Budget> read_budget(std::string_view text) {
  Budget budget;
  if (text.starts_with(kSaved)) {
    text.remove_prefix(kSaved.size());
    budget.target = BudgetTarget::kPeakSaved;
  }
  const std::optional<int64_t> bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  budget.bytes = *bytes;
  return budget;
}

Budget parse_budget(std::string_view spelling) {
  std::optional<Budget> budget;
  if (spelling.starts_with(kBudgetPrefix)) {
    budget = read_budget(spelling.substr(kBudgetPrefix.size()));
  }
  if (!budget) {
    throw std::invalid_argument("mode: \"" + std::string(spelling) +
                                "\" (expected: budget:SIZE or budget:saved=SIZE with a SIZE such "
                                "as 2GiB, 512MiB or a number of bytes)");
  }
  if (spell_budget(*budget) != spelling) {
    throw std::invalid_argument("mode: \"" + std::string(spelling) + "\" (nearest valid: \"" +
                                spell_budget(*budget) + "\")");
  }
  return *budget;
}

std::string spell_budget(const Budget& budget) {
  std::string spelling(kBudgetPrefix);
  if (budget.target == BudgetTarget::kPeakSaved) spelling += kSaved;
  return spelling + spell_bytes(budget.bytes);
}

BudgetTooSmall::BudgetTooSmall(const Budget& budget, int64_t smallest_bytes)
    : std::runtime_error(too_small_words(budget, smallest_bytes)),
      smallest_bytes_(smallest_bytes) {}

BudgetMode::BudgetMode(const Budget& budget)
    : PlannedMode(spell_budget(budget), /*lossless=*/true, {}), budget_(budget) {}

void BudgetMode::attach(const ModelView& model) {
  PlannedMode::attach(model);
  planner_.reset();
  answer_.reset();
  failure_ = nullptr;
}

void BudgetMode::begin_forward() {
  PlannedMode::begin_forward();
  if (failure_) std::rethrow_exception(failure_);
}

TreatmentPlan BudgetMode::plan_for(std::shared_ptr<const StepGraph> graph,
                                   const Overrides& overrides, bool verified) {
  try {
    const auto begin = std::chrono::steady_clock::now();
    auto options =
        std::make_shared<const BlockOptions>(std::move(graph), lossless_options(), overrides);
    if (!verified) return options->plan_to_verify();
    TreatmentPlan plan = choose_plan(std::move(options));
    planning_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return plan;
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

TreatmentPlan BudgetMode::choose_plan(std::shared_ptr<const BlockOptions> options) {
  const bool unknown = options->graph()->at_end.live_bytes < 0;
  TORCH_CHECK(budget_.target == BudgetTarget::kPeakSaved || !unknown, name(),
              ": the allocations of the device cannot be followed");
  planner_ = std::make_shared<const Planner>(std::move(options), budget_.target,
                                             measured_codec_figures(device()));
  answer_ = planner_->within(budget_.bytes);
  if (!answer_) throw BudgetTooSmall(budget_, planner_->smallest_bytes());
  return planner_->plan(answer_->point);
}

std::unique_ptr<Mode> make_budget_mode(std::string_view spelling) {
  return std::make_unique<BudgetMode>(parse_budget(spelling));
}

}  // namespace noisemark::memopt
