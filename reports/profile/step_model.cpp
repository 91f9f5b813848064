#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/profile/roofline.h"

namespace noisemark::reports {
namespace {

constexpr double kGigaFlop = 1e9;
constexpr double kAssumedShare = 0.7;  ///< share of every peak that the study assumes

constexpr const char* kStepModelWords =
    "\nThe model is that of a study of Alibaba's cluster (Wang et al., Characterizing Deep "
    "Learning Training Workloads on Alibaba-PAI, IISWC 2019, arXiv 1910.05930). A step is the sum "
    "of its parts, and none overlaps another: data at the speed of their way to the device, "
    "operations at that of the fastest product, bytes at that of memory, and gradients at that of "
    "the network. Here data is the phase of the step that waits for the batch and prepares it. "
    "Compute and memory are all other operators, by what bounds them on the roofline. The rest is "
    "the host between operators, and operators without work.\n";

/// Returns the name of the part for which `time` is the longest; the rest is none of the model's.
template <class Time>
std::string longest(const Roofline& roofline, const Time& time) {
  return std::max_element(roofline.parts.begin(), roofline.parts.end(),
                          [&](const StepPart& a, const StepPart& b) { return time(a) < time(b); })
      ->name;
}

}  // namespace

std::string step_model_section(const Roofline& roofline) {
  if (roofline.parts.empty() || !(roofline.step_s > 0)) return "";
  double model_s = 0;
  for (const StepPart& part : roofline.parts) model_s += part.roof_s;
  if (!(model_s > 0)) return "";
  MarkdownTable table({{"part"},
                       {"by the model (ms)", Align::kRight},
                       {"share", Align::kRight},
                       {"measured (ms)", Align::kRight},
                       {"share", Align::kRight},
                       {"GFLOP", Align::kRight},
                       {"MiB", Align::kRight}});
  std::string missing;
  for (const StepPart& part : roofline.parts) {
    const bool known = part.missing.empty();
    table.add_row({part.name, known ? format_ms(part.roof_s) : std::string(kMissing),
                   known ? format_percent(part.roof_s / model_s) : "", format_ms(part.time_s),
                   format_percent(part.time_s / roofline.step_s),
                   known ? fmt::format("{:.3f}", part.flop / kGigaFlop) : "",
                   known ? format_mib(static_cast<int64_t>(part.bytes)) : ""});
    if (!known) missing += fmt::format("- {}: {}\n", part.name, plain(part.missing));
  }
  return fmt::format(
      "\n## The step by a model\n\nAt the peaks of this machine a step would take {}, **{}** of "
      "the {} that a profiled one takes; at {} of them, as the study assumes, {}. Its longest "
      "part is {} by the model, and {} as it was measured.\n\n{}{}{}{}",
      format_seconds(model_s), format_percent(model_s / roofline.step_s),
      format_seconds(roofline.step_s), format_percent(kAssumedShare),
      format_seconds(model_s / kAssumedShare),
      longest(roofline, [](const StepPart& part) { return part.roof_s; }),
      longest(roofline, [](const StepPart& part) { return part.time_s; }), table.text(),
      missing.empty() ? "" : "\nParts that the model has no time for:\n\n", missing,
      kStepModelWords);
}

}  // namespace noisemark::reports
