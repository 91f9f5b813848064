#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// The metrics of a run: what each one is, from which fields of a result it comes and how it is
/// judged. A metric is one row of metric_table() beside the code that measures its fields;
/// comparisons, studies over seeds, histories, stored baselines, tables and metrics.md read the
/// rows.
namespace noisemark::reports {

/// The value of a metric in one run, or the reason why there is none.
struct MetricValue {
  std::optional<double> value = {};
  std::string missing_reason = {};
  std::string statistic = "exact";
  std::optional<Interval> ci95 = {};
  int64_t n = 1;  ///< samples behind the value
  std::string method = {};
};

/// The way in which `compare` judges a metric (reports/compare/compare.h).
enum class MetricRule {
  kDescribed,  ///< it has noise, stands in a table and judges nothing
  kGated,      ///< it has noise and may worsen by gate_margin_frac at most
  kEqual,      ///< it has no noise and must be equal
  kMayFall,    ///< it has no noise and may only fall
};

/// Says what moves a metric besides the code.
enum class MetricCause {
  kWork,     ///< nothing: the work decides it
  kMachine,  ///< the state of the machine: its clocks and what else runs on it
  kModel,    ///< the seed: it says how good the trained model is
};

/// The pass that measures a metric without noise. A run may leave it out.
enum class MetricPass { kMemory, kProfile };

/// The way in which a metric is judged over seeds.
struct StudyRule {
  double margin = 0;         ///< the default; 0: it has none and must be given
  int64_t fewest_seeds = 2;  ///< with fewer, nothing is claimed
  bool described = false;    ///< it is shown beside the gates, judged or not
  double (*spent)(const Evaluation&) =
      nullptr;  ///< seconds or images until an evaluation; nullptr: no metric of a target
};

/// A share of the time of a run's steps, as the table of utilization shows it.
struct TimeShare {
  std::string_view title;            ///< heading of its column
  std::string_view definition = {};  ///< is empty where another share's definition is its own too
};

/// The throughput: the metric that is gated, and beside whose column a table shows a ratio.
inline constexpr std::string_view kRateMetric = "images_per_s";
/// The metric of quality, which is gated too.
inline constexpr std::string_view kLossMetric = "val_loss";
/// The number of steps that loss scaling left out.
inline constexpr std::string_view kSkippedMetric = "skipped_steps";

struct MetricRow {
  std::string_view name;  ///< "images_per_s"; a "*" at one end stands for any text: "gpu_*"
  std::string_view unit = {};
  Direction direction = Direction::kNeutral;
  /// Derives the value from the other sections of a result; without a value the metric is not
  /// listed. nullptr: whoever measures it gives it.
  std::optional<MetricValue> (*of)(const Result&) = nullptr;
  MetricRule rule = MetricRule::kDescribed;
  double gate_margin_frac = 0;
  MetricCause cause = MetricCause::kWork;
  MetricPass pass = MetricPass::kMemory;
  bool may_be_zero = false;       ///< 0 is a usable baseline, and seeds are judged by differences
  bool followed = false;          ///< history plots it, and the page of a baseline shows it
  std::string_view section = {};  ///< section in a comparison: "Quality"; empty: none of its own
  std::string_view column = {};   ///< title in tables of several results; empty: it is not in them
  bool in_sweeps = false;         ///< the column is in a sweep's table too
  /// Its name where a sentence has it: in the line that a run prints at its end, and in what
  /// changed since BASE. Empty: it is in neither.
  std::string_view spoken = {};
  std::optional<TimeShare> share = std::nullopt;  ///< is empty where it is no such share
  std::optional<StudyRule> study = std::nullopt;  ///< is empty where a study judges it only when it
                                                  ///< is asked to
  std::string_view summary = {};
};

/// All metrics, in the order in which results list them.
[[nodiscard]] std::span<const MetricRow> metric_table();

/// The row of that name, else the first whose "*" fits it; nullptr: there is none.
[[nodiscard]] const MetricRow* find_metric_row(std::string_view name);

/// "16.84 images/s", "1.2 GiB": a value as a sentence has it behind MetricRow::spoken.
[[nodiscard]] std::string spoken_value(const MetricRow& row, double value);

/// The names of the metrics without noise.
[[nodiscard]] const std::set<std::string>& exact_metrics();
[[nodiscard]] bool is_exact(const MetricRow& row);

/// The metrics that `compare` gates by noise.
[[nodiscard]] const std::vector<MetricRow>& gated_metrics();

/// Returns whether histories and baselines always show the metric of that name.
[[nodiscard]] bool is_followed(std::string_view name);

/// A metric as a result lists it. Throws std::logic_error where the table has no such name.
[[nodiscard]] Metric metric_named(std::string_view name, MetricValue value);

/// Every metric that a gate, a table or a comparison may name, in the order of the table: derived
/// from the sections of `result`, or one of `given`, which no section holds. A metric that could
/// not be had is listed with its reason. Throws std::logic_error for one in `given` that no row
/// names.
[[nodiscard]] std::vector<Metric> derive_metrics(const Result& result,
                                                 const std::vector<Metric>& given = {});

/// Steps after the warm-up; empty when there are none.
[[nodiscard]] std::vector<double> steady_steps(const Result& result,
                                               const std::vector<double>& samples);

/// Images per second from the median of the steady steps, empty without any.
[[nodiscard]] std::optional<double> images_per_second(const Result& result);

/// `plain` / `under_mode`, both bytes of a step; empty where either is not known.
[[nodiscard]] std::optional<double> times_fewer(const std::optional<int64_t>& plain,
                                                int64_t under_mode);

/// The text of metrics.md, which documents the table.
[[nodiscard]] std::string metrics_markdown();

}  // namespace noisemark::reports
