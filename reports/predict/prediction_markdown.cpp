#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/base/document.h"
#include "reports/base/json_writer.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/predict/prediction.h"

namespace noisemark::reports {
namespace {

/// A variant with its model, and what the model says of the sizes that were held out.
struct Modelled {
  const PredictedVariant* variant = nullptr;
  BatchModel model;
};

struct Errors {
  double time_frac = 0;
  double least_time_frac = 0;  ///< at the nearest end of the measured interval
  double memory_frac = 0;
};

double error_of(double predicted, double measured) {
  return std::abs(predicted - measured) / measured;
}

Errors errors_of(const BatchPrediction& predicted, const BatchPoint& measured) {
  const double nearest =
      std::clamp(predicted.step_s, measured.step_ci95.low, measured.step_ci95.high);
  return {error_of(predicted.step_s, measured.step_s), error_of(predicted.step_s, nearest),
          error_of(static_cast<double>(predicted.peak_bytes),
                   static_cast<double>(measured.peak_bytes))};
}

Errors largest_errors(const std::vector<Modelled>& all) {
  Errors largest;
  for (const Modelled& one : all) {
    for (const BatchPoint& point : one.variant->held_out) {
      const Errors errors = errors_of(one.model.at(point.batch), point);
      largest.time_frac = std::max(largest.time_frac, errors.time_frac);
      largest.least_time_frac = std::max(largest.least_time_frac, errors.least_time_frac);
      largest.memory_frac = std::max(largest.memory_frac, errors.memory_frac);
    }
  }
  return largest;
}

bool is_checked(const std::vector<Modelled>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Modelled& one) { return !one.variant->held_out.empty(); });
}

/// A time that is off by more than the limit, within an interval that reaches below it, proves
/// nothing.
ExitCode code_of(const Errors& errors) {
  if (errors.memory_frac > kMostMemoryError || errors.least_time_frac > kMostTimeError) {
    return ExitCode::kFailed;
  }
  return errors.time_frac > kMostTimeError ? ExitCode::kInconclusive : ExitCode::kPass;
}

std::string_view verdict_of(ExitCode code) {
  if (code == ExitCode::kPass) return "PASS";
  return code == ExitCode::kFailed ? "FAIL" : "INCONCLUSIVE";
}

bool overlap(const Interval& a, const Interval& b) {
  return a.low <= b.high && b.low <= a.high;
}

/// "4 of 5 measured times agree with the interval of their prediction": both intervals overlap.
std::string held_words(const std::vector<Modelled>& all) {
  int64_t held = 0;
  int64_t count = 0;
  for (const Modelled& one : all) {
    for (const BatchPoint& point : one.variant->held_out) {
      count += 1;
      held += overlap(one.model.at(point.batch).step_ci95, point.step_ci95) ? 1 : 0;
    }
  }
  return fmt::format("{} of {} measured times agree with the interval of their prediction", held,
                     count);
}

std::string headline(const std::vector<Modelled>& all) {
  if (!is_checked(all)) {
    return "The predictions were not checked: `--check` also trains five sizes that they do not "
           "know.\n";
  }
  const Errors largest = largest_errors(all);
  return fmt::format(
      "**{}**: at the sizes that were held out, the largest error of the time is {} (at most {}) "
      "and that of the peak {} (at most {}). {}.{}\n",
      verdict_of(code_of(largest)), format_percent(largest.time_frac),
      format_percent(kMostTimeError), format_percent(largest.memory_frac),
      format_percent(kMostMemoryError), held_words(all),
      code_of(largest) == ExitCode::kInconclusive
          ? " The measured times are too uncertain to tell: repeat it on a quieter machine."
          : "");
}

std::string line_words(const BatchModel& model) {
  if (!model.is_straight()) return "straight between points";
  const double slope =
      model.at(model.last_near()).step_s - model.at(model.points().back().batch).step_s;
  const double per_image = slope / static_cast<double>(model.points().back().batch);
  const double fixed =
      model.at(model.last_near()).step_s - per_image * static_cast<double>(model.last_near());
  return fmt::format("{} + {} per image", format_seconds(std::max(fixed, 0.0)),
                     format_seconds(per_image));
}

std::string range_words(BatchRange range) {
  return range == BatchRange::kBeyond ? " (beyond what was checked)" : "";
}

std::string largest_cell(const BatchModel& model, int64_t bytes) {
  const std::optional<int64_t> batch = model.largest_within(bytes);
  if (!batch) return "none";
  return format_count(*batch) + range_words(model.at(*batch).range);
}

std::string variants_table(const std::vector<Modelled>& all, std::optional<int64_t> memory_bytes) {
  std::vector<MarkdownTable::Column> columns{
      {"mode"}, {"time of a step"}, {"knee (batch)", Align::kRight}};
  if (memory_bytes) {
    columns.push_back({"largest batch within " + format_bytes(*memory_bytes), Align::kRight});
  }
  MarkdownTable table(columns);
  for (const Modelled& one : all) {
    std::vector<std::string> row{one.variant->name, line_words(one.model),
                                 format_count(one.model.knee())};
    if (memory_bytes) row.push_back(largest_cell(one.model, *memory_bytes));
    table.add_row(row);
  }
  return table.text();
}

std::string overtaking_lines(const std::vector<Modelled>& all) {
  std::string text;
  const Modelled& first = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const auto found = overtaking(all[i].model, first.model);
    if (!found) {
      text += fmt::format("\n`{}` overtakes `{}` in the same memory at no batch of up to {}.\n",
                          all[i].variant->name, first.variant->name,
                          format_count(first.model.last_near()));
      continue;
    }
    text += fmt::format(
        "\n`{}` overtakes `{}` in {}: there `{}` trains batches of {} at {} images/s, and `{}` "
        "batches of {} at {} images/s{}.\n",
        all[i].variant->name, first.variant->name, format_bytes(found->memory_bytes),
        first.variant->name, format_count(found->batch),
        format_per_s(first.model.at(found->batch).images_per_s()), all[i].variant->name,
        format_count(found->larger_batch),
        format_per_s(all[i].model.at(found->larger_batch).images_per_s()),
        range_words(all[i].model.at(found->larger_batch).range));
  }
  return text;
}

void add_measured(MarkdownTable& table, const std::string& mode, const BatchPoint& point) {
  table.add_row(
      {mode, format_count(point.batch), "measured", format_ms(point.step_s),
       fmt::format("{} to {}", format_ms(point.step_ci95.low), format_ms(point.step_ci95.high)),
       format_per_s(static_cast<double>(point.batch) / point.step_s), format_mib(point.peak_bytes),
       "", "", ""});
}

void add_predicted(MarkdownTable& table, const std::string& mode, const BatchPrediction& predicted,
                   const BatchPoint* measured) {
  const Errors errors = measured == nullptr ? Errors{} : errors_of(predicted, *measured);
  table.add_row({mode, format_count(predicted.batch),
                 predicted.range == BatchRange::kWithin ? "predicted" : "extrapolated",
                 format_ms(predicted.step_s),
                 fmt::format("{} to {}", format_ms(predicted.step_ci95.low),
                             format_ms(predicted.step_ci95.high)),
                 format_per_s(predicted.images_per_s()), format_mib(predicted.peak_bytes),
                 measured == nullptr ? "" : format_ms(measured->step_s),
                 measured == nullptr ? "" : format_percent(errors.time_frac),
                 measured == nullptr ? "" : format_percent(errors.memory_frac)});
}

std::string batches_table(const std::vector<Modelled>& all) {
  MarkdownTable table({{"mode"},
                       {"batch", Align::kRight},
                       {"source"},
                       {"step (ms)", Align::kRight},
                       {"interval (ms)", Align::kRight},
                       {"images/s", Align::kRight},
                       {"peak (MiB)", Align::kRight},
                       {"measured step (ms)", Align::kRight, Fold::kIfEmpty},
                       {"error of the time", Align::kRight, Fold::kIfEmpty},
                       {"error of the peak", Align::kRight, Fold::kIfEmpty}});
  for (const Modelled& one : all) {
    const std::string& mode = one.variant->name;
    for (const BatchPoint& point : one.model.points()) add_measured(table, mode, point);
    for (const BatchPoint& point : one.variant->held_out) {
      add_predicted(table, mode, one.model.at(point.batch), &point);
    }
    if (one.variant->held_out.empty()) {
      add_predicted(table, mode, one.model.at(one.model.last_near()), nullptr);
    }
  }
  return table.text();
}

/// Every owner's line through the smallest and the largest size, of those that hold anything.
std::string owners_table(const Modelled& one) {
  constexpr double kLeastShown = 0.005 * 1024 * 1024;
  const BatchPoint& a = one.model.points().front();
  const BatchPoint& b = one.model.points().back();
  std::set<std::string> owners;
  for (const BatchPoint* point : {&a, &b}) {
    for (const auto& [owner, bytes] : point->owners) owners.insert(owner);
  }
  MarkdownTable table({{"owner"},
                       {fmt::format("at batch {} (MiB)", format_count(a.batch)), Align::kRight},
                       {"each image more (MiB)", Align::kRight},
                       {"off the line (MiB)", Align::kRight}});
  const auto bytes_of = [](const BatchPoint& point, const std::string& owner) {
    const auto found = point.owners.find(owner);
    return found == point.owners.end() ? 0.0 : static_cast<double>(found->second);
  };
  bool any_negative = false;
  for (const std::string& owner : owners) {
    const double first = bytes_of(a, owner);
    const double slope = (bytes_of(b, owner) - first) / static_cast<double>(b.batch - a.batch);
    double most = 0;
    double off = 0;
    for (const BatchPoint& point : one.model.points()) {
      const double bytes = bytes_of(point, owner);
      most = std::max(most, bytes);
      off = std::max(off,
                     std::abs(bytes - first - slope * static_cast<double>(point.batch - a.batch)));
    }
    if (most <= 0) continue;
    any_negative = any_negative || slope < -kLeastShown;
    table.add_row({owner, format_mib(std::llround(first)), format_mib(std::llround(slope)),
                   format_mib(std::llround(off))});
  }
  return table.text() +
         (any_negative ? "\nWhere an owner holds less at more images, the peak of a step lies at "
                         "another moment at some sizes.\n"
                       : "");
}

/// A peak that moves bends the line of memory, as where a library takes another algorithm.
std::string moved_peaks(const Modelled& one) {
  std::vector<BatchPoint> all = one.model.points();
  all.insert(all.end(), one.variant->held_out.begin(), one.variant->held_out.end());
  const std::string& usual = one.model.points().back().peak_at;
  std::vector<std::string> moved;
  for (const BatchPoint& point : all) {
    if (point.peak_at == usual) continue;
    moved.push_back(fmt::format("batch {}: {}", format_count(point.batch), point.peak_at));
  }
  return markdown_list(
      fmt::format("The peak lies at {}, but at these sizes elsewhere, which bends its line", usual),
      moved);
}

std::string owners_section(const std::vector<Modelled>& all) {
  std::string text = "\n## Memory by owner\n";
  for (const Modelled& one : all) {
    text += fmt::format("\nAt the peak under `{}`:\n\n{}", one.variant->name, owners_table(one));
    text += moved_peaks(one);
  }
  return text;
}

/// The curves at batches from half of the smallest to twice the largest, at most 128 of them.
std::vector<BatchPrediction> curve_of(const BatchModel& model) {
  constexpr int64_t kMostBatches = 128;
  const int64_t first = std::max<int64_t>(1, model.points().front().batch / 2);
  const int64_t step = std::max<int64_t>(1, (model.last_near() - first) / (kMostBatches - 1));
  std::vector<BatchPrediction> curve;
  for (int64_t batch = first; batch <= model.last_near(); batch += step) {
    curve.push_back(model.at(batch));
  }
  return curve;
}

std::string file_text(const std::string& title, const std::vector<Modelled>& all,
                      std::optional<int64_t> memory_bytes) {
  PredictionFile file{.title = title, .memory_bytes = memory_bytes, .variants = {}};
  for (const Modelled& one : all) {
    file.variants.push_back({one.variant->name, one.model.is_straight(), one.model.knee(),
                             one.model.points(), one.variant->held_out, curve_of(one.model),
                             one.variant->work});
  }
  return document_text(json::kPredictionDocument, json::tree_of(file));
}

constexpr std::string_view kDefinitions =
    "\nThe knee is the smallest batch with 95 % of the most images/s up to twice the largest "
    "measured batch. The time is a straight line in the batch where every measured size lies on it "
    "within 2 % or its interval, and straight between neighbouring sizes elsewhere. The peak is "
    "straight between measured sizes. Times are taken in turns: in two processes the smallest size "
    "under the first mode trains a few steps, another size twice as many, and the first again, so "
    "that other work on the machine meets both; the time is that of the first, times the median "
    "ratio. An interval is of 95 %, from those of the ratios, the distances from the line, and how "
    "the time bends between the sizes; it knows nothing of another day or machine. Extrapolated "
    "sizes lie outside of the measured ones.\n";

}  // namespace

PredictionPage predict(const std::string& title, const std::vector<PredictedVariant>& variants,
                       std::optional<int64_t> memory_bytes) {
  std::vector<Modelled> all;
  for (const PredictedVariant& variant : variants) {
    all.push_back({&variant, BatchModel(variant.points)});
  }
  PredictionPage page;
  page.text = finished_page(fmt::format("# Prediction of {}\n\n{}\n{}{}\n## Batch sizes\n\n{}{}{}",
                                        plain(title), headline(all),
                                        variants_table(all, memory_bytes), overtaking_lines(all),
                                        batches_table(all), owners_section(all), kDefinitions));
  page.json = file_text(title, all, memory_bytes);
  if (is_checked(all)) page.code = code_of(largest_errors(all));
  return page;
}

std::map<std::string, Strings> predicted_works(const std::string& json) {
  std::map<std::string, Strings> works;
  try {
    const nlohmann::json file = nlohmann::json::parse(json);
    for (const auto& variant : file.at("variants")) {
      works[variant.at("name").get<std::string>()] = variant.at("work").get<Strings>();
    }
  } catch (const nlohmann::json::exception&) {
    works.clear();
  }
  return works;
}

}  // namespace noisemark::reports
