#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/compare/next_step.h"
#include "reports/export/junit.h"

namespace noisemark::reports {
namespace {

CaseOutcome outcome_of(CompareVerdict verdict, Inconclusive inconclusive) {
  const ExitCode code = exit_code_of(verdict);
  if (code == ExitCode::kPass) return CaseOutcome::kPassed;
  if (code == ExitCode::kFailed) return CaseOutcome::kFailed;
  if (verdict == CompareVerdict::kSkipped) return CaseOutcome::kSkipped;
  const bool warns = inconclusive == Inconclusive::kWarns;
  if (verdict == CompareVerdict::kInconclusive && warns) return CaseOutcome::kSkipped;
  return CaseOutcome::kError;
}

JunitCase case_of(const std::string& name, CompareVerdict verdict, const std::string& words,
                  Inconclusive inconclusive) {
  const CaseOutcome outcome = outcome_of(verdict, inconclusive);
  if (outcome == CaseOutcome::kPassed) return {name, outcome, "", ""};
  const std::string said = verdict_words(verdict, inconclusive);
  return {name, outcome, std::string(verdict_name(verdict)),
          words.empty() ? said : fmt::format("{}: {}", said, words)};
}

JunitSuite whole(const Comparison& comparison) {
  const auto properties = [](const char* side, const SideSummary& summary) {
    return std::pair(fmt::format("{} commits", side),
                     fmt::format("{}", fmt::join(summary.commits, " ")));
  };
  return {
      "comparison",
      "",
      {properties("BASE", comparison.base), properties("NEW", comparison.candidate)},
      {case_of("verdict", comparison.verdict,
               fmt::format("{}", fmt::join(comparison.reasons, "; ")), comparison.inconclusive)},
      next_step(comparison)};
}

/// The suites of the cells by name, each made when something is said of it.
class Suites {
 public:
  explicit Suites(Inconclusive inconclusive) : inconclusive_(inconclusive) {}

  void add(const std::string& cell, const std::string& name, CompareVerdict verdict,
           const std::string& words) {
    add(cell, case_of(name, verdict, words, inconclusive_));
  }
  /// A cell that one side lacks is not compared, and is no difference either.
  void add_missing(const std::string& cell, const char* side) {
    add(cell, {"in both", CaseOutcome::kError, "missing", fmt::format("missing in {}", side)});
  }
  void append_to(std::vector<JunitSuite>& all) const {
    for (const auto& [cell, suite] : suites_) all.push_back(suite);
  }

 private:
  void add(const std::string& cell, JunitCase one) {
    JunitSuite& suite = suites_[cell];
    suite.name = cell;
    suite.cases.push_back(std::move(one));
  }

  Inconclusive inconclusive_;
  std::map<std::string, JunitSuite> suites_;
};

/// What is only listed, and judges nothing.
JunitSuite listed(const char* name, const std::vector<std::string>& sentences) {
  JunitSuite suite{name, "", {}, {}, ""};
  for (const std::string& words : sentences) {
    suite.cases.push_back({words, CaseOutcome::kSkipped, "", name});
  }
  return suite;
}

std::string both_values(const FieldDifference& field) {
  return fmt::format("BASE has \"{}\", NEW has \"{}\"", field.base, field.candidate);
}

}  // namespace

std::string junit_of(const Comparison& comparison) {
  Suites cells(comparison.inconclusive);
  for (const FieldDifference& field : comparison.differences) {
    cells.add(field.cell.empty() ? "identity" : field.cell, field.field,
              CompareVerdict::kNotComparable, both_values(field));
  }
  for (const std::string& cell : comparison.only_base) cells.add_missing(cell, "NEW");
  for (const std::string& cell : comparison.only_candidate) cells.add_missing(cell, "BASE");
  for (const ExactRow& row : comparison.exact) {
    cells.add(row.cell, row.metric, row.verdict, row.words);
  }
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.judged()) cells.add(row.cell, row.metric, row.verdict, row.words);
  }
  std::vector<JunitSuite> suites = {whole(comparison)};
  cells.append_to(suites);
  for (const auto& [name, sentences] :
       {std::pair("runs without a partner", &comparison.unpaired),
        std::pair("runs without a result", &comparison.without_result)}) {
    if (!sentences->empty()) suites.push_back(listed(name, *sentences));
  }
  return junit_xml(
      fmt::format("noisemark compare {} {}", comparison.base.name, comparison.candidate.name),
      suites);
}

}  // namespace noisemark::reports
