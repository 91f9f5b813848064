#pragma once

#include <memory>

#include "memopt/plan/resolve.h"

/// Choices that a policy leaves open, made by what the recorded step is predicted to hold at its
/// peak. Values that are recomputed are counted as they are, whatever codecs could do to them.
namespace noisemark::memopt {

/// Cuts the step into segments for a policy that has no use for blocks: of some numbers around the
/// square root of that of saved storages, and of both kinds of places (cuts.h), those whose plan
/// has the lowest peak.
void cut_for_lowest_peak(StepGraph& graph, const Policy& policy);

/// Holds a plan, and whether the policy's own was not it.
struct GuardedPlan {
  TreatmentPlan plan;
  bool makes_nothing_again = false;  ///< though the policy would
};

/// Returns the policy's plan. Where making values again is predicted to need more at the peak than
/// keeping them (by over 16 KiB, or over a quarter of a peak below 64 KiB), as where all of
/// backward's values are made from the same few, the policy is followed on one level
/// (Policy::light), and else recomputes nothing; codecs stay. Not asked where backward is
/// differentiated itself.
[[nodiscard]] GuardedPlan resolve_below_none(const std::shared_ptr<const StepGraph>& graph,
                                             const Policy& policy, const Overrides& overrides);

}  // namespace noisemark::memopt
