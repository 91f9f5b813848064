#include "reports/markdown.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

TEST(Markdown, pads_columns_so_that_the_text_reads_as_a_table) {
  MarkdownTable table({{"name"}, {"value", Align::kRight}});
  table.add_row({"weights", "136.00"});
  table.add_row({"é", "1"});
  EXPECT_EQ(table.text(),
            "| name    |  value |\n"
            "| ------- | -----: |\n"
            "| weights | 136.00 |\n"
            "| é       |      1 |\n");
}

TEST(Markdown, escapes_what_would_break_a_row) {
  MarkdownTable table({{"a"}});
  table.add_row({"x|y\nz"});
  EXPECT_EQ(table.text(), "| a      |\n| ------ |\n| x\\|y z |\n");
}

TEST(Markdown, refuses_a_row_of_another_width) {
  MarkdownTable table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
}

TEST(Markdown, keeps_backquotes_inside_a_code_span) {
  EXPECT_EQ(code("x"), "`x`");
  EXPECT_EQ(code("a`b"), "`` a`b ``");
  EXPECT_EQ(code(""), "");
}

}  // namespace
}  // namespace noisemark::reports
