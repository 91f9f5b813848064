#include <fmt/format.h>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"
#include "reports/statistics.h"

namespace noisemark::reports::sections {
namespace {

constexpr size_t kMostEvaluations = 20;

// At most kMostEvaluations, evenly spread, the first and the last among them.
std::vector<size_t> shown_rows(size_t count) {
  std::vector<size_t> rows;
  const size_t shown = std::min(count, kMostEvaluations);
  for (size_t i = 0; i < shown; ++i) {
    rows.push_back(shown == 1 ? 0 : i * (count - 1) / (shown - 1));
  }
  return rows;
}

std::string evaluations_table(const Quality& quality) {
  MarkdownTable table({{"step", Align::kRight},
                       {"images seen", Align::kRight},
                       {"training time", Align::kRight},
                       {"loss", Align::kRight},
                       {"weighted", Align::kRight},
                       {"above Bayes", Align::kRight}});
  for (const size_t row : shown_rows(quality.evaluations.size())) {
    const Evaluation& one = quality.evaluations[row];
    table.add_row({format_count(one.step), format_count(one.samples_seen),
                   format_seconds(one.elapsed_s), format_number(one.loss),
                   format_number(one.weighted_loss),
                   one.excess_frac ? format_percent(*one.excess_frac) : "not known"});
  }
  return table.text();
}

std::string timesteps_table(const Evaluation& last) {
  const bool known = !last.optimal_per_timestep.empty();
  std::vector<MarkdownTable::Column> columns{{"timestep", Align::kRight}, {"loss", Align::kRight}};
  if (known) columns.push_back({"Bayes-optimal", Align::kRight});
  if (known) columns.push_back({"above it", Align::kRight});
  MarkdownTable table(columns);
  for (size_t i = 0; i < last.timesteps.size() && i < last.per_timestep.size(); ++i) {
    std::vector<std::string> row{format_count(last.timesteps[i]),
                                 format_number(last.per_timestep[i])};
    if (known) {
      const double optimal = last.optimal_per_timestep.at(i);
      row.push_back(format_number(optimal));
      row.push_back(optimal > 0 ? format_percent(last.per_timestep[i] / optimal - 1) : "");
    }
    table.add_row(row);
  }
  return table.text();
}

std::string time_to_quality(const Quality& quality) {
  if (quality.time_to_quality_s && quality.samples_to_quality && quality.target_loss) {
    return fmt::format("Time to quality: {} ({} images) to a loss of at most {}.\n",
                       format_seconds(*quality.time_to_quality_s),
                       format_count(*quality.samples_to_quality),
                       format_number(*quality.target_loss));
  }
  return fmt::format("Time to quality: none, {}.\n", quality.missing_reason.empty()
                                                         ? "no reason was recorded"
                                                         : quality.missing_reason);
}

}  // namespace

std::string quality(const Result& result, const std::string& plot) {
  const Quality& q = result.quality;
  std::string text = "## Quality\n\n";
  if (q.evaluations.empty()) return text + "No evaluation was made. " + time_to_quality(q);
  text += evaluations_table(q);
  if (q.evaluations.size() > kMostEvaluations) {
    text += fmt::format("\n{} of {} evaluations, evenly spread.\n", kMostEvaluations,
                        q.evaluations.size());
  }
  text += fmt::format("\nValidation loss of the {} weights on {} samples each time.\n{}",
                      q.weights == "ema" ? "averaged (EMA)" : "trained", format_count(q.samples),
                      time_to_quality(q));
  text += plot;
  const Evaluation& last = q.evaluations.back();
  if (!last.timesteps.empty()) {
    text += fmt::format("\nAfter step {}, by timestep:\n\n{}", format_count(last.step),
                        timesteps_table(last));
  }
  return text;
}

}  // namespace noisemark::reports::sections
