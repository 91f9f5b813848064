#include "reports/export/junit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reports/base/error.h"
#include "reports/compare/compare.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

CollectedResults collected(const Result& result) {
  return {"smoke", {{"a", result}}, {}};
}

bool red(const std::string& xml) {
  return xml.find("<failure") != std::string::npos || xml.find("<error") != std::string::npos;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(XmlText, escapes_markup_and_replaces_what_xml_cannot_hold) {
  EXPECT_EQ(xml_text("a<b>&\"c\"\n"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;");
  EXPECT_EQ(xml_text("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(xml_text(std::string("\x01") + '\0' + "x"), bad + bad + "x");
  EXPECT_EQ(xml_text("\xFF"), bad);
  EXPECT_EQ(xml_text("\xC3"), bad) << "cut";
  EXPECT_EQ(xml_text("\xC0\xAF"), bad + bad) << "longer than needed";
  EXPECT_EQ(xml_text("\xED\xA0\x80"), bad + bad + bad) << "half of a pair";
}

TEST(Junit, of_a_run_that_passed_is_green_and_lists_every_gate) {
  Result result = test::full_result();
  const std::string xml = junit_of(collected(result));
  EXPECT_FALSE(red(xml)) << xml;
  for (const Gate& gate : result.gates) EXPECT_TRUE(holds(xml, "name=\"" + gate.name + "\""));
  EXPECT_TRUE(holds(xml, "timestamp=\"2026-01-02T03:04:05\"")) << xml;
  EXPECT_TRUE(holds(xml, "repeat: noisemark run ho-cifar10@cpu --seed 7")) << xml;
}

TEST(Junit, of_a_failed_gate_is_a_failure_with_its_words) {
  Result result = test::full_result();
  result.gates.back().verdict = Verdict::kFail;
  result.gates.back().words = "0.2 > \"0.12\"";
  result.exit = {1, "failed", {"val_loss"}};
  const std::string xml = junit_of(collected(result));
  EXPECT_TRUE(holds(xml, "<failure type=\"gate\" message=\"0.2 &gt; &quot;0.12&quot;\">")) << xml;
  EXPECT_TRUE(holds(xml, "failures=\"2\"")) << xml;
}

TEST(Junit, of_a_gate_that_was_not_applied_is_skipped) {
  Result result = test::full_result();
  result.gates.back().verdict = Verdict::kNotApplied;
  const std::string xml = junit_of(collected(result));
  EXPECT_TRUE(holds(xml, "<skipped")) << xml;
  EXPECT_TRUE(holds(xml, "skipped=\"1\"")) << xml;
}

TEST(Junit, counts_in_its_suite_alone_and_names_it_time_and_host) {
  Result result = test::full_result();
  result.gates.back().verdict = Verdict::kNotApplied;
  result.samples.step_s = {61.9672056};
  const std::string xml = junit_of(collected(result));
  const std::string cases = std::to_string(result.gates.size() + 1);
  EXPECT_TRUE(holds(xml, "\n<testsuites>\n")) << xml;
  EXPECT_TRUE(holds(xml, "package=\"noisemark smoke\" id=\"0\" tests=\"" + cases +
                             "\" failures=\"0\" errors=\"0\" skipped=\"1\" time=\"61.967\" "
                             "timestamp=\"2026-01-02T03:04:05\" hostname=\"localhost\">\n"))
      << xml;
}

TEST(Junit, has_a_name_and_a_time_of_whatever_has_none) {
  Result result = test::full_result();
  result.gates.back().name = " \n";
  result.created_utc = "yesterday";
  const std::string xml = junit_of(collected(result));
  EXPECT_TRUE(holds(xml, "<testcase name=\"without a name\"")) << xml;
  EXPECT_TRUE(holds(xml, "timestamp=\"1970-01-01T00:00:00\"")) << xml;
  EXPECT_TRUE(holds(junit_of(CollectedResults{"smoke", {{"a", test::full_result()}}, {{"b", ""}}}),
                    "id=\"1\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" "
                    "time=\"0.000\" timestamp=\"2026-01-02T03:04:05\""))
      << "a run that was lost has the time of its suite";
}

TEST(JunitComparison, has_the_time_of_the_newest_run) {
  Side candidate = test::side("new", test::rates_around(16, 8));
  candidate.runs.back().result.created_utc = "2031-01-02T03:04:05Z";
  const std::string xml =
      junit_of(compare(test::side("old", test::rates_around(16, 8)), candidate));
  EXPECT_TRUE(holds(xml, "timestamp=\"2031-01-02T03:04:05\"")) << xml;
  EXPECT_FALSE(holds(xml, "timestamp=\"2026")) << xml;
}

TEST(Junit, of_a_run_that_did_not_end_is_an_error_and_of_one_that_cannot_be_made_skipped) {
  Result result = test::full_result();
  result.exit = {71, "out of memory", {"at step 3"}};
  EXPECT_TRUE(holds(junit_of(collected(result)),
                    "<error type=\"exit code 71\" message=\"out of memory: at step 3\">"));
  result.exit = {77, "cannot run here", {}};
  EXPECT_FALSE(red(junit_of(collected(result))));
}

TEST(Junit, never_drops_a_run_of_a_suite_that_left_no_result) {
  const std::string xml = junit_of(CollectedResults{"smoke", {}, {{"b@cpu/none", ""}}});
  EXPECT_TRUE(holds(xml, "<error type=\"no result\"")) << xml;
  const std::string skipped =
      junit_of(CollectedResults{"smoke", {}, {{"b@gpu/none", "cannot run here"}}});
  EXPECT_FALSE(red(skipped)) << skipped;
  EXPECT_TRUE(holds(skipped, "<skipped message=\"cannot run here\"/>")) << skipped;
}

TEST(JunitComparison, is_red_exactly_when_the_exit_code_is_not_0) {
  using test::rates_around;
  using test::side;
  const Side base = side("old", rates_around(16, 8));
  const auto other_machine = [](Result& r, size_t) { r.identity.threads = 4; };
  const auto no_value = [](Result& r, size_t) { r.metrics[0].value.reset(); };
  const auto other_mode = [](Result& r, size_t) { r.identity.mode = "echo"; };
  const std::vector<std::pair<std::string, Side>> sides = {
      {"equal", side("new", rates_around(16, 8))},
      {"faster", side("new", rates_around(18, 8))},
      {"slower", side("new", rates_around(14, 8))},
      {"too few", side("new", rates_around(15, 2))},
      {"another machine", side("new", rates_around(16, 8), other_machine)},
      {"no longer measured", side("new", rates_around(16, 8), no_value)},
      {"another cell", side("new", rates_around(16, 8), other_mode)}};
  for (const auto& [name, candidate] : sides) {
    const Comparison comparison = compare(base, candidate);
    const bool passes = exit_code_of(comparison.verdict) == ExitCode::kPass;
    EXPECT_EQ(!passes, red(junit_of(comparison))) << name;
  }
}

TEST(JunitComparison, skips_what_is_inconclusive_when_asked_to) {
  const std::vector<double> wild = {14, 18, 14, 18, 14, 18, 14, 18};
  Comparison comparison =
      compare(test::side("old", test::rates_around(16, 8)), test::side("new", wild));
  ASSERT_EQ(comparison.verdict, CompareVerdict::kInconclusive);
  comparison.inconclusive = Inconclusive::kWarns;
  const std::string xml = junit_of(comparison);
  EXPECT_FALSE(red(xml)) << xml;
  EXPECT_TRUE(holds(xml, "<skipped message=\"inconclusive, let pass by --inconclusive=warn: "))
      << xml;
}

TEST(JunitComparison, never_softens_too_few_pairs) {
  Comparison few = compare(test::side("old", test::rates_around(16, 2)),
                           test::side("new", test::rates_around(15, 2)));
  few.inconclusive = Inconclusive::kWarns;
  EXPECT_TRUE(red(junit_of(few)));
}

TEST(JunitComparison, names_a_cell_that_one_side_lacks_as_missing_there) {
  const std::vector<double> rates = test::rates_around(16, 9);
  const Side more = test::side("more", rates, [](Result& r, size_t i) {
    if (i == 8) r.identity.mode = "echo";
  });
  const Side fewer = test::side("fewer", test::rates_around(16, 8));
  const std::string gone = junit_of(compare(more, fewer));
  EXPECT_TRUE(holds(gone, "<error type=\"missing\" message=\"missing in NEW\">")) << gone;
  EXPECT_FALSE(holds(gone, "not comparable")) << gone;
  const std::string added = junit_of(compare(fewer, more));
  EXPECT_TRUE(holds(added, "<error type=\"missing\" message=\"missing in BASE\">")) << added;
}

TEST(JunitComparison, lists_runs_without_a_partner_and_without_a_result) {
  Side candidate = test::side("new", test::rates_around(16, 9));
  const Comparison more = compare(test::side("old", test::rates_around(16, 8)), candidate);
  ASSERT_EQ(more.unpaired.size(), 1U);
  const std::string xml = junit_of(more);
  EXPECT_TRUE(holds(xml, "<testcase name=\"" + more.unpaired[0] + "\"")) << xml;
  EXPECT_TRUE(holds(xml, "<skipped message=\"runs without a partner\"/>")) << xml;
  EXPECT_FALSE(red(xml)) << "it judges nothing";
  candidate.lost = {{"died", "it left no result", false}};
  const std::string lost =
      junit_of(compare(test::side("old", test::rates_around(16, 8)), candidate));
  EXPECT_TRUE(holds(lost, "<testcase name=\"NEW: died: it left no result\"")) << lost;
  EXPECT_TRUE(red(lost));
}

TEST(JunitComparison, calls_a_regression_a_failure_and_the_rest_errors) {
  const Side base = test::side("old", test::rates_around(16, 8));
  const std::string slower = junit_of(compare(base, test::side("new", test::rates_around(14, 8))));
  EXPECT_TRUE(holds(slower, "<failure type=\"REGRESSION\"")) << slower;
  EXPECT_FALSE(holds(slower, "<error")) << slower;
  const Side other = test::side("new", test::rates_around(16, 8),
                                [](Result& r, size_t) { r.identity.threads = 4; });
  const std::string elsewhere = junit_of(compare(base, other));
  EXPECT_TRUE(holds(elsewhere, "<testcase name=\"identity.threads\"")) << elsewhere;
  EXPECT_TRUE(holds(elsewhere, "BASE has &quot;2&quot;, NEW has &quot;4&quot;")) << elsewhere;
  EXPECT_FALSE(holds(elsewhere, "<failure")) << elsewhere;
}

TEST(Junit, has_the_same_elements_whatever_the_texts_of_a_result_are) {
  const auto xml = [](const Result& result) {
    return junit_of(CollectedResults{result.title, {{result.title, result}}, {{result.title, ""}}});
  };
  const auto elements = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '<');
  };
  std::vector<std::ptrdiff_t> with_a_word;
  test::with_each_text(test::full_result(), "word", [&](const Result& changed, size_t) {
    with_a_word.push_back(elements(xml(changed)));
  });
  test::with_each_text(test::full_result(), test::kFreeText, [&](const Result& changed, size_t i) {
    const std::string text = xml(changed);
    EXPECT_EQ(elements(text), with_a_word.at(i)) << text;
    EXPECT_EQ(text.find_first_of("\x1b\x07\r\t\xff"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace noisemark::reports
