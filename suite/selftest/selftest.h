#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/compare/stochastic_tier.h"
#include "suite/run/run.h"
#include "suite/selftest/recorded_rounds.h"
#include "suite/selftest/trial.h"
#include "suite/train/fault.h"

/// Proof, on the machine at hand, that a comparison catches what it must and passes what it must.
namespace noisemark::suite {

/// A slow-down of the recorded rounds; 0: the untouched twin.
struct RecordedTrial {
  double slower_frac = 0;
};

/// A fault in a real run; the default: the untouched twin.
struct RealTrial {
  std::string name;  ///< of its folder
  Fault fault;
  std::string judge;  ///< as in Trial
};

struct SelfTestPlan {
  RecordedRounds rounds;
  std::vector<RecordedTrial> recorded;
  RunOptions run;  ///< of every real run but for its folder
  std::vector<RealTrial> real;
  reports::StochasticOptions judging;  ///< as in a comparison of the user's
};

/// What `noisemark selftest` does: slow-downs of 5 and 10 %, a leak of 16 MiB, a loss 1 % too
/// large, a byte without an owner, and an untouched twin of both kinds. Real runs are a few steps
/// of gmm16-ho@cpu in one thread, under the deterministic profile.
[[nodiscard]] SelfTestPlan shipped_self_test();

/// Makes the real runs, one without a fault first, in folders below `out`, compares, and leaves
/// every comparison in `out`/comparisons. Throws Error with the run's exit code when one ends
/// otherwise than by passing or failing its gates.
[[nodiscard]] std::vector<TrialOutcome> run_self_test(const SelfTestPlan& plan,
                                                      const std::filesystem::path& out);

}  // namespace noisemark::suite
