#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/render/report_sections.h"
#include "reports/result/definition.h"

namespace noisemark::reports::sections {
namespace {

constexpr size_t kMostEvaluations = 20;

// Returns at most kMostEvaluations rows, evenly spread, the first and the last among them.
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
                       {"time", Align::kRight},
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
  const bool known = last.optimal_per_timestep.size() >= last.per_timestep.size() &&
                     !last.optimal_per_timestep.empty();
  std::vector<MarkdownTable::Column> columns{{"timestep", Align::kRight}, {"loss", Align::kRight}};
  if (known) columns.push_back({"Bayes-optimal", Align::kRight});
  if (known) columns.push_back({"above it", Align::kRight});
  MarkdownTable table(columns);
  for (size_t i = 0; i < last.timesteps.size() && i < last.per_timestep.size(); ++i) {
    std::vector<std::string> row{format_count(last.timesteps[i]),
                                 format_number(last.per_timestep[i])};
    if (known) {
      const double optimal = last.optimal_per_timestep[i];
      row.push_back(format_number(optimal));
      row.push_back(optimal > 0 ? format_percent(last.per_timestep[i] / optimal - 1) : "");
    }
    table.add_row(row);
  }
  return table.text();
}

std::string time_to_quality(const Quality& quality) {
  if (quality.time_to_quality_s && quality.samples_to_quality && quality.target_loss) {
    return fmt::format("A loss of at most {} was reached after {} ({} images).\n",
                       format_number(*quality.target_loss),
                       format_seconds(*quality.time_to_quality_s),
                       format_count(*quality.samples_to_quality));
  }
  return fmt::format("There is no time to quality: {}.\n", quality.missing_reason.empty()
                                                               ? "no reason was recorded"
                                                               : plain(quality.missing_reason));
}

}  // namespace

std::string quality_in_short(const Result& result) {
  const auto& evaluations = result.quality.evaluations;
  if (evaluations.size() < 2) return "";
  const Evaluation& last = evaluations.back();
  const double start = evaluations.front().loss;
  std::string text = fmt::format("after {} images the validation loss is {}",
                                 format_count(last.samples_seen), format_number(last.loss));
  if (start > 0)
    text += fmt::format(", {} of that at the start", format_percent(last.loss / start));
  if (!result.quality.target_loss) {
    text += "; no target is set. `noisemark fid` judges drawn images";
    return result.identity.has_mode()
               ? text + ", and `noisemark quality` judges what the mode costs over several seeds"
               : text;
  }
  return text +
         fmt::format("; the target {} {}", format_number(*result.quality.target_loss),
                     result.quality.time_to_quality_s
                         ? "was reached after " + format_seconds(*result.quality.time_to_quality_s)
                         : "was not reached");
}

std::string quality(const Result& result, const std::string& plot) {
  const Quality& q = result.quality;
  std::string text = "## Quality\n\n";
  if (q.evaluations.empty()) return text + "No evaluation was made. " + time_to_quality(q);
  text += evaluations_table(q);
  if (q.evaluations.size() > kMostEvaluations) {
    text += fmt::format("\nThe table shows {} of {} evaluations, evenly spread.\n",
                        kMostEvaluations, q.evaluations.size());
  }
  text += fmt::format(
      "\nThe validation loss is of the {} weights, on {} validation images. The time counts from "
      "the opening of the data and includes evaluations. The weighted loss weights the timesteps "
      "as the training does. Above Bayes is how far the loss lies above the least that any model "
      "can reach; it is known only of the analytic mixture.\n{}",
      weights_words(q.weights), format_count(q.samples), time_to_quality(q));
  text += plot;
  const Evaluation& last = q.evaluations.back();
  if (!last.timesteps.empty()) {
    text += fmt::format("\nAfter step {} the losses by timestep were:\n\n{}",
                        format_count(last.step), timesteps_table(last));
  }
  return text;
}

namespace {

constexpr const char* kSheet = "samples/sheet.png";

bool has_sheet(const Result& result) {
  return std::any_of(result.artifacts.begin(), result.artifacts.end(),
                     [](const Artifact& artifact) { return artifact.path == kSheet; });
}

std::string text_of(const std::optional<std::string>& value) {
  return value.value_or("not recorded");
}

template <class Number>
std::string text_of(const std::optional<Number>& value) {
  return value ? nlohmann::json(*value).dump() : "not recorded";
}

std::string sampler_words(const DefinitionView& definition, const DefinitionView::Sample& sample) {
  const std::string name = text_of(sample.sampler);
  if (name == "ddim") {
    const std::string grid = sample.grid ? fmt::format(" ({} grid)", *sample.grid) : "";
    return fmt::format("{}, {} steps{}, eta {}", name, text_of(sample.ddim_steps), grid,
                       text_of(sample.ddim_eta));
  }
  return fmt::format("{}, {} steps, variance {}", name, text_of(definition.timesteps),
                     text_of(sample.ddpm_variance));
}

std::string sampled_weights(const Result& result, const DefinitionView& definition) {
  const std::string& kind = result.quality.weights;
  const Determinism& trained = result.determinism;
  return fmt::format("{}, after step {}, SHA-256 {}", weights_words(kind),
                     text_of(definition.train_steps),
                     code(kind == "ema" ? trained.ema_sha256 : trained.weights_sha256));
}

}  // namespace

std::string samples(const Result& result) {
  if (!has_sheet(result)) return "";
  const DefinitionView definition = definition_of(result);
  const DefinitionView::Sample sample = definition.sample.value_or(DefinitionView::Sample{});
  const std::string count = text_of(sample.count);
  MarkdownTable table({{"what"}, {"value"}});
  table.add_row({"images", count});
  table.add_row({"sampler", sampler_words(definition, sample)});
  table.add_row({"weights", sampled_weights(result, definition)});
  table.add_row({"initial noise", fmt::format("drawn, seed {}", result.seeds.base)});
  table.add_row({"as 8-bit images", code("samples/pictures")});
  table.add_row({"not rounded", code("samples/samples.npy")});
  return fmt::format(
      "## Samples\n\n![the first of {} samples]({})\n\n{}\nThe samples were drawn after the "
      "training, outside its time; {} has the checksums of weights, noise and samples. {} measures "
      "how far they are from a reference; {} judges such distances over seeds, where they are kept "
      "in {}.\n",
      count, kSheet, table.text(), code("samples/sampling.json"), code("noisemark fid"),
      code("noisemark quality"), code("distances/"));
}

}  // namespace noisemark::reports::sections
