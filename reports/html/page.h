#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

/// Pages of HTML, each one file that needs nothing else: no network, no other file. They are made
/// from the very Markdown that people read, so that nothing is said twice or lost.
namespace noisemark::reports {

/// The page of another command, folded behind a page's own text.
struct HtmlPart {
  std::string name;  ///< the name of its file and of its folder below the page: "profile"
  std::string markdown;
};

struct HtmlPage {
  std::string markdown;
  /// Pictures and links of the Markdown are relative to it. It is empty where there are none.
  std::filesystem::path folder = {};
  std::string more = {};  ///< HTML that follows
  /// Scripts draw from these, name and JSON: "result" (result.json), "prediction" (predict.json),
  /// "timeline" (memory_timeline.json), "pairs" (page_of_sides()).
  std::vector<std::pair<std::string, std::string>> data = {};
  std::vector<HtmlPart> parts = {};
};

/// A pure function but for the pictures in the page's folder, which it takes in with the data and
/// the script that each was drawn from. The plotting library is in it where there is a plot. It can
/// be read without scripts, by keyboard, and printed. No text in it, whoever wrote it, becomes a
/// tag or a script.
[[nodiscard]] std::string html_page(const HtmlPage& page);

/// Says why plots of pages are pictures, and what to do; empty where the library is built in.
[[nodiscard]] std::string why_pictures();

/// Writes FILE.html beside FILE.md, with the data of what lies there too: a result.json for a
/// report.md, a predict.json. Takes in NAME/NAME.md below its folder for each name of `parts`,
/// "profile" or "predict". Returns its path. Throws Error (bad input, cannot write).
std::filesystem::path write_html_beside(const std::filesystem::path& markdown_file,
                                        const std::vector<std::string>& parts = {});

/// Every page begins so, by which one is told from a page that somebody else wrote.
inline constexpr std::string_view kPageBegins =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data: "
    "blob:";

/// The parts of a page that are alike on every page. They were put into the program when it was
/// built.
struct PageAssets {
  std::string_view style;   ///< page.css
  std::string_view script;  ///< page.js
  /// plotly.js, compressed by gzip, in base64; empty where it was not there when the program was
  /// built.
  std::string_view plotly;
  std::string_view plotly_licence;
};

[[nodiscard]] PageAssets page_assets();

/// Two results side by side as a table of HTML: a row for each field of either, and those that
/// differ are marked. A list of more than 16 items is one row, which says how many of them differ.
[[nodiscard]] std::string field_table(const nlohmann::ordered_json& base,
                                      const nlohmann::ordered_json& other);

/// The page of a comparison, whole, and behind it the first runs of each cell that both sides have,
/// field by field.
[[nodiscard]] HtmlPage page_of_sides(const Comparison& comparison, const Side& base,
                                     const Side& candidate);

}  // namespace noisemark::reports
