#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/render/run_folder.h"

/// JUnit XML in the form that Jenkins, GitLab and GitHub's report actions read: testsuites >
/// testsuite > properties, testcase > skipped | failure | error, system-out, system-err. It is
/// valid by the schema of Jenkins' xUnit plug-in and by that of Ant's reports, the strictest that
/// are widely used; tests/reports/export/junit_form.py restates both.
namespace noisemark::reports {

/// `text` for an attribute or the content of an element of XML 1.0: markup and white space other
/// than blanks as references, bytes that are not UTF-8 and characters that XML cannot hold as
/// U+FFFD.
[[nodiscard]] std::string xml_text(std::string_view text);

/// kError: what was asked for did not come about; kFailed: it did, and was refused.
enum class CaseOutcome { kPassed, kFailed, kError, kSkipped };

struct JunitCase {
  std::string name;
  CaseOutcome outcome = CaseOutcome::kPassed;
  std::string type;     ///< kind of the failure or error, for machines
  std::string message;  ///< why, one sentence
  std::optional<double> seconds = {};
};

struct JunitSuite {
  std::string name;
  std::string timestamp;  ///< time in RFC 3339, UTC; is empty where it is not known
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<JunitCase> cases;
  std::string output;  ///< text for people
};

/// The file: `name` is the package of every suite, and the counts of each are those of its cases.
/// The root has none, because Ant's schema has no place for them there.
[[nodiscard]] std::string junit_xml(const std::string& name, const std::vector<JunitSuite>& suites);

/// A suite per run: the run itself, then its gates. A gate that was not applied is skipped, and so
/// is a run that cannot be made here; one that ended otherwise is an error.
[[nodiscard]] std::string junit_of(const CollectedResults& results);

/// A suite per cell: whether the sides are comparable, figures without noise, gates; before them
/// one for the comparison as a whole, which fails when its exit code is neither 0 nor 77, whatever
/// the cells say; and behind them, skipped, the runs without a partner and those without a result.
/// An inconclusive row is an error, or skipped where the comparison lets it pass. A cell that only
/// one side has is named as missing there.
[[nodiscard]] std::string junit_of(const Comparison& comparison);

}  // namespace noisemark::reports
