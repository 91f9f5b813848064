#include "memopt/modes/budget_mode.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memopt/device/repeated_work.h"
#include "memopt/modes/budget.h"
#include "memopt/plan/codec_figures.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/replay/rehearsal.h"

namespace noisemark::memopt {
namespace {

/// The error model is corrected at most this often by what was measured; after that nothing is
/// rounded, which is followed up to most_without_rounding(): a device may give another gradient
/// each time.
constexpr int kCorrections = 8;
/// A correction lowers what is allowed at least by so much, or it might go on forever.
constexpr double kLeastCorrection = 1.25;
/// The largest expected error, as a multiple of the allowed one. A step beyond it is counted, and a
/// more careful plan is chosen: what rounding adds was seen to differ by 1.6 between steps, and
/// others than the measured one may have twice the error that is allowed.
constexpr double kMostExpected = 1.25;
/// A plan for a smaller gradient is not measured, and what rounding adds was seen to be up to 3.3
/// times what was expected then.
constexpr double kCare = 2;
/// A gradient so many times as large as the measured one is of other values: nobody knows its
/// error.
constexpr double kMostGrowth = 16;
/// No model is that wrong: the plan's gradient was not finite.
constexpr double kMostCorrection = 1e6;

std::string too_small_words(const Budget& budget, int64_t smallest_bytes) {
  // With an error a plan between the two may be good enough, which nobody has tried.
  const char* what = budget.error ? " cannot be met: the smallest budget found that can is "
                                  : " cannot be met: the smallest budget that can is ";
  return spell_budget(budget) + what + std::to_string(smallest_bytes) + " bytes (" +
         spell_budget_of_at_least(budget, smallest_bytes) + ")";
}

std::string not_repeatable_words(const Budget& budget, double error) {
  return spell_budget(budget) +
         ": backward gives another gradient when it is run again, although nothing is rounded "
         "(by " +
         std::to_string(error) +
         " of its norm), so no error can be measured: a function's backward, or a hook, changes "
         "what it reads. Clear the gradients and take the step again: from now on everything is "
         "kept. A "
         "budget without an error runs backward once";
}

/// Returns the largest difference of two gradients that is put down to sums in another order.
/// Beyond it the program itself gives another gradient each time. Such sums differ by less than a
/// thousandth in float32, and by up to some hundredths where a device that adds in no fixed order
/// keeps 8 bits of mantissa.
double most_without_rounding(const StepGraph& graph, c10::Device device) {
  constexpr double kMost = 0.001;
  constexpr double kMostOfNarrow = 0.05;
  if (device.is_cpu()) return kMost;
  const bool is_narrow = std::any_of(
      graph.values.begin(), graph.values.end(),
      [](const RecordedValue& value) { return at::isReducedFloatingType(value.dtype); });
  return is_narrow ? kMostOfNarrow : kMost;
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
    : std::invalid_argument(too_small_words(budget, smallest_bytes)),
      smallest_bytes_(smallest_bytes) {}

BudgetMode::BudgetMode(const Budget& budget)
    : PlannedMode(spell_budget(budget), /*lossless=*/!budget.error, {}), budget_(budget) {}

void BudgetMode::attach(const ModelView& model) {
  PlannedMode::attach(model);
  options_.reset();
  probed_passes_ = 0;
  planning_s_ = codec_measuring_s_ = apart_s_ = 0;
  failure_ = nullptr;
  kept_ = {};
  in_step_ = step_exceeded_ = step_uncertain_ = false;
  passes_looked_at_ = 0;
  followed_too_early_ = watched_from_ = most_before_passes_bytes_ = 0;
  step_mark_.reset();
}

void BudgetMode::forget_plan() {
  needed_bytes_ = unforeseen_bytes_ = 0;
  planner_.reset();
  answer_.reset();
  measured_error_.reset();
  gradient_norm_ = largest_norm_ = expected_error_ = 0;
  most_careful_ = false;
  together_ = 1;
}

/// A step that an error ended before end_step() is counted first.
void BudgetMode::begin_step(int64_t step) {
  if (has_open_scope()) {
    throw std::logic_error("mode " + name() +
                           ": begin_step() was called inside of a scope of the mode: " +
                           "open a scope around each forward pass of a step");
  }
  if (in_step_) end_step();
  PlannedMode::begin_step(step);
  if (is_planned_too_early()) {
    failure_ = nullptr;
    start_over("the first step was too early to plan");
    followed_too_early_ = PlannedMode::report().followed_passes;
    watched_from_ = passes();
  }
  if (steps() == 2) most_before_passes_bytes_ = 0;  // the first makes what is made only once
  if (failure_) std::rethrow_exception(failure_);
  in_step_ = true;
  AllocationSource* memory = recorded_memory();
  step_mark_ = memory == nullptr ? nullptr : std::make_unique<HighMark>(*memory);
  step_high_bytes_ = kNone;
  gradients_before_bytes_ = gradient_bytes(model());
  passes_before_ = passes();
  const PlannedModeReport before = PlannedMode::report();
  followed_before_ = before.followed_passes;
  retained_before_ = before.retained_passes;
  refused_before_ = refused_bytes();
}

void BudgetMode::begin_forward() {
  require_attached();
  if (!in_step_ && !is_rehearsing()) {
    throw std::logic_error("mode " + name() + ": a forward pass begins outside of a step: call " +
                           "begin_step() before its scope is opened");
  }
  if (step_mark_ != nullptr && !is_rehearsing()) {
    step_high_bytes_ = std::max(step_high_bytes_, step_mark_->take());
    const bool first = passes() == passes_before_;
    if (first) before_first_bytes_ = step_high_bytes_;
    // The batch of a later one is made beside the gradients of those before it.
    const int64_t more_gradients = gradient_bytes(model()) - gradients_before_bytes_;
    const int64_t gradients = first ? 0 : std::max<int64_t>(more_gradients, 0);
    most_before_passes_bytes_ =
        std::max(most_before_passes_bytes_, before_first_bytes_ + gradients);
  }
  PlannedMode::begin_forward();
}

void BudgetMode::end_step() {
  const bool in_step = std::exchange(in_step_, false);
  PlannedMode::end_step();
  if (step_mark_ != nullptr) step_high_bytes_ = std::max(step_high_bytes_, step_mark_->take());
  const int64_t high_bytes = step_high_bytes_;
  step_mark_.reset();
  step_exceeded_ = false;
  if (device().is_cpu()) look_at_gradient();
  if (!in_step) return;
  const int64_t watched = passes_before_ - watched_from_;
  if (watched < forwards_until_steady() || passes() == passes_before_) return;
  ++kept_.steps;
  const Excess excess = excess_of_step(high_bytes);
  if (excess.reason.empty()) return;
  step_exceeded_ = true;
  ++kept_.exceeded;
  kept_.reason = excess.reason;
  // It doubles at least, so that a training that holds more in every step is planned again
  // only a few times.
  if (excess.unforeseen_bytes > 0) {
    unforeseen_bytes_ += std::max(excess.unforeseen_bytes, unforeseen_bytes_);
  }
}

BudgetMode::Excess BudgetMode::excess_of_step(int64_t high_bytes) const {
  const PlannedModeReport now = PlannedMode::report();
  const int64_t unplanned = passes() - passes_before_ - (now.followed_passes - followed_before_);
  const int64_t retained = now.retained_passes - retained_before_;
  const int64_t refused = refused_bytes() - refused_before_;
  const int64_t earlier = passes_of_earlier_steps();
  Excess excess;
  std::string& reason = excess.reason;
  const bool measured = budget_.target == BudgetTarget::kPeak && high_bytes != kNone;
  if (measured && high_bytes <= budget_.bytes) return excess;
  if (measured) reason = std::to_string(high_bytes) + " bytes were live at most; ";
  if (unplanned > 0) {
    reason += std::to_string(unplanned) + " forward passes followed no plan: ";
    reason += reason_without_plan();
  } else if (needed_bytes_ > 0) {
    reason += "what its forward passes have become needs at least " +
              std::to_string(needed_bytes_) + " bytes";
  } else if (retained > 0) {
    reason += std::to_string(retained) + " graphs were retained after their backward";
  } else if (exceeds_with(earlier * (answer_ ? answer_->point.peak_saved_bytes : 0))) {
    reason += std::to_string(earlier) + " forward passes of earlier steps were held beside its own";
  } else if (exceeds_with(bytes_for_other_plans())) {
    reason += "until it was known which of several plans a forward pass follows, it held up to " +
              std::to_string(bytes_for_other_plans()) + " bytes for the others";
  } else if (exceeds_with(refused) || (measured && refused > 0)) {
    reason += "tensors of " + std::to_string(refused) +
              " bytes were held as they were saved, because their codecs did not take them";
  } else if (measured) {
    reason += "the steps are not like the recorded one";
    excess.unforeseen_bytes = high_bytes - budget_.bytes;
  }
  return excess;
}

/// Returns whether so many bytes beside those that the plan of all passes of a step will hold are
/// too many. It is asked of bytes held for backward, which nobody measures.
bool BudgetMode::exceeds_with(int64_t more_bytes) const {
  if (budget_.target != BudgetTarget::kPeakSaved || more_bytes == 0 || !answer_) return false;
  return together_ * answer_->point.peak_saved_bytes + more_bytes > budget_.bytes;
}

void BudgetMode::check_step() {
  PlannedMode::check_step();
  if (!device().is_cpu() && !work_is_recorded()) look_at_gradient();
  if (!budget_.strict || !(step_exceeded_ || step_uncertain_)) return;
  throw BudgetNotKept(spell_budget(budget_) +
                      " was not kept: " + (step_exceeded_ ? kept_.reason : kept_.uncertain_reason));
}

namespace {

/// Returns the norm of all dense gradients as one vector; empty where there is none. Waits for the
/// device.
std::optional<double> gradient_norm(const ModelView& model) {
  const c10::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard no_callbacks;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : model.parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.layout() != at::kStrided) continue;
    gradients.push_back(gradient.is_complex() ? at::view_as_real(gradient.resolve_conj())
                                              : gradient);
  }
  if (gradients.empty()) return std::nullopt;
  std::vector<at::Tensor> norms = at::_foreach_norm(gradients);
  for (at::Tensor& norm : norms) norm = norm.to(at::kDouble);
  return at::linalg_vector_norm(at::stack(norms)).item<double>();
}

}  // namespace

/// Compares it with the one whose error was measured. A step that a device repeats has the plan
/// that it was recorded with, and is only counted.
void BudgetMode::look_at_gradient() {
  step_uncertain_ = false;
  const bool repeated = passes() == std::exchange(passes_looked_at_, passes());
  const bool followed = PlannedMode::report().followed_passes > followed_before_;
  if (!measured_error_ || (gradient_norm_ > 0 && !followed)) return;
  const std::optional<double> seen = gradient_norm(model());
  if (!seen) {
    if (followed && expected_error_ > 0) {
      note_uncertain(
          "no parameter had a dense gradient when the step ended, so that nobody knows whether "
          "it was as large as the one whose error was bounded");
    }
    return;
  }
  const double norm = *seen;
  if (!std::isfinite(norm) || norm == 0) return;
  if (gradient_norm_ == 0) gradient_norm_ = norm;
  const bool grew = expected_error_ > 0 && norm > kMostGrowth * gradient_norm_;
  const double expected = expected_error_ * gradient_norm_ / norm;
  if (!grew && expected <= kMostExpected * *budget_.error) return;
  note_uncertain("the norm of the gradient is " + std::to_string(norm) +
                 ", and its error was bounded when that was " + std::to_string(gradient_norm_));
  if (repeated) return;
  if (grew) {
    measure_again(norm);
  } else if (!most_careful_) {
    most_careful_ = !plans_for_gradient(norm);
  }
}

/// Measures the next pass, once for each growth: a gradient that is large now and then is counted
/// only.
void BudgetMode::measure_again(double norm) {
  if (norm <= kMostGrowth * largest_norm_) return;
  largest_norm_ = norm;
  measured_error_.reset();
  plan_again();
}

void BudgetMode::note_uncertain(std::string reason) {
  step_uncertain_ = true;
  ++kept_.uncertain;
  kept_.uncertain_reason = std::move(reason);
}

/// Chooses a plan that is as careful as the gradient is small, or kCare times as careful if the
/// budget has such a plan; false where it has neither. A budget that is exceeded anyway gets the
/// smallest of these plans.
bool BudgetMode::plans_for_gradient(double norm) {
  const PlanningScope timed(planning_s_, apart_s_);
  ErrorModel errors = errors_;
  errors.scale(std::pow(gradient_norm_ / norm, 2));
  const std::shared_ptr<const Planner> planner = planner_;
  const std::optional<BudgetAnswer> answer = answer_;
  for (const double care : {kCare, 1.0}) {
    ErrorModel careful = errors;
    careful.scale(care * care);
    plan_within(std::move(careful));
    if (!answer_ && needed_bytes_ == 0) continue;
    gradient_norm_ = norm;
    expected_error_ = point_in_force().error;
    errors_ = std::move(errors);
    plan_again();
    return true;
  }
  planner_ = planner;
  answer_ = answer;
  return false;
}

PlannedModeReport BudgetMode::report() const {
  PlannedModeReport report = PlannedMode::report();
  report.budget = kept_;
  report.budget->needed_bytes = needed_bytes_;
  return report;
}

/// Returns whether the plan is of the first step, as the second begins: its memory lacks what the
/// optimizer keeps from then on.
bool BudgetMode::is_planned_too_early() const {
  const bool planned = plan() != nullptr || failure_ != nullptr;
  return steps() == 2 && planned && budget_.target == BudgetTarget::kPeak;
}

int64_t BudgetMode::share() const {
  if (budget_.target == BudgetTarget::kPeakSaved) return budget_.bytes / together_;
  return budget_.bytes - bytes_beside() - unforeseen_bytes_;
}

void BudgetMode::before_pass() {
  if (planner_ == nullptr) return;
  const bool peak = budget_.target == BudgetTarget::kPeak;
  const bool too_much = peak && answer_ && answer_->point.peak_bytes > share();
  const bool others = together_ != passes_together() && (!peak || budget_.error);
  together_ = passes_together();
  if (!too_much && !others) return;
  measured_error_.reset();
  plan_again();
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
    if (measured_error_) {
      options->add_price_limits_of(*before);
      if (answer_) predict_again();
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
                                             std::move(errors), passes_beside());
  together_ = passes_together();
  answer_ = planner_->within(share());
}

/// The choice in force was measured, and stays as long as it is within the budget: a codec may have
/// refused a tensor since.
void BudgetMode::predict_again() {
  PlanPoint& point = answer_->point;
  const TreatmentPlan plan = options_->plan(point.chosen, point.held);
  const PeakTimeline timeline = simulate(plan, measured_codec_figures(device()));
  point.peak_saved_bytes = timeline.peak_saved_bytes;
  if (budget_.target == BudgetTarget::kPeak) {
    point.peak_bytes = peak_bytes(timeline, other_bytes(plan.graph), passes_beside());
  }
  if (point.of(budget_.target) <= share()) return;
  plan_within(errors_);
  if (answer_) expected_error_ = answer_->point.error;
}

TreatmentPlan BudgetMode::answered() {
  needed_bytes_ = 0;
  const bool shared = budget_.target == BudgetTarget::kPeakSaved;
  // No plan changes what is made before the passes.
  const bool fits_before = shared || most_before_passes_bytes_ <= budget_.bytes;
  if (answer_ && fits_before) return options_->plan(answer_->point.chosen, answer_->point.held);
  if (!answer_) {
    needed_bytes_ = shared ? planner_->sure_bytes() * together_
                           : planner_->sure_bytes() + bytes_beside() + unforeseen_bytes_;
  }
  if (!fits_before) needed_bytes_ = std::max(needed_bytes_, most_before_passes_bytes_);
  // A training that kept it before and has changed goes on, and so does one that has passes of
  // another kind, which no refusal could have known, or whose values are no longer what codecs
  // take. The report counts its steps.
  const bool planned_before = PlannedMode::report().followed_passes > followed_too_early_;
  if (kept_.steps == kept_.exceeded && !planned_before && refused_bytes() == 0) {
    throw BudgetTooSmall(budget_, needed_bytes_);
  }
  if (answer_) return options_->plan(answer_->point.chosen, answer_->point.held);
  return planner_->plan(point_in_force());
}

const PlanPoint& BudgetMode::point_in_force() const {
  return answer_ ? answer_->point : planner_->curve().back();
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
  } catch (const BackwardNotRepeatable&) {
    throw;  // the program hears of it once, and may go on
  } catch (const c10::OutOfMemoryError&) {
    throw;  // a plan that was tried needs more than there is, and everything is kept
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// Plans until a plan is found whose error was measured to be allowed, for a budget that cannot be
/// met too: the smallest that can is that of a plan that was measured. Of several forward passes
/// before one backward a single one is rehearsed, and the others add as much error.
void BudgetMode::plan_and_measure(GradientProbe& probe) {
  const double limit = *budget_.error;
  const auto error_of = [&](const std::shared_ptr<const TreatmentPlan>& plan) {
    const PlanningScope timed(apart_s_, kMeasuresNothing);
    return static_cast<double>(passes_together()) * probe.error_of(plan);
  };
  // Two in turn tell whether each differs, also where every second does.
  const double repeated = probe.error_when_repeated();
  const double most_repeated = most_without_rounding(*options_->graph(), device());
  if (repeated > most_repeated) {
    throw BackwardNotRepeatable(not_repeatable_words(budget_, repeated));
  }
  if (!probe.usable()) return;
  ErrorModel measured_apart = measured_error_model(*options_, error_of, limit);
  // Another backward of this pass was measured before.
  if (measured_error_) measured_apart.take_larger(errors_);
  ErrorModel errors = measured_apart;
  bool smallest_is_left = true;
  for (int corrections = 0;; ++corrections) {
    plan_within(errors);
    const bool is_lost = corrections > 0 && !answer_;
    if (is_lost && std::exchange(smallest_is_left, false) &&
        takes_smallest(measured_apart, error_of)) {
      return;
    }
    const PlanPoint& point = point_in_force();
    const double measured = error_of(std::make_shared<const TreatmentPlan>(planner_->plan(point)));
    probed_passes_ = probe.passes();
    if (corrections > kCorrections && measured > std::max(limit, most_repeated)) {
      throw BackwardNotRepeatable(not_repeatable_words(budget_, measured));
    }
    if (measured <= limit || corrections > kCorrections) {
      expect_error(std::move(errors), measured);
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

/// A correction that one plan needed can forbid all that fit, though the smallest of those before
/// it needs none: it is measured itself, since its size is what a refusal names.
bool BudgetMode::takes_smallest(const ErrorModel& errors, const MeasureError& error_of) {
  const std::shared_ptr<const Planner> corrected = planner_;
  plan_within(errors);
  if (planner_->smallest_bytes() <= share()) {
    answer_ = planner_->within(planner_->smallest_bytes());
    const PlanPoint& point = answer_->point;
    const double measured = error_of(std::make_shared<const TreatmentPlan>(planner_->plan(point)));
    if (measured <= *budget_.error) {
      expect_error(errors, measured);
      return true;
    }
  }
  planner_ = corrected;
  answer_.reset();
  return false;
}

/// A plan that rounds nothing is expected to have no error, whatever a device gives each time.
void BudgetMode::expect_error(ErrorModel errors, double measured) {
  const double of_plan = point_in_force().error;
  measured_error_ = std::max(measured, measured_error_.value_or(0));
  gradient_norm_ = 0;
  most_careful_ = false;
  expected_error_ = of_plan > 0 ? *measured_error_ : 0;
  errors_ = std::move(errors);
  const double excess = of_plan > 0 ? measured / of_plan : 1;
  if (excess > 1) errors_.scale(excess * excess);
}

std::unique_ptr<Mode> make_budget_mode(std::string_view spelling) {
  return std::make_unique<BudgetMode>(parse_budget(spelling));
}

}  // namespace noisemark::memopt
