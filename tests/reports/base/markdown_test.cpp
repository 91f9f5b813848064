#include "reports/base/markdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "reports/base/streams.h"

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

TEST(Markdown, finds_the_files_that_a_page_leads_to) {
  const std::string odd = "a](b) c:`d`";
  const std::string page =
      "# a\n\n![curve](plots/loss.svg) and " + link(odd, odd) +
      "\n[here](#a), [there](https://a.example/b), `[no](code)` \\[x\\](no)\n" +
      code_block("[no](block)", "") + "| [cell](run/report.md) |";
  const std::vector<std::string> files = {"plots/loss.svg", odd, "run/report.md"};
  EXPECT_EQ(linked_files(page), files);
  EXPECT_EQ(linked_files("<!doctype html>\n<a href=\"#a\">a</a> <a href=\"b%20c.html\">b</a>"
                         "<script><a href=\"no\"></script>"),
            std::vector<std::string>{"b c.html"});
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

TEST(Markdown, says_nothing_of_a_column_that_the_page_tells_of) {
  MarkdownTable table({{"a"}, {"b", Align::kLeft, Fold::kAlways}});
  table.add_row({"1", "x"});
  EXPECT_EQ(table.text(), "| a   |\n| --- |\n| 1   |\n");
}

/// A page in which the places that must not break are written as "_".
std::string page_of(std::string words) {
  for (size_t i = words.find('_'); i != std::string::npos; i = words.find('_', i)) {
    words.replace(i, 1, "\u00A0");
  }
  return words;
}

TEST(FinishedPage, never_breaks_a_number_from_its_unit) {
  for (const std::string words :
       {"12.5_MiB", "3.2_%", "-0.4_%", "**1,024_images/s**", "3_min 05_s", "1.2 to 3.4_ms",
        "[-0.1, 0.2]_%, 95_%", "| 7_B | 2.00_GFLOP/s|", "(1,410_MHz; 40_C.)", "1.00_J/image",
        "**12**_s", "a `code` 5_%", "`` 5_s", "\\` 5_s", "0_B\n- 2_us"}) {
    std::string broken = words;
    std::replace(broken.begin(), broken.end(), '_', ' ');
    EXPECT_EQ(finished_page(broken), page_of(words));
    EXPECT_EQ(finished_page(page_of(words)), page_of(words)) << "a page that is finished already";
  }
}

TEST(FinishedPage, leaves_what_is_no_quantity_as_it_is) {
  for (const char* words :
       {"in 2026 steps", "5 seeds", "seed 3 saved", "| 3 | s |", "a s", "5 mine", "12 of",
        "`12.5 MiB`", "a ``5 s` 5 s``", "```sh\nsleep 5 s\n```\n", "````\n```\n5 s\n````", ""}) {
    EXPECT_EQ(finished_page(words), words);
  }
  EXPECT_EQ(finished_page("```sh\n5 s\n```\n5 s\n"), page_of("```sh\n5 s\n```\n5_s\n"));
}

TEST(StandardError, takes_no_control_of_a_files_name_to_the_terminal) {
  testing::internal::CaptureStderr();
  say_on_stderr("a\x1b[31mred.png: is left out\nb\xff: too");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "noisemark: a\xEF\xBF\xBD[31mred.png: is left out\n  b\xEF\xBF\xBD: too\n");
}

TEST(StandardError, takes_no_line_of_a_files_name_for_a_message) {
  testing::internal::CaptureStderr();
  say_on_stderr("a\nnoisemark: all is well: cannot be read");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "noisemark: a\n  noisemark: all is well: cannot be read\n");
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
