#include "reports/export/junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "reports/export/xml_text.h"

namespace noisemark::reports {
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

std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? "" : fmt::format(" {}=\"{}\"", name, xml_text(value));
}

/// Jenkins' schema had no room for more than milliseconds before July 2025.
std::string time_of(double seconds) {
  return fmt::format(" time=\"{:.3f}\"", seconds);
}

/// Of what was skipped the schema knows in suites alone, not at the root.
std::string counted(const Counts& counts) {
  return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\"", counts.tests, counts.failures,
                     counts.errors);
}

std::string case_body(const JunitCase& one) {
  const std::string message = attribute("message", one.message);
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
      fmt::format("    <testcase{}{}{}", attribute("name", one.name), attribute("classname", suite),
                  time_of(one.seconds.value_or(0)));
  const std::string body = case_body(one);
  return body.empty() ? head + "/>\n" : head + ">\n" + body + "    </testcase>\n";
}

std::string properties_xml(const JunitSuite& suite) {
  if (suite.properties.empty()) return "";
  std::string xml = "    <properties>\n";
  for (const auto& [name, value] : suite.properties) {
    xml += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml_text(name),
                       xml_text(value));
  }
  return xml + "    </properties>\n";
}

std::string suite_xml(const JunitSuite& suite) {
  Counts counts;
  for (const JunitCase& one : suite.cases) counts += one;
  std::string xml = fmt::format("  <testsuite{}{} skipped=\"{}\"{}{}>\n",
                                attribute("name", suite.name), counted(counts), counts.skipped,
                                time_of(counts.seconds), attribute("timestamp", suite.timestamp));
  xml += properties_xml(suite);
  for (const JunitCase& one : suite.cases) xml += case_xml(one, suite.name);
  if (!suite.output.empty()) {
    xml += fmt::format("    <system-out>{}</system-out>\n", xml_text(suite.output));
  }
  return xml + "  </testsuite>\n";
}

}  // namespace

std::string junit_xml(const std::string& name, const std::vector<JunitSuite>& suites) {
  Counts counts;
  for (const JunitSuite& suite : suites) {
    for (const JunitCase& one : suite.cases) counts += one;
  }
  std::string xml = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites{}{}{}>\n",
                                attribute("name", name), counted(counts), time_of(counts.seconds));
  for (const JunitSuite& suite : suites) xml += suite_xml(suite);
  return xml + "</testsuites>\n";
}

}  // namespace noisemark::reports
