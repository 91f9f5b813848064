#include "reports/quality/distance_markdown.h"

#include <fmt/format.h>

#include "reports/markdown.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

constexpr size_t kShownDigits = 12;  // of a checksum

std::string shown(const std::string& sha256) {
  return sha256.empty() ? "not known" : code(sha256.substr(0, kShownDigits));
}

std::string or_unknown(const std::string& text) {
  return text.empty() ? "not known" : text;
}

std::string extractor_cell(const DistanceOrigin& one) {
  return one.extractor.empty() ? "none" : one.extractor + " " + shown(one.checksum);
}

std::string resize_cell(const DistanceOrigin& one) {
  return one.resize_asserted ? one.resize + " (of one side as the user says)" : one.resize;
}

std::string what_was_measured(const QualityStudy& study) {
  MarkdownTable table({{"metric"},
                       {"distance"},
                       {"extractor"},
                       {"resize"},
                       {"d", Align::kRight},
                       {"N", Align::kRight},
                       {"reference"},
                       {"N of it", Align::kRight},
                       {"its moments"}});
  for (const DistanceOrigin& one : study.distances) {
    table.add_row({one.metric, one.name, extractor_cell(one), resize_cell(one),
                   std::to_string(one.dimension), std::to_string(one.samples), one.reference,
                   one.reference_samples ? std::to_string(*one.reference_samples) : "none",
                   shown(one.reference_sha256)});
  }
  return table.text();
}

std::string draws_cell(const DistanceOrigin& one) {
  if (!one.kernel) return "all samples";
  const KernelOrigin& kernel = *one.kernel;
  return fmt::format("{} subsets of {}, drawn by {}{}", kernel.subsets, kernel.subset_size,
                     kernel.draws.empty() ? "nobody knows what" : kernel.draws,
                     kernel.seed ? fmt::format(", seed {}", *kernel.seed) : "");
}

std::string how_it_was_drawn(const QualityStudy& study) {
  MarkdownTable table({{"metric"},
                       {"sampler"},
                       {"weights"},
                       {"noise"},
                       {"precision"},
                       {"definition"},
                       {"looks at"}});
  for (const DistanceOrigin& one : study.distances) {
    table.add_row(
        {one.metric, or_unknown(one.sampler),
         one.weights.empty() ? "not known" : (one.weights == "ema" ? "averaged (EMA)" : "trained"),
         or_unknown(one.noise), or_unknown(one.precision), or_unknown(one.definition),
         draws_cell(one)});
  }
  return table.text();
}

std::string error_cell(const DistanceValue& one) {
  if (one.standard_error) return "± " + format_number(*one.standard_error);
  if (!one.interval) return "";
  return fmt::format("{} to {}", format_number(one.interval->low),
                     format_number(one.interval->high));
}

std::string values(const QualityStudy& study) {
  MarkdownTable table({{"benchmark"},
                       {"variant"},
                       {"seed", Align::kRight},
                       {"metric"},
                       {"value", Align::kRight},
                       {"its error", Align::kRight},
                       {"N", Align::kRight},
                       {"why not counted"}});
  for (const DistanceValue& one : study.distance_values) {
    table.add_row({one.benchmark, one.variant, std::to_string(one.seed), one.metric,
                   one.value ? format_number(*one.value) : "none", error_cell(one),
                   std::to_string(one.samples), one.problem});
  }
  if (table.empty()) return "";
  return fmt::format(
      "\n{}\nits error: a standard error, or the interval of other samples of the same weights. "
      "Seeds differ by more: verdicts are on seeds alone.\n",
      table.text());
}

}  // namespace

std::string distances_markdown(const QualityStudy& study) {
  if (study.distances.empty()) return "";
  return fmt::format("\n## Distances\n\n{}\n{}{}", what_was_measured(study),
                     how_it_was_drawn(study), values(study));
}

}  // namespace noisemark::reports
