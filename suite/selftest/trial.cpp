#include "suite/selftest/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reports/markdown.h"

namespace noisemark::suite {
namespace {

using reports::CompareVerdict;

constexpr size_t kShownJudges = 2;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A regression, or a worse model.
bool is_failure(CompareVerdict verdict) {
  return reports::exit_code_of(verdict) == ExitCode::kFailed;
}

std::vector<std::string> judges_of(const reports::Comparison& comparison) {
  std::vector<std::string> names;
  for (const reports::ExactRow& row : comparison.exact) {
    if (is_failure(row.verdict)) names.push_back(row.metric);
  }
  for (const reports::StochasticRow& row : comparison.stochastic) {
    if (row.judged() && is_failure(row.verdict)) names.push_back(row.metric);
  }
  return names;
}

/// The one that was to judge, if it did, then the first others.
std::string judges_words(const TrialOutcome& outcome) {
  std::vector<std::string> names = outcome.judged_by;
  if (names.empty()) return "nothing";
  const auto expected = std::find(names.begin(), names.end(), outcome.trial.judge);
  if (expected != names.end()) std::rotate(names.begin(), expected, expected + 1);
  std::string words = names.front();
  for (size_t i = 1; i < std::min(names.size(), kShownJudges); ++i) words += ", " + names[i];
  if (names.size() > kShownJudges) {
    words += fmt::format(" and {} more", names.size() - kShownJudges);
  }
  return words;
}

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string what_is_wrong(const TrialOutcome& outcome) {
  const Trial& trial = outcome.trial;
  std::string words = trial.judge.empty()
                          ? fmt::format("- {} in {}: must pass", trial.fault, trial.into)
                          : fmt::format("- {} in {}: must be a regression of {}", trial.fault,
                                        trial.into, trial.judge);
  if (outcome.comparison.reasons.empty()) return words + ", but the comparison passed\n";
  words += ", but the comparison says:\n";
  for (const std::string& reason : outcome.comparison.reasons) words += "  - " + reason + "\n";
  return words;
}

std::string headline(const std::vector<TrialOutcome>& outcomes) {
  const auto count = [&](bool fault, bool only_expected) {
    return std::count_if(outcomes.begin(), outcomes.end(), [&](const TrialOutcome& outcome) {
      return outcome.trial.judge.empty() != fault && (outcome.as_expected || !only_expected);
    });
  };
  return fmt::format(
      "# {}: self-test of the comparison\n\n{} of {} faults caught, {} of {} "
      "untouched twins passed.\n\n",
      exit_code_of(outcomes) == ExitCode::kPass ? "PASS" : "FAIL", count(true, true),
      count(true, false), count(false, true), count(false, false));
}

}  // namespace

TrialOutcome answer(Trial trial, reports::Comparison comparison) {
  TrialOutcome outcome;
  outcome.judged_by = judges_of(comparison);
  outcome.caught = is_failure(comparison.verdict) &&
                   (trial.judge.empty() || holds(outcome.judged_by, trial.judge));
  const bool passed = reports::exit_code_of(comparison.verdict) == ExitCode::kPass;
  outcome.as_expected = trial.judge.empty() ? passed : outcome.caught;
  outcome.trial = std::move(trial);
  outcome.comparison = std::move(comparison);
  return outcome;
}

ExitCode exit_code_of(const std::vector<TrialOutcome>& outcomes) {
  const bool good =
      !outcomes.empty() && std::all_of(outcomes.begin(), outcomes.end(),
                                       [](const TrialOutcome& each) { return each.as_expected; });
  return good ? ExitCode::kPass : ExitCode::kFailed;
}

std::string trials_markdown(const std::vector<TrialOutcome>& outcomes) {
  reports::MarkdownTable table(
      {{"fault"}, {"put into"}, {"judged by"}, {"verdict"}, {"caught"}, {"as it must be"}});
  std::string wrong;
  for (const TrialOutcome& outcome : outcomes) {
    table.add_row({outcome.trial.fault, outcome.trial.into, judges_words(outcome),
                   std::string(reports::verdict_name(outcome.comparison.verdict)),
                   yes_no(outcome.caught), yes_no(outcome.as_expected)});
    if (!outcome.as_expected) wrong += what_is_wrong(outcome);
  }
  std::string text = headline(outcomes) + table.text();
  if (!wrong.empty()) text += "\n" + wrong;
  return text;
}

}  // namespace noisemark::suite
