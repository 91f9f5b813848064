#include "reports/html/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/compare/compare.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::has;

using Json = nlohmann::ordered_json;

TEST(TwoResults, marks_the_fields_that_differ_and_gives_their_ratio) {
  const std::string table =
      field_table(Json{{"a", 2}, {"b", {{"c", "x"}}}, {"d", true}},
                  Json{{"a", 3}, {"b", {{"c", "x"}}}, {"d", true}, {"e", nullptr}});
  EXPECT_TRUE(has(table, "<p>2 of 4 fields differ"));
  EXPECT_TRUE(has(table,
                  "<tr class=\"differs\"><td>a</td><td>≠</td><td>2</td><td>3</td><td "
                  "class=\"right\">1.5</td></tr>"));
  EXPECT_TRUE(
      has(table, "<tr><td>b.c</td><td></td><td>x</td><td>x</td><td class=\"right\"></td></tr>"));
  EXPECT_TRUE(has(table, "<td>e</td><td>≠</td><td></td><td>null</td>"));
}

TEST(TwoResults, counts_what_differs_in_a_long_list_and_shows_a_short_one) {
  Json base{{"short", {1, 2}}, {"long", Json::array()}};
  for (int i = 0; i < 100; ++i) base["long"].push_back(i);
  Json other = base;
  other["short"][1] = 3;
  other["long"][7] = -1;
  other["long"].push_back(0);
  const std::string table = field_table(base, other);
  EXPECT_TRUE(has(table, "<td>100 items</td><td>101 items, 2 of them different</td>"));
  EXPECT_TRUE(has(table, "<td>short[1]</td><td>≠</td><td>2</td><td>3</td>"));
}

TEST(TwoResults, shows_texts_as_they_are) {
  const std::string table = field_table(Json{{"<b>", "</td><script>"}}, Json{{"<b>", 1}});
  EXPECT_TRUE(has(table, "<td>&lt;b&gt;</td><td>≠</td><td>&lt;/td&gt;&lt;script&gt;</td>"));
}

TEST(TwoResults, are_behind_the_whole_comparison) {
  const Side base{"base", {{"base/run", test::full_result()}}};
  Side candidate{"new", {{"new/run", test::full_result()}}};
  candidate.runs.front().result.run_id = "fedcba9876543210";
  const HtmlPage page = page_of_sides(compare(base, candidate, {}), base, candidate);
  EXPECT_TRUE(page.markdown.starts_with("#"));
  EXPECT_TRUE(has(page.more, "<td>run_id</td><td>≠</td>"));
  EXPECT_EQ(Json::parse(page.data.front().second).size(), 1U);
}

}  // namespace
}  // namespace noisemark::reports
