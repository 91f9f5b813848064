#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// HTML of the Markdown that this project writes.
namespace noisemark::reports {

/// `text` where HTML has a text or a quoted value of an attribute.
[[nodiscard]] std::string html_text(std::string_view text);

struct HtmlHeading {
  int level = 1;
  std::string id;
  std::string html;
};

struct HtmlText {
  std::string title;  ///< the words of the first heading, as plain text
  /// All up to the first heading of level 2 or the first part that is folded: the verdict, and what
  /// a person must know.
  std::string head;
  std::string rest;
  std::vector<HtmlHeading> headings;  ///< those of `rest`
};

/// Returns what stands in the page for a picture, by its words and its path; both are as they are,
/// not escaped.
using PictureHtml = std::function<std::string(std::string_view words, std::string_view path)>;

/// Returns where a link leads, by its path as written.
using LinkTarget = std::function<std::string(std::string_view path)>;

/// The tags <details>, <summary> and <br> of the Markdown become tags; any other is shown as the
/// text that it is, and comments are left out. No link leads to a script. The ids of headings begin
/// with `prefix`.
[[nodiscard]] HtmlText html_of(std::string_view markdown, const PictureHtml& picture,
                               const LinkTarget& target, std::string_view prefix = "");

}  // namespace noisemark::reports
