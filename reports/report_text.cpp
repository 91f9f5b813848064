#include "reports/report_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/plot.h"
#include "reports/report.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kLeftOut = "\nPlots were left out: ";
constexpr std::string_view kReason = "gnuplot ";

/// Why plots are missing, by the text; empty when it gives none of gnuplot's reasons.
std::string stated_reason(std::string_view text) {
  const size_t begin = text.find(kLeftOut);
  if (begin == std::string_view::npos) return "";
  std::string_view reason = text.substr(begin + kLeftOut.size());
  reason = reason.substr(0, reason.find('\n'));
  if (!reason.starts_with(kReason) || !reason.ends_with('.')) return "";
  reason.remove_suffix(1);
  return std::string(reason);
}

/// The plots that the report may have left out or not.
Plots plots_in(std::string_view text, const Result& result) {
  Plots plots;
  const std::string reason = stated_reason(text);
  for (const PlotSource& source : plot_sources(result)) {
    const std::string file = fmt::format("plots/{}.svg", source.name);
    const bool shown = text.find(fmt::format("]({})", file)) != std::string_view::npos;
    if (shown || reason.empty()) {
      plots.links.push_back({source.title, file});
    } else {
      plots.left_out = reason;
    }
  }
  return plots;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string text_difference(std::string_view text, std::string_view rendered) {
  if (text == rendered) return "";
  for (int line = 1; !text.empty() || !rendered.empty(); ++line) {
    const std::string_view found = take_line(text);
    const std::string_view expected = take_line(rendered);
    if (found == expected) continue;
    return fmt::format("line {} is \"{}\", and the results say \"{}\"", line, found, expected);
  }
  return "its last line has no end";
}

std::string report_difference(std::string_view text, const Result& result,
                              const std::string& result_sha256) {
  return text_difference(text, render_report(result, result_sha256, plots_in(text, result)));
}

}  // namespace noisemark::reports
