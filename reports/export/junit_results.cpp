#include <fmt/format.h>

#include <numeric>

#include "reports/compare/sides.h"
#include "reports/error.h"
#include "reports/export/junit.h"

namespace noisemark::reports {
namespace {

// "2026-01-02T03:04:05" of "2026-01-02T03:04:05.678Z".
std::string without_zone(const std::string& utc) {
  constexpr size_t kSeconds = 19;
  return utc.substr(0, kSeconds);
}

JunitCase run_case(const Result& result) {
  JunitCase run{"run", CaseOutcome::kPassed, "", "", 0};
  run.seconds = std::accumulate(result.samples.step_s.begin(), result.samples.step_s.end(), 0.0);
  const auto code = static_cast<ExitCode>(result.exit.code);
  if (code == ExitCode::kPass) return run;
  run.type = fmt::format("exit code {}", result.exit.code);
  run.message = fmt::format("{}{}{}", result.exit.status, result.exit.reasons.empty() ? "" : ": ",
                            fmt::join(result.exit.reasons, "; "));
  run.outcome = code == ExitCode::kFailed          ? CaseOutcome::kFailed
                : code == ExitCode::kCannotRunHere ? CaseOutcome::kSkipped
                                                   : CaseOutcome::kError;
  return run;
}

JunitCase gate_case(const Gate& gate) {
  JunitCase one{gate.name, CaseOutcome::kPassed, "", ""};
  if (gate.verdict == Verdict::kPass) return one;
  const bool failed = gate.verdict == Verdict::kFail;
  one.outcome = failed ? CaseOutcome::kFailed : CaseOutcome::kSkipped;
  one.type = failed ? "gate" : "";
  one.message = gate.words;
  return one;
}

JunitSuite suite_of(const NamedResult& named) {
  const Result& result = named.result;
  const Provenance& from = result.provenance;
  JunitSuite suite{fmt::format("{}, seed {}", cell_name(result.identity), result.seeds.base),
                   without_zone(result.created_utc),
                   {{"run_id", result.run_id},
                    {"git_commit", from.git_commit + (from.git_dirty ? "+" : "")},
                    {"definition_sha256", result.identity.definition_sha256},
                    {"folder", named.name}},
                   {run_case(result)},
                   ""};
  for (const auto& [name, value] : result.identity.hardware) {
    suite.properties.emplace_back("hardware." + name, value);
  }
  for (const Gate& gate : result.gates) suite.cases.push_back(gate_case(gate));
  if (!result.repeat_command.empty()) suite.output = "repeat: " + result.repeat_command + "\n";
  return suite;
}

JunitSuite suite_of(const MissingRun& missing) {
  JunitCase run{"run", CaseOutcome::kError, "no result", "it left no result"};
  if (!missing.not_run.empty()) run = {"run", CaseOutcome::kSkipped, "", missing.not_run};
  return {missing.name, "", {}, {run}, ""};
}

}  // namespace

std::string junit_of(const CollectedResults& results) {
  std::vector<JunitSuite> suites;
  for (const NamedResult& named : results.results) suites.push_back(suite_of(named));
  for (const MissingRun& missing : results.missing) suites.push_back(suite_of(missing));
  return junit_xml("noisemark " + results.title, suites);
}

}  // namespace noisemark::reports
