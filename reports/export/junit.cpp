#include "reports/export/junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {
namespace {

/// Bytes of the character at the beginning; 0 when they are not UTF-8 of a character that XML 1.0
/// may hold.
size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x20) return lead == '\t' || lead == '\n' || lead == '\r' ? 1 : 0;
  const bool none = text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
  return none ? 0 : utf8_size(text);
}

std::string_view reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\t':
      return "&#9;";
    case '\n':
      return "&#10;";
    case '\r':
      return "&#13;";
    default:
      return "";
  }
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string xml;
  while (!text.empty()) {
    const size_t size = character_size(text);
    const std::string_view known = size == 1 ? reference(text[0]) : "";
    if (size == 0) {
      xml += kReplacement;
    } else {
      xml += known.empty() ? text.substr(0, size) : known;
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return xml;
}

namespace {

struct Counts {
  int64_t tests = 0;
  int64_t failures = 0;
  int64_t errors = 0;
  int64_t skipped = 0;
  double seconds = 0;
};

Counts& operator+=(Counts& sum, const JunitCase& one) {
  ++sum.tests;
  sum.failures += one.outcome == CaseOutcome::kFailed ? 1 : 0;
  sum.errors += one.outcome == CaseOutcome::kError ? 1 : 0;
  sum.skipped += one.outcome == CaseOutcome::kSkipped ? 1 : 0;
  sum.seconds += one.seconds.value_or(0);
  return sum;
}

/// The schemas ask for most attributes, and for names that are not blank.
std::string attribute(std::string_view name, std::string_view value) {
  return fmt::format(" {}=\"{}\"", name, xml_text(value));
}

std::string name_attribute(std::string_view name, std::string_view value) {
  const bool blank = value.find_first_not_of(" \t\r\n") == std::string_view::npos;
  return attribute(name, blank ? "without a name" : value);
}

/// Jenkins' schema had no room for more than milliseconds before July 2025.
std::string time_of(double seconds) {
  return fmt::format(" time=\"{:.3f}\"", std::isfinite(seconds) ? seconds : 0);
}

std::string counted(const Counts& counts) {
  return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", counts.tests,
                     counts.failures, counts.errors, counts.skipped);
}

/// "2026-01-02T03:04:05" of "2026-01-02T03:04:05.678Z". Ant's schema wants a time of every suite; a
/// suite without one has that at which Unix begins to count.
std::string timestamp_of(const std::string& utc) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  const auto fits = [](char form, char c) {
    return form == '0' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : form == c;
  };
  const std::string time = utc.substr(0, kForm.size());
  const bool known =
      time.size() == kForm.size() && std::equal(kForm.begin(), kForm.end(), time.begin(), fits);
  return known ? time : "1970-01-01T00:00:00";
}

std::string case_body(const JunitCase& one) {
  const std::string message =
      one.message.empty() ? std::string() : attribute("message", one.message);
  switch (one.outcome) {
    case CaseOutcome::kPassed:
      return "";
    case CaseOutcome::kSkipped:
      return fmt::format("      <skipped{}/>\n", message);
    case CaseOutcome::kFailed:
    case CaseOutcome::kError:
      return fmt::format("      <{0}{1}{2}>{3}</{0}>\n",
                         one.outcome == CaseOutcome::kFailed ? "failure" : "error",
                         attribute("type", one.type), message, xml_text(one.message));
  }
  throw std::logic_error("an outcome that is none");
}

std::string case_xml(const JunitCase& one, const std::string& suite) {
  const std::string head =
      fmt::format("    <testcase{}{}{}", name_attribute("name", one.name),
                  name_attribute("classname", suite), time_of(one.seconds.value_or(0)));
  const std::string body = case_body(one);
  return body.empty() ? head + "/>\n" : head + ">\n" + body + "    </testcase>\n";
}

std::string properties_xml(const JunitSuite& suite) {
  std::string xml = "    <properties>\n";
  for (const auto& [name, value] : suite.properties) {
    xml += fmt::format("      <property{}{}/>\n", name_attribute("name", name),
                       attribute("value", value));
  }
  return xml + "    </properties>\n";
}

std::string suite_xml(const JunitSuite& suite, const std::string& package, size_t id) {
  Counts counts;
  for (const JunitCase& one : suite.cases) counts += one;
  // Results name no host: it tells nothing of the machine, and is nobody else's business.
  std::string xml = fmt::format(
      "  <testsuite{}{} id=\"{}\"{}{}{} hostname=\"localhost\">\n",
      name_attribute("name", suite.name), name_attribute("package", package), id, counted(counts),
      time_of(counts.seconds), attribute("timestamp", timestamp_of(suite.timestamp)));
  xml += properties_xml(suite);
  for (const JunitCase& one : suite.cases) xml += case_xml(one, suite.name);
  xml += fmt::format("    <system-out>{}</system-out>\n", xml_text(suite.output));
  return xml + "    <system-err></system-err>\n  </testsuite>\n";
}

}  // namespace

std::string junit_xml(const std::string& name, const std::vector<JunitSuite>& suites) {
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (size_t i = 0; i < suites.size(); ++i) xml += suite_xml(suites[i], name, i);
  return xml + "</testsuites>\n";
}

namespace {

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
                   result.created_utc,
                   {{"run_id", result.run_id},
                    {"git_commit", from.commit()},
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

JunitSuite suite_of(const MissingRun& missing, const std::string& timestamp) {
  JunitCase run{"run", CaseOutcome::kError, "no result", missing.failed};
  if (!missing.not_run.empty()) run = {"run", CaseOutcome::kSkipped, "", missing.not_run};
  return {missing.name, timestamp, {}, {run}, ""};
}

}  // namespace

std::string junit_of(const CollectedResults& results) {
  std::vector<JunitSuite> suites;
  std::string latest;
  for (const NamedResult& named : results.results) {
    suites.push_back(suite_of(named));
    latest = std::max(latest, named.result.created_utc);
  }
  for (const MissingRun& missing : results.missing) suites.push_back(suite_of(missing, latest));
  return junit_xml("noisemark " + results.title, suites);
}

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

/// The newest run's time: that of what was judged, wherever the comparison is made.
std::string latest_utc(const Comparison& comparison) {
  return std::max(comparison.base.latest_utc, comparison.candidate.latest_utc);
}

JunitSuite whole(const Comparison& comparison) {
  const auto properties = [](const char* side, const SideSummary& summary) {
    return std::pair(fmt::format("{} commits", side),
                     fmt::format("{}", fmt::join(summary.commits, " ")));
  };
  return {
      "comparison",
      latest_utc(comparison),
      {properties("BASE", comparison.base), properties("NEW", comparison.candidate)},
      {case_of("verdict", comparison.verdict,
               fmt::format("{}", fmt::join(comparison.reasons, "; ")), comparison.inconclusive)},
      next_step(comparison)};
}

/// The suites of the cells by name, each made when something is said of it.
class Suites {
 public:
  explicit Suites(const Comparison& comparison)
      : inconclusive_(comparison.inconclusive), timestamp_(latest_utc(comparison)) {}

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
    suite.timestamp = timestamp_;
    suite.cases.push_back(std::move(one));
  }

  Inconclusive inconclusive_;
  std::string timestamp_;
  std::map<std::string, JunitSuite> suites_;
};

/// The cases that are only listed, and judge nothing.
JunitSuite listed(const char* name, const std::string& timestamp,
                  const std::vector<std::string>& sentences) {
  JunitSuite suite{name, timestamp, {}, {}, ""};
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
  Suites cells(comparison);
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
    if (!sentences->empty()) suites.push_back(listed(name, latest_utc(comparison), *sentences));
  }
  return junit_xml(
      fmt::format("noisemark compare {} {}", comparison.base.name, comparison.candidate.name),
      suites);
}

}  // namespace noisemark::reports
