#include "reports/base/markdown.h"

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

TEST(Markdown, shows_a_text_as_it_is) {
  for (const char* text : {"peak_bytes < 5 * 3 & more", "the `--out` option", "a -> b", "-1.5 %"}) {
    EXPECT_EQ(plain(text), text);
  }
  EXPECT_EQ(plain("# a\n\n- b"), "\\# a  - b");
  EXPECT_EQ(plain("- b"), "\\- b");
  EXPECT_EQ(plain("1. b"), "1\\. b");
  EXPECT_EQ(plain("  > b"), "\\> b");
  EXPECT_EQ(plain("<b> *c* _d_ e_f"), "\\<b> \\*c\\* \\_d\\_ e_f");
  EXPECT_EQ(plain("[l](u) ` &amp; \\|"), "[l\\](u) \\` \\&amp; \\\\|");
  EXPECT_EQ(plain("caf\xe9 \x1b[31m\xe2\x80\xae."), "caf\uFFFD \uFFFD[31m\uFFFD.");
}

TEST(Markdown, links_to_files_of_any_name) {
  EXPECT_EQ(link("gmm16@cpu/a=b", "gmm16@cpu/a=b/report.md"),
            "[gmm16@cpu/a=b](gmm16@cpu/a=b/report.md)");
  EXPECT_EQ(link("a](b) c", "a](b) c"), "[a\\](b) c](a%5D%28b%29%20c)");
}

TEST(Markdown, keeps_a_block_of_code_whole) {
  EXPECT_EQ(code_block("a", "sh"), "```sh\na\n```\n");
  EXPECT_EQ(code_block("a\n```\nb", "sh"), "````sh\na\n```\nb\n````\n");
}

TEST(Markdown, says_in_a_line_what_all_rows_have_alike) {
  const Align left = Align::kLeft;
  MarkdownTable table({{"a"}, {"b", left, Fold::kIfAlike}, {"c", left, Fold::kIfEmpty}});
  table.add_row({"1", "x", ""});
  EXPECT_EQ(table.text(), "Every row has b x.\n\n| a   |\n| --- |\n| 1   |\n");
  table.add_row({"2", "y", "z"});
  EXPECT_EQ(table.text(),
            "| a   | b   | c   |\n| --- | --- | --- |\n| 1   | x   |     |\n| 2   | y   | z   |\n");
  MarkdownTable empty({{"a"}, {"b", left, Fold::kIfAlike}});
  empty.add_row({"1", ""});
  EXPECT_EQ(empty.text(), "| a   |\n| --- |\n| 1   |\n");
}

TEST(Markdown, keeps_a_bold_cell_bold) {
  MarkdownTable table({{"a|b"}});
  table.add_row({"**FAIL**"});
  table.add_row({"*c*"});
  EXPECT_EQ(table.text(), "| a\\|b     |\n| -------- |\n| **FAIL** |\n| \\*c\\*    |\n");
}

TEST(Markdown, keeps_backquotes_inside_a_code_span) {
  EXPECT_EQ(code("x"), "`x`");
  EXPECT_EQ(code("a`b"), "`` a`b ``");
  EXPECT_EQ(code(""), "");
}

}  // namespace
}  // namespace noisemark::reports
