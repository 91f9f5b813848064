#include "memopt/modes/rounding_mode.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "memopt/device/repeated_work.h"

namespace noisemark::memopt {
namespace {

/// The search for what is to blame runs backward at most so often. What it has not found out by
/// then is not rounded.
constexpr int kMostPasses = 64;
/// Storages that move the gradient by less than this share of the bound together are not looked at
/// one by one.
constexpr double kLittle = 0.25;
/// Errors add up as if they were independent, which they nearly are. The plan is measured after
/// all.
constexpr double kMostTogether = 0.8;
/// The error of other steps is another one, and that of rounding at random differs more: so much of
/// the bound may be seen.
constexpr double kMostSeen = 0.75;
/// A search may have been lucky, so the next pass measures what is left. After so many searches
/// nothing is rounded.
constexpr int kMostSearches = 4;
/// The plan is followed after so many steps without a backward that can be measured. Its gradient
/// is not finite, as loss scaling has it at first, or it is called within the scope.
constexpr int kMostUnrehearsed = 3;
/// Then a later step is tried, after so many at first and twice as many each time, up to the most.
constexpr int64_t kFirstWait = 8;
constexpr int64_t kLongestWait = 1024;

}  // namespace

RoundingMode::RoundingMode(std::string name, Policy policy, double bound)
    : PlannedMode(std::move(name), /*lossless=*/false, std::move(policy)), bound_(bound) {}

TreatmentPlan RoundingMode::plan_for(std::shared_ptr<const StepGraph> graph,
                                     const Overrides& overrides, bool verified) {
  TreatmentPlan plan = PlannedMode::plan_for(std::move(graph), overrides, verified);
  overrides_ = overrides;
  roundings_ = roundings_of(plan);
  rounded_.clear();
  for (const auto& [storage, form] : roundings_) {
    if (rounded_.empty() || rounded_.back() != storage) rounded_.push_back(storage);
  }
  return plan;
}

RoundingMode::Roundings RoundingMode::roundings_of(const TreatmentPlan& plan) {
  Roundings roundings;
  for (size_t id = 0; id < plan.values.size(); ++id) {
    const ValueTreatment& value = plan.values[id];
    const bool is_encoded = value.source == Source::kEncoded || value.source == Source::kSliced;
    if (!value.rounded || !is_encoded) continue;
    roundings.emplace(plan.graph->values[id].storage,
                      value.codec == nullptr ? std::string() : value.codec->form());
  }
  return roundings;
}

bool RoundingMode::wants_rehearsal() const {
  const bool waits = measures_from_ > 0 && (steps() < measures_from_ || work_is_recorded());
  return !waits && !is_measured();
}

/// A single one of several forward passes before one backward is rehearsed, and the others add as
/// much error.
void RoundingMode::rehearse(GradientProbe& probe) {
  if (!probe.usable() || rounded_.empty()) return;
  const MeasureError error_of = [&](const Storages& rounded) {
    return static_cast<double>(passes_together()) * probe.error_of(plan_that_rounds(rounded));
  };
  if (std::exchange(measured_in_, passes()) != passes()) measured_ = roundings_;
  try {
    measure(probe, error_of);
  } catch (const BackwardNotRepeatable&) {
    // Nothing of the program runs in this backward: the plan refused what it had to make again.
    must_be_exact(rounded_);
    rounded_.clear();
  }
}

void RoundingMode::measure(GradientProbe& probe, const MeasureError& error_of) {
  const double error = error_of(rounded_);
  // A codec that takes a tensor in another pass would round what was exact in this one.
  must_not_use(probe.refused());
  for (const Refusal& refusal : probe.refused()) {
    measured_.erase({plan()->graph->value(refusal.value).storage, refusal.form});
  }
  if (error <= kMostSeen * bound_) return;
  measured_.clear();
  // Nobody can tell what rounding does to a gradient that is another one each time.
  const bool search = ++searches_ <= kMostSearches && probe.error_of(/*plan=*/nullptr) <= bound_;
  Storages kept = search ? least_harmful(error_of) : Storages{};
  must_be_exact(others_than(kept));
  rounded_ = std::move(kept);
}

bool RoundingMode::follows_unrehearsed(Unrehearsed why) {
  if (std::exchange(unrehearsed_in_, steps()) != steps()) ++unrehearsed_;
  if (why != Unrehearsed::kHooks && unrehearsed_ < kMostUnrehearsed) return false;
  if (why != Unrehearsed::kNoGradient) {
    measured_ = roundings_;
    return true;
  }
  patience_ = patience_ == 0 ? kFirstWait : std::min(2 * patience_, kLongestWait);
  measures_from_ = steps() + patience_;
  return true;
}

std::shared_ptr<const TreatmentPlan> RoundingMode::plan_that_rounds(const Storages& rounded) {
  auto graph = std::make_shared<StepGraph>(*plan()->graph);
  for (const StorageId id : others_than(rounded)) {
    graph->storages[static_cast<size_t>(id)].exact = true;
  }
  return std::make_shared<const TreatmentPlan>(
      PlannedMode::plan_for(std::move(graph), overrides_, /*verified=*/true));
}

RoundingMode::Storages RoundingMode::others_than(const Storages& rounded) const {
  Storages others;
  std::set_difference(rounded_.begin(), rounded_.end(), rounded.begin(), rounded.end(),
                      std::back_inserter(others));
  return others;
}

/// Returns those that can be rounded together within the bound, as many as are found. Halves whose
/// error is small are taken as one.
RoundingMode::Storages RoundingMode::least_harmful(const MeasureError& error_of) const {
  std::vector<std::pair<double, Storages>> found;
  std::vector<Storages> open = {rounded_};
  for (int passes = 0; !open.empty() && passes < kMostPasses; ++passes) {
    const Storages part = std::move(open.back());
    open.pop_back();
    const double error = error_of(part);
    if (error <= kLittle * kMostSeen * bound_ || part.size() == 1) {
      found.emplace_back(error, part);
      continue;
    }
    const auto middle = part.begin() + std::ssize(part) / 2;
    open.emplace_back(part.begin(), middle);
    open.emplace_back(middle, part.end());
  }
  std::sort(found.begin(), found.end());
  const double limit = kMostTogether * kMostSeen * bound_;
  Storages chosen;
  double squared = 0;
  for (const auto& [error, part] : found) {
    squared += error * error;
    if (squared > limit * limit) break;
    chosen.insert(chosen.end(), part.begin(), part.end());
  }
  std::sort(chosen.begin(), chosen.end());
  return !chosen.empty() && error_of(chosen) <= kMostSeen * bound_ ? chosen : Storages{};
}

}  // namespace noisemark::memopt
