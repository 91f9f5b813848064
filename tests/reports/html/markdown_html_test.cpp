#include "reports/html/markdown_html.h"

#include <gtest/gtest.h>

#include <map>

#include "reports/base/markdown.h"
#include "reports/render/report.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

HtmlText html(std::string_view markdown) {
  return html_of(
      markdown,
      [](std::string_view words, std::string_view path) {
        return "<i>" + html_text(words) + " at " + html_text(path) + "</i>";
      },
      [](std::string_view path) { return std::string(path); });
}

std::string all(const HtmlText& text) {
  return text.head + text.rest;
}

/// Counts each tag in `page`: "<td" 12 times.
std::map<std::string, int> tags(std::string_view page) {
  std::map<std::string, int> counts;
  for (size_t at = page.find('<'); at != std::string_view::npos; at = page.find('<', at + 1)) {
    ++counts[std::string(page.substr(at, page.find_first_of(" >", at) - at))];
  }
  return counts;
}

TEST(MarkdownHtml, divides_the_page_where_the_details_begin) {
  const HtmlText text = html("# PASS: `a`\n\n**1** image/s\n\n## Gates\n\nnone\n\n### More\n");
  EXPECT_EQ(text.title, "PASS: a");
  EXPECT_EQ(text.head,
            "<h1 id=\"pass-a\">PASS: <code>a</code></h1>\n<p><strong>1</strong> image/s</p>\n");
  EXPECT_EQ(text.rest, "<h2 id=\"gates\">Gates</h2>\n<p>none</p>\n<h3 id=\"more\">More</h3>\n");
  ASSERT_EQ(text.headings.size(), 2U);
  EXPECT_EQ(text.headings[0].id, "gates");
}

TEST(MarkdownHtml, divides_the_page_before_the_first_part_that_is_folded) {
  const HtmlText text = html("# a\n\nb\n\n<details><summary>c</summary>\n\n## d\n\n</details>\n");
  EXPECT_TRUE(text.head.ends_with("<p>b</p>\n")) << text.head;
  EXPECT_TRUE(text.rest.starts_with("<details><summary>c</summary>")) << text.rest;
  EXPECT_EQ(text.headings.size(), 1U);
}

TEST(MarkdownHtml, gives_equal_headings_ids_of_their_own) {
  const HtmlText text = html("# a\n\n## Data\n\n## Data\n");
  EXPECT_EQ(text.headings.at(1).id, "data-1");
}

TEST(MarkdownHtml, keeps_tables_lists_code_and_pictures) {
  EXPECT_EQ(all(html("| a | b |\n| --- | --: |\n| x | 1 |\n")),
            "<div class=\"scroll\"><table>\n<thead>\n<tr><th scope=\"col\">a</th><th scope=\"col\" "
            "class=\"right\">b</th></tr>\n</thead>\n<tbody>\n<tr><td>x</td><td class=\"right\">1"
            "</td></tr>\n</tbody>\n</table></div>\n");
  EXPECT_EQ(all(html("- a\n- b\n")), "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n");
  EXPECT_EQ(all(html("```sh\na <b>\n```\n")), "<pre><code>a &lt;b&gt;\n</code></pre>\n");
  EXPECT_EQ(all(html("![The *loss*](plots/loss.svg)\n")),
            "<p><i>The loss at plots/loss.svg</i></p>\n");
}

TEST(MarkdownHtml, keeps_only_the_tags_that_pages_of_this_project_have) {
  EXPECT_EQ(all(html("<details><summary>a &lt; b</summary>\n\nc\n\n</details>\n")),
            "<details><summary>a &lt; b</summary>\n<p>c</p>\n</details>\n");
  EXPECT_EQ(all(html("<details onclick=\"x\">\n")), "&lt;details onclick=&quot;x&quot;&gt;\n");
  EXPECT_EQ(all(html("<script>x</script>\n")), "&lt;script&gt;x&lt;/script&gt;\n");
  EXPECT_EQ(all(html("a <img src=x onerror=y>\n")), "<p>a &lt;img src=x onerror=y&gt;</p>\n");
  EXPECT_EQ(all(html("<!-- noisemark run_id=1 -->\na\n")), "\n<p>a</p>\n");
}

TEST(MarkdownHtml, leads_to_no_script) {
  for (const std::string address :
       {"javascript:x", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x"}) {
    EXPECT_EQ(all(html("[a](" + address + ")\n")), "<p><a href=\"./" + address + "\">a</a></p>\n");
  }
  EXPECT_EQ(all(html("[a](https://b/c) [d](e/f:g) [h](#i)\n")),
            "<p><a href=\"https://b/c\">a</a> <a href=\"e/f:g\">d</a> <a href=\"#i\">h</a></p>\n");
  EXPECT_EQ(all(html("[a](<x\" onclick=\"y>)\n")),
            "<p><a href=\"x&quot; onclick=&quot;y\">a</a></p>\n");
}

TEST(MarkdownHtml, makes_the_same_tags_whatever_the_texts_of_a_result_are) {
  const auto tags_of = [](const Result& result) {
    return tags(all(html(render_report(result, std::string(64, 'a'), {}))));
  };
  std::vector<std::map<std::string, int>> with_a_word;
  test::with_each_text(test::full_result(), "word",
                       [&](const Result& one, size_t) { with_a_word.push_back(tags_of(one)); });
  ASSERT_GT(with_a_word.size(), 100U);
  test::with_each_text(test::full_result(), test::kFreeText, [&](const Result& one, size_t i) {
    std::map<std::string, int> found = tags_of(one);
    // Code spans of messages stay code, and only the text itself has any.
    for (const char* tag : {"<code>", "</code>"}) {
      found.erase(tag);
      with_a_word.at(i).erase(tag);
    }
    EXPECT_EQ(found, with_a_word.at(i)) << "text " << i;
  });
}

}  // namespace
}  // namespace noisemark::reports
