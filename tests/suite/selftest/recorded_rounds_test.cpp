#include "suite/selftest/recorded_rounds.h"

#include <gtest/gtest.h>

#include <set>

#include "reports/check.h"
#include "reports/compare/repetitions.h"
#include "reports/compare/stochastic_tier.h"

namespace noisemark::suite {
namespace {

std::vector<reports::NamedResult> all_runs() {
  RecordedRounds rounds = recorded_rounds();
  std::vector<reports::NamedResult> runs = rounds.base.runs;
  runs.insert(runs.end(), rounds.candidate.runs.begin(), rounds.candidate.runs.end());
  return runs;
}

TEST(RecordedRounds, are_believable_results) {
  for (const reports::NamedResult& run : all_runs()) {
    EXPECT_EQ(run.result.exit.code, 0) << run.name;
    for (const reports::Finding& finding : reports::check_values(run.result, run.name)) {
      ADD_FAILURE() << finding.file << ": " << finding.rule << ": " << finding.words;
    }
  }
}

TEST(RecordedRounds, are_of_one_clean_build) {
  std::set<std::string> binaries;
  for (const reports::NamedResult& run : all_runs()) {
    EXPECT_FALSE(run.result.provenance.git_dirty) << run.name;
    EXPECT_FALSE(run.result.provenance.git_commit.empty()) << run.name;
    binaries.insert(run.result.provenance.binary_sha256);
  }
  EXPECT_EQ(binaries.size(), 1);
}

TEST(RecordedRounds, are_enough_for_the_gates_that_judge_them) {
  const RecordedRounds rounds = recorded_rounds();
  const reports::StochasticOptions judging;
  const auto gates = static_cast<int64_t>(reports::gated_metrics().size());
  const auto pairs = static_cast<int64_t>(rounds.base.runs.size());
  EXPECT_GE(pairs, reports::fewest_pairs(judging.alpha, gates));
  EXPECT_EQ(rounds.candidate.runs.size(), rounds.base.runs.size());
}

TEST(RecordedRounds, were_made_in_turns) {
  const RecordedRounds rounds = recorded_rounds();
  for (size_t i = 1; i < rounds.base.runs.size(); ++i) {
    const std::string& earlier = rounds.candidate.runs[i - 1].result.created_utc;
    const std::string& later = rounds.base.runs[i].result.created_utc;
    EXPECT_LT(earlier, later) << "round " << i + 1;
  }
}

TEST(RecordedRounds, vary_from_run_to_run) {
  std::set<double> medians;
  for (const reports::NamedResult& run : all_runs()) medians.insert(run.result.samples.step_s[0]);
  EXPECT_EQ(medians.size(), all_runs().size());
}

}  // namespace
}  // namespace noisemark::suite
