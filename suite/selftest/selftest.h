#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "suite/run/spec/options.h"
#include "suite/train/fault.h"

/// Proof, on the machine at hand, that a comparison catches what it must and passes what it must.
namespace noisemark::suite {

/// One question to the comparison.
struct Trial {
  std::string fault;  ///< in words; "none" for an untouched twin
  std::string into;   ///< the place of the fault: "recorded rounds"
  std::string judge;  ///< metric whose row must say REGRESSION; empty: the comparison must pass
};

/// The answer to a trial.
struct TrialOutcome {
  Trial trial;
  reports::Comparison comparison;
  std::vector<std::string> judged_by;  ///< metrics whose rows say REGRESSION, in the table's order
  bool caught = false;                 ///< the verdict is REGRESSION, and by trial.judge if any
  bool as_expected = false;            ///< caught, or passed where nothing was to be caught
};

[[nodiscard]] TrialOutcome answer(Trial trial, reports::Comparison comparison);

/// kPass when there are outcomes and all are as expected; else kFailed.
[[nodiscard]] ExitCode exit_code_of(const std::vector<TrialOutcome>& outcomes);

/// A verdict and a table, one row per outcome; below it, why what is not as expected is not.
[[nodiscard]] std::string trials_markdown(const std::vector<TrialOutcome>& outcomes);

/// A file of suite/selftest/recorded, as it is in the repository.
struct RecordedFile {
  std::string_view name;  ///< "base/01"
  std::string_view text;  ///< its result.json
};

/// Returns the files in the order of their names.
[[nodiscard]] std::span<const RecordedFile> recorded_files();

/// Runs of one build that were made in turns, half of them called BASE and half NEW: what a
/// comparison of two equal builds looks like on a real machine.
struct RecordedRounds {
  reports::Side base;
  reports::Side candidate;
};

/// Throws Error (bad input) when a file was changed: each carries its checksum.
[[nodiscard]] RecordedRounds recorded_rounds();

/// Returns the side as it would have been measured had every step, and every phase of it, taken
/// longer by `frac` of its time. Metrics follow from the changed samples; 0 changes nothing.
[[nodiscard]] reports::Side slowed(reports::Side side, double frac);

/// A slow-down of the recorded rounds; 0: the untouched twin.
struct RecordedTrial {
  double slower_frac = 0;
};

/// A fault in a real run; the default: the untouched twin.
struct RealTrial {
  std::string name;  ///< name of its folder
  Fault fault;
  std::string judge;  ///< means what it does in Trial
};

/// The trials of a self-test, and the rules by which they are judged.
struct SelfTestTrials {
  RecordedRounds rounds;
  std::vector<RecordedTrial> recorded;
  RunOptions run;  ///< options of every real run but for its folder
  std::vector<RealTrial> real;
  reports::StochasticOptions judging;  ///< rules of a comparison of the user's
};

/// Returns what `noisemark selftest` does: slow-downs of 5 and 10 %, a leak of 16 MiB, a loss 1 %
/// too large, a byte without an owner, and an untouched twin of both kinds. Real runs are a few
/// steps of gmm16-ho@cpu in one thread with `--deterministic`.
[[nodiscard]] SelfTestTrials shipped_self_test();

/// Makes the real runs, one without a fault first, in folders below `out`, compares, and leaves
/// every comparison in `out`/comparisons. Throws Error with the run's exit code when one ends
/// otherwise than by passing or failing its gates.
[[nodiscard]] std::vector<TrialOutcome> run_self_test(const SelfTestTrials& trials,
                                                      const std::filesystem::path& out);

}  // namespace noisemark::suite
