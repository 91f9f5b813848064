#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/result/result.h"

/// Texts that a user or a machine chose, in reports.
namespace noisemark::reports::test {

/// Line ends, blocks, markup and tags of Markdown, controls, and bytes that are not UTF-8.
inline constexpr std::string_view kFreeText =
    "a|b\n\n# forged\n\n| x | y |\n| - | - |\n| 1 | 2 |\n\n- item\n~~~\n```\n<img "
    "src=x>\n</details>"
    " <!-- ` *b* __c__ [l](u) ![p](q) &amp; \\\r\x1b[31m\x07\xe2\x80\xae\xff 'end";

/// The blocks of a page of Markdown, a word for each line: the level of a heading, the number of a
/// table's cells, an item, a tag, text. Blocks of code are one word. Whatever stands in a line
/// shows up in it as a problem where it should not: a control character, a tag inside a line.
[[nodiscard]] std::vector<std::string> outline(std::string_view markdown);

/// Calls `use` with copies of `result` in which one text after the other is `text`, and with the
/// number of that text. Keys of maps are texts too.
void with_each_text(const Result& result, std::string_view text,
                    const std::function<void(const Result&, size_t)>& use);

/// Expects of every text of `result` that the page has the same outline with kFreeText as with a
/// word, and nothing in it that it should not have.
void expect_no_text_makes_blocks(const Result& result,
                                 const std::function<std::string(const Result&)>& page);

}  // namespace noisemark::reports::test
