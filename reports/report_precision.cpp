#include <fmt/format.h>

#include <string>
#include <vector>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

std::string scaling_words(const MixedPrecision& mixed) {
  if (!mixed.loss_scale) return "";
  return fmt::format("The loss was scaled; by {} after the last step.\n\n",
                     format_number(*mixed.loss_scale));
}

std::string wide_table(const MixedPrecision& mixed) {
  MarkdownTable table({{"operator"}, {"calls", Align::kRight}, {"results (MiB)", Align::kRight}});
  for (const WideOperator& one : mixed.wide) {
    table.add_row({code(one.name), format_count(one.calls), format_mib(one.result_bytes)});
  }
  return table.text();
}

std::string wide_words(const MixedPrecision& mixed) {
  if (mixed.type.empty()) return "";
  if (!mixed.measured) return "What stayed in float32. " + not_measured(mixed.missing_reason);
  if (mixed.wide.empty()) {
    return fmt::format("All {} operators of a forward pass computed in {}.\n",
                       format_count(mixed.operators), mixed.type);
  }
  int64_t calls = 0;
  for (const WideOperator& one : mixed.wide) calls += one.calls;
  return fmt::format(
      "Under autocast to {} these stayed in float32, {} of {} calls with a floating-point result "
      "in "
      "one forward pass:\n\n{}",
      mixed.type, format_count(calls), format_count(mixed.operators), wide_table(mixed));
}

}  // namespace

std::string mixed_precision(const Result& result) {
  const MixedPrecision& mixed = result.mixed_precision;
  if (mixed.type.empty() && !mixed.loss_scale) return "";
  return "## Mixed precision\n\n" + scaling_words(mixed) + wide_words(mixed);
}

}  // namespace noisemark::reports::sections
