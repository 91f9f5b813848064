#pragma once

#include <string_view>

/// The parts of a page that are alike on every page. They were put into the program when it was
/// built.
namespace noisemark::reports {

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
