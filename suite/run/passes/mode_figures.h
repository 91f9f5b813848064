#pragma once

#include <string>
#include <vector>

#include "memopt/modes/mode.h"
#include "reports/result/result.h"
#include "suite/run/passes/side_by_side.h"

/// Turns what was trained into what a report says of a memory mode.

namespace noisemark::suite {

/// Describes the memory pass: predicted figures, what the plan does with every saved byte, and how
/// often it fell back. Leaves the rest of `to` alone. A mode without a plan says so in
/// plan_missing_reason.
void describe_plan(const memopt::Mode& mode, reports::MemoryMode& to);

/// Counts how often a mode fell back in a pass: "memory", "certificate" or "training".
[[nodiscard]] reports::PassFallbacks fallbacks_of(const std::string& pass,
                                                  const memopt::PlannedModeReport& report);
/// Describes a pass that has not been made.
[[nodiscard]] reports::PassFallbacks no_fallbacks(const std::string& pass,
                                                  const std::string& reason);

/// Describes a training of so many forward passes. One without a plan that ended before `mode`
/// could have one says nothing of the mode: it counts as not made.
[[nodiscard]] reports::PassFallbacks training_fallbacks(const ModeSpec& mode,
                                                        const memopt::PlannedModeReport& report,
                                                        int64_t forwards);

/// Returns what all ranks counted, by pass: sums, and the reasons of the first rank that has one,
/// with its number.
[[nodiscard]] std::vector<reports::PassFallbacks> fallbacks_of_ranks(
    const std::vector<reports::RankRecord>& ranks);

/// Replaces what is known of the same pass.
void set_fallbacks(reports::MemoryMode& to, const reports::PassFallbacks& fallbacks);

/// Returns what a mode was asked for; empty for one that is no budget.
[[nodiscard]] reports::ModeBudget budget_of(const ModeSpec& mode);

/// Returns the bytes that a factor is taken of.
[[nodiscard]] reports::StepBytes step_bytes(const reports::MemorySection& memory);

/// Returns the bytes that are stored in another form than they were saved in.
[[nodiscard]] int64_t encoded_at_forward_end(const reports::MemorySection& memory);

/// PASS where every compared step of the mode has the digests of "none", FAIL with the first tensor
/// that differs, not applied where the mode is lossy. UNAVAILABLE where a compared step did not
/// follow the mode's plan (what keeps everything is equal anyway), or "none" differs from itself.
[[nodiscard]] reports::Certificate certificate_of(const SideBySide& trained, bool lossless);

/// Returns that of rank 0 where those of all ranks, in their order, are PASS or not applied; else
/// the first other one, with its rank. Gradients are compared behind their sum, but what a rank
/// saved is its own.
[[nodiscard]] reports::Certificate certificate_of_ranks(
    const std::vector<reports::Certificate>& all);

/// The distance of the first compared step's gradients from those of "none". Up to that step both
/// trained alike, so it is the difference of one step, at the same weights.
struct GradientDifferences {
  struct Tensor {
    std::string name;
    double difference = 0;  ///< squared 2-norm
    double size = 0;        ///< squared 2-norm of the exact gradient
  };
  std::vector<Tensor> tensors;
  std::string missing_reason;  ///< why the step did not follow the mode's plan; else empty
};

[[nodiscard]] GradientDifferences differences_of(const SideBySide& trained);

/// Writes differences as text, for other ranks.
[[nodiscard]] std::string text_of(const GradientDifferences& differences);
/// Reads what all ranks wrote.
[[nodiscard]] std::vector<GradientDifferences> differences_from(
    const std::vector<std::string>& texts);

/// Relative 2-norm of the differences, whole and by tensor, of a network whose parameters are
/// divided among `parts`. Missing where one of them is.
[[nodiscard]] reports::GradientError gradient_error_of(
    const std::vector<GradientDifferences>& parts);

/// Hodges-Lehmann estimate of the paired ratio of step times, with its bootstrap interval.
[[nodiscard]] reports::Overhead overhead_of(const SideBySide& trained);

}  // namespace noisemark::suite
