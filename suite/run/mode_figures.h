#pragma once

#include "memopt/mode.h"
#include "reports/result.h"
#include "suite/run/side_by_side.h"

/// From what was trained to what a report says of a memory mode.
namespace noisemark::suite {

/// Of the memory pass: predicted figures, what the plan does with every saved byte, and how often
/// it fell back. Leaves the rest of `to` alone. A mode without a plan says so in
/// plan_missing_reason.
void describe_plan(const memopt::Mode& mode, reports::MemoryMode& to);

/// How often a mode fell back in a pass: "memory", "certificate" or "training".
[[nodiscard]] reports::PassFallbacks fallbacks_of(const std::string& pass,
                                                  const memopt::PlannedModeReport& report);
/// Of a pass that has not been made.
[[nodiscard]] reports::PassFallbacks no_fallbacks(const std::string& pass,
                                                  const std::string& reason);

/// Of a training of so many forward passes. One without a plan that ended before `mode` could have
/// one says nothing of the mode: it counts as not made.
[[nodiscard]] reports::PassFallbacks training_fallbacks(const memopt::Mode& mode,
                                                        const memopt::PlannedModeReport& report,
                                                        int64_t forwards);

/// In place of what is known of the same pass.
void set_fallbacks(reports::MemoryMode& to, const reports::PassFallbacks& fallbacks);

/// What a mode of this spelling was asked for; empty for one that is no budget.
[[nodiscard]] reports::ModeBudget budget_of(const std::string& mode);

/// What a factor is taken of.
[[nodiscard]] reports::StepBytes step_bytes(const reports::MemorySection& memory);

/// What is stored in another form than it was saved in.
[[nodiscard]] int64_t encoded_at_forward_end(const reports::MemorySection& memory);

/// PASS where every compared step of the mode has the digests of "none", FAIL with the first tensor
/// that differs, not applied where the mode is lossy. UNAVAILABLE where a compared step did not
/// follow the mode's plan (what keeps everything is equal anyway), or "none" differs from itself.
[[nodiscard]] reports::Certificate certificate_of(const SideBySide& trained, bool lossless);

/// Relative 2-norm of the difference of the first compared step's gradients, whole and by tensor.
/// Up to that step both trained alike, so it is the error of one step, at the same weights. Missing
/// where that step did not follow the mode's plan.
[[nodiscard]] reports::GradientError gradient_error_of(const SideBySide& trained);

/// Hodges-Lehmann estimate of the paired ratio of step times, with its bootstrap interval.
[[nodiscard]] reports::Overhead overhead_of(const SideBySide& trained);

}  // namespace noisemark::suite
