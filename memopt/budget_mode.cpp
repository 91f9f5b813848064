#include "memopt/budget_mode.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "memopt/gradient_probe.h"
#include "memopt/plan/codec_figures.h"

namespace noisemark::memopt {
namespace {

/// So often the error model is corrected by what was measured. Then nothing is rounded, which is
/// followed whatever is measured: a device may give another gradient each time.
constexpr int kCorrections = 8;
/// A correction lowers what is allowed at least by so much, or it might go on forever.
constexpr double kLeastCorrection = 1.25;
/// No model is that wrong: the plan's gradient was not finite.
constexpr double kMostCorrection = 1e6;

std::string too_small_words(const Budget& budget, int64_t smallest_bytes) {
  return spell_budget(budget) + " cannot be met: the smallest budget that can is " +
         std::to_string(smallest_bytes) + " bytes (" +
         spell_budget_of_at_least(budget, smallest_bytes) + ")";
}

/// Adds to `total_s` what its scope takes, less what `measuring_s` grows by meanwhile.
class PlanningScope {
 public:
  PlanningScope(double& total_s, const double& measuring_s)
      : total_s_(total_s), measuring_s_(measuring_s), measuring_before_s_(measuring_s) {}
  ~PlanningScope() {
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin_;
    total_s_ += all.count() - (measuring_s_ - measuring_before_s_);
  }
  PlanningScope(const PlanningScope&) = delete;
  PlanningScope& operator=(const PlanningScope&) = delete;

 private:
  double& total_s_;
  const double& measuring_s_;
  double measuring_before_s_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

constexpr double kMeasuresNothing = 0;

}  // namespace

BudgetTooSmall::BudgetTooSmall(const Budget& budget, int64_t smallest_bytes)
    : std::runtime_error(too_small_words(budget, smallest_bytes)),
      smallest_bytes_(smallest_bytes) {}

BudgetMode::BudgetMode(const Budget& budget)
    : PlannedMode(spell_budget(budget), /*lossless=*/!budget.error, {}), budget_(budget) {}

void BudgetMode::attach(const ModelView& model) {
  PlannedMode::attach(model);
  options_.reset();
  planner_.reset();
  answer_.reset();
  measured_error_.reset();
  probed_passes_ = 0;
  planning_s_ = codec_measuring_s_ = apart_s_ = 0;
  failure_ = nullptr;
}

void BudgetMode::begin_forward() {
  PlannedMode::begin_forward();
  if (failure_) std::rethrow_exception(failure_);
}

int64_t BudgetMode::forwards_until_steady() const {
  return PlannedMode::forwards_until_steady() + (budget_.error ? 1 : 0);
}

TreatmentPlan BudgetMode::plan_for(std::shared_ptr<const StepGraph> graph,
                                   const Overrides& overrides, bool verified) {
  const PlanningScope timed(planning_s_, apart_s_);
  try {
    const std::shared_ptr<const BlockOptions> before = std::move(options_);
    const auto options = std::make_shared<BlockOptions>(
        std::move(graph), budget_.error ? all_options() : lossless_options(), overrides);
    options_ = options;
    if (!verified) return options_->plan_to_verify();
    // What was measured was this choice, whatever a codec refused since.
    if (measured_error_) {
      options->add_price_limits_of(*before);
      return answered();
    }
    options->add_price_limits(measured_figures());
    // Nothing is dropped before the errors are known.
    if (budget_.error) return options_->plan(std::vector<size_t>(options_->blocks(), 0));
    plan_within({});
    return answered();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// Figures that are known: what a codec costs is measured here, not while the planner is at work.
CodecFigures BudgetMode::measured_figures() {
  CodecFigures figures = measured_codec_figures(device());
  const double before_s = apart_s_;
  {
    const PlanningScope timed(apart_s_, kMeasuresNothing);
    options_->ask_for_all(figures);
  }
  codec_measuring_s_ += apart_s_ - before_s;
  return figures;
}

/// The cheapest choice within the budget and the error that is expected of it.
void BudgetMode::plan_within(ErrorModel errors) {
  const bool unknown = options_->graph()->at_end.live_bytes < 0;
  TORCH_CHECK(budget_.target == BudgetTarget::kPeakSaved || !unknown, name(),
              ": the allocations of the device cannot be followed");
  planner_ = std::make_shared<const Planner>(options_, budget_.target, measured_figures(),
                                             std::move(errors));
  answer_ = planner_->within(budget_.bytes);
}

TreatmentPlan BudgetMode::answered() const {
  if (!answer_) throw BudgetTooSmall(budget_, planner_->smallest_bytes());
  return options_->plan(answer_->point.chosen, answer_->point.held);
}

std::optional<int64_t> BudgetMode::irreplaceable_bytes() const {
  if (plan() == nullptr || options_ == nullptr) return std::nullopt;
  return memopt::irreplaceable_bytes(options_->plan_to_verify());
}

bool BudgetMode::wants_rehearsal() const {
  return budget_.error && !measured_error_;
}

void BudgetMode::rehearse(GradientProbe& probe) {
  const PlanningScope timed(planning_s_, apart_s_);
  try {
    plan_and_measure(probe);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// Until a plan is found whose error was measured to be allowed. Also for a budget that cannot be
/// met: the smallest that can is that of a plan that was measured.
void BudgetMode::plan_and_measure(GradientProbe& probe) {
  const double limit = *budget_.error;
  const auto error_of = [&](const std::shared_ptr<const TreatmentPlan>& plan) {
    const PlanningScope timed(apart_s_, kMeasuresNothing);
    return probe.error_of(plan);
  };
  ErrorModel errors = measured_error_model(*options_, error_of, limit);
  for (int corrections = 0;; ++corrections) {
    plan_within(errors);
    const PlanPoint& point = answer_ ? answer_->point : planner_->curve().back();
    const double measured = error_of(std::make_shared<const TreatmentPlan>(planner_->plan(point)));
    probed_passes_ = probe.passes();
    if (measured <= limit || corrections > kCorrections) {
      measured_error_ = measured;
      return;
    }
    if (corrections == kCorrections) {
      errors.forbid_rounding(options_->options());
    } else {
      const double excess = measured / std::max(point.error, std::numeric_limits<double>::min());
      errors.scale(std::clamp(excess * excess, kLeastCorrection, kMostCorrection));
    }
  }
}

std::unique_ptr<Mode> make_budget_mode(std::string_view spelling) {
  return std::make_unique<BudgetMode>(parse_budget(spelling));
}

}  // namespace noisemark::memopt
