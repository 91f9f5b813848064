#include "reports/export/summary.h"

#include <gtest/gtest.h>

#include "reports/compare/compare.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

CollectedResults two() {
  return {"smoke", {{"a", test::full_result()}, {"b", test::result_under_echo()}}, {}};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Summary, begins_with_the_verdict_and_ends_with_the_mark_of_the_comment) {
  const std::string text = summary_markdown(two());
  EXPECT_TRUE(text.starts_with("# PASS: smoke\n\n2 of 2 runs passed.\n")) << text;
  EXPECT_TRUE(text.ends_with("<!-- noisemark results -->\n"));
  for (const char* heading : {"## Side by side", "## Memory at the peak, by owner",
                              "## Utilization", "## Quality", "<details><summary>b</summary>"}) {
    EXPECT_TRUE(holds(text, heading)) << heading;
  }
  EXPECT_FALSE(holds(text, "report.md")) << "a comment has no files beside it";
  EXPECT_FALSE(holds(text, "![")) << "nor pictures";
}

TEST(Summary, says_so_when_the_owners_do_not_add_up) {
  CollectedResults results = two();
  EXPECT_FALSE(holds(summary_markdown(results), "does not close"));
  results.results[0].result.memory.peak_bytes += 1;
  EXPECT_TRUE(holds(summary_markdown(results), "does not close"));
}

TEST(Summary, leaves_details_out_rather_than_growing_beyond_the_limit) {
  const std::string whole = summary_markdown(two());
  const std::string cut = summary_markdown(two(), whole.size() - 1);
  EXPECT_LT(cut.size(), whole.size());
  EXPECT_TRUE(holds(cut, "Details left out for their length: 1.")) << cut;
  EXPECT_TRUE(cut.ends_with("<!-- noisemark results -->\n"));
}

TEST(ComparisonComment, leaves_the_long_tables_out_rather_than_growing_beyond_the_limit) {
  const Comparison comparison = compare(test::side("old", test::rates_around(16, 8)),
                                        test::side("new", test::rates_around(14, 8)));
  const std::string whole = comparison_markdown(comparison);
  EXPECT_TRUE(holds(whole, "<details>"));
  const std::string cut = comparison_markdown(comparison, whole.size() - 1);
  EXPECT_FALSE(holds(cut, "<details>"));
  EXPECT_TRUE(holds(cut, "was left out for its length")) << cut;
  EXPECT_TRUE(cut.ends_with("<!-- noisemark comparison -->\n"));
}

TEST(ComparisonComment, shows_who_owned_the_bytes_and_that_they_add_up) {
  const Side base = test::side("old", test::rates_around(16, 8));
  const Comparison more =
      compare(base, test::side("new", test::rates_around(16, 8), [](Result& r, size_t) {
                r.memory.peak.by_category["workspace"] += 4096;
                r.memory.peak_bytes += 4096;
                test::metric(r, "peak_bytes").value = static_cast<double>(r.memory.peak_bytes);
              }));
  const std::string text = comparison_markdown(more);
  EXPECT_TRUE(holds(text, "+4,096 B")) << text;
  EXPECT_FALSE(holds(text, "The sum is not peak_bytes")) << text;
  const Comparison lost = compare(
      base, test::side("new", test::rates_around(16, 8),
                       [](Result& r, size_t) { r.memory.peak.by_category["workspace"] += 4096; }));
  EXPECT_TRUE(holds(comparison_markdown(lost), "The sum is not peak_bytes"));
}

}  // namespace
}  // namespace noisemark::reports
