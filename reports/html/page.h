#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// Pages of HTML, each one file that needs nothing else: no network, no other file. They are made
/// from the very Markdown that people read, so that nothing is said twice or lost.
namespace noisemark::reports {

struct HtmlPage {
  std::string markdown;
  /// Pictures and links of the Markdown are relative to it. Empty: there are none.
  std::filesystem::path folder = {};
  std::string more = {};  ///< HTML that follows
  /// Scripts draw from these, name and JSON: "result" (result.json), "prediction" (predict.json),
  /// "timeline" (memory_timeline.json), "pairs" (page_of_sides()).
  std::vector<std::pair<std::string, std::string>> data = {};
};

/// A pure function but for the pictures in the page's folder, which it takes in with the data and
/// the script that each was drawn from. The plotting library is in it where there is a plot. It can
/// be read without scripts, by keyboard, and printed. No text in it, whoever wrote it, becomes a
/// tag or a script.
[[nodiscard]] std::string html_page(const HtmlPage& page);

/// Says why plots of pages are pictures, and what to do; empty where the library is built in.
[[nodiscard]] std::string why_pictures();

/// Writes FILE.html beside FILE.md, with the data of what lies there too: a result.json for a
/// report.md, a predict.json. Returns its path. Throws Error (bad input, cannot write).
std::filesystem::path write_html_beside(const std::filesystem::path& markdown_file);

}  // namespace noisemark::reports
