#pragma once

#include <string_view>

/// The parts of a page that are alike on every page. They were put into the program when it was
/// built.
namespace noisemark::reports {

/// Every page begins so, by which one is told from a page that somebody else wrote.
inline constexpr std::string_view kPageBegins =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data: "
    "blob:";

struct PageAssets {
  std::string_view style;   ///< page.css
  std::string_view script;  ///< page.js
  /// plotly.js, compressed by gzip, in base64; empty where it was not there when the program was
  /// built.
  std::string_view plotly;
  std::string_view plotly_licence;
};

[[nodiscard]] PageAssets page_assets();

}  // namespace noisemark::reports
