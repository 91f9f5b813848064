#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/compare/sides.h"
#include "reports/seeds/study.h"

/// Whoever judges some seeds, adds some because nothing was proven, and judges again gives chance a
/// second chance. So how often that may be done is declared before the first look, and every look
/// has its share of alpha. A look is at a set of runs: to judge the same runs again is the same
/// look, to judge more of them, or fewer, is another.
namespace noisemark::reports {

/// Equal shares (Bonferroni), as `ab` has: a wrong verdict in any look is then at most as likely as
/// alpha says, however many seeds were added and whatever made one add them. Pocock's or O'Brien
/// and Fleming's shares are larger by little, and hold only for a number of seeds that is planned.
/// Throws std::logic_error for fewer than one look.
[[nodiscard]] double alpha_of_a_look(double alpha, int64_t declared);

/// Returns what the gates of one look share among them, and likewise its ranges: all that the look
/// has, and half of it where both are asked for. Throws as alpha_of_a_look() does.
[[nodiscard]] double alpha_of_a_family(double alpha, int64_t declared,
                                       const std::vector<QualityGate>& gates,
                                       const std::vector<QualityRange>& ranges);

/// The ids of a side's runs, sorted.
[[nodiscard]] RunIds run_ids_of(const Side& side);

/// Returns whether two looks are at runs of one study.
[[nodiscard]] bool share_a_run(const RunIds& a, const RunIds& b);

/// A look at these runs after `earlier` ones, of which those of another study, of runs that are all
/// others, count nothing. It has the number that the same runs had, else the next one.
[[nodiscard]] Looks next_look(const RunIds& runs, int64_t declared,
                              const std::vector<RunIds>& earlier);

/// Returns whether the declared looks are taken, so that this one may claim nothing.
[[nodiscard]] bool none_is_left(const Looks& looks);

/// Counts a look at these runs, unless it was counted or none is left.
void count_look(const RunIds& runs, Looks& looks);

/// Returns the words that then stand in place of a claim.
[[nodiscard]] std::string no_look_words(const Looks& looks);

/// Returns whether a look was counted that is none of `earlier`: if nobody keeps it, it is
/// forgotten.
[[nodiscard]] bool is_new_look(const Looks& looks, const std::vector<RunIds>& earlier);

}  // namespace noisemark::reports
