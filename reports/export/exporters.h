#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/render/run_folder.h"
#include "reports/render/table.h"
#include "reports/result/result.h"

namespace noisemark::reports {

// The figures of results, one by one, for programs that follow figures over time.

struct Figure {
  std::string cell;  ///< name that cell_name() gives
  std::string metric;
  std::string unit;
  Direction direction = Direction::kNeutral;
  double value = 0;
  std::optional<Interval> interval;  ///< see figures_of()
  std::string note;                  ///< text for people: runs, commits or the verdict
};

/// Every metric that has a value, by cell and then in the order in which runs name them. Of several
/// runs of a cell the value is their median, and the interval reaches from the least to the
/// greatest; of a single run it is that run's own 95 % interval. Throws Error (bad input) when runs
/// of a cell give a metric in two units or with two directions.
[[nodiscard]] std::vector<Figure> figures_of(const std::vector<NamedResult>& results);

/// The figures of NEW, and of each figure with noise its ratio to BASE (METRIC_ratio) with the 95 %
/// interval. Bytes by owner are left out: comparison.json has them. A figure that NEW has not got
/// cannot be written as a number, so each cell counts them: `figures_lost` (lower is better; its
/// note names them) are those of BASE that NEW no longer measures, `figures_measured` (higher is
/// better) those of BASE that it does. Of a cell that NEW lacks nothing is measured.
[[nodiscard]] std::vector<Figure> figures_of(const Comparison& comparison);

/// Bencher Metric Format: a cell is a benchmark, a metric is a measure with `value` and, where
/// there is an interval, `lower_value` and `upper_value`. Units and directions have no place in it;
/// they belong to the measure, which Bencher keeps.
[[nodiscard]] std::string bencher_json(const std::vector<Figure>& figures);

/// The form that github-action-benchmark reads with `tool: customSmallerIsBetter` (kLower) or
/// `customBiggerIsBetter` (kHigher): an array of name, unit, value and, where there is one, range;
/// `extra` is for its tooltips. The tool has one direction per file, so figures of the other one
/// are left out, and those of none are in neither. Throws std::logic_error for kNeutral.
[[nodiscard]] std::string github_benchmark_json(const std::vector<Figure>& figures,
                                                Direction direction);

/// One line per figure, `<CTestMeasurement type="numeric/double" name="...">value<...>`: ctest
/// takes them out of a test's standard output into its Test.xml, and so to CDash. ctest looks for
/// the closing quote and bracket without knowing escapes, so what is not a letter, a digit or one
/// of ` _.,:@+=-` is written as `_`.
[[nodiscard]] std::string ctest_lines(const std::vector<Figure>& figures);

/// The words by which a text is known again as one that the program wrote.
struct TextForm {
  std::string_view begins;
  std::string_view holds = {};
  [[nodiscard]] bool is_of(std::string_view text) const;
};

/// A format in which results, comparisons or both are handed to others.
struct ExportFormat {
  std::string_view name;                                       ///< value that --format takes
  std::string_view summary;                                    ///< a noun phrase, for the help
  std::string (*of_results)(const CollectedResults& results);  ///< is null for a format of
                                                               ///< comparisons alone
  std::string (*of_comparison)(const Comparison& comparison);  ///< is null for a format of results
                                                               ///< alone
  TextForm results_form;  ///< has what is in every such text, and not in those of others
  TextForm comparison_form;
};

/// The table of all formats. A new one is a row here and the function that writes it: the options
/// of the command line, their help, their refusals and what --out may replace follow from it.
[[nodiscard]] std::span<const ExportFormat> export_formats();

/// Returns whether the text is one of these of results, or of a comparison, by its form. Such a one
/// the command line replaces without --force.
[[nodiscard]] bool is_export(std::string_view text, bool of_comparison);

/// Returns the row of that name. Throws std::logic_error where there is none.
[[nodiscard]] const ExportFormat& export_format(std::string_view name);

/// Results as the text of a pull request's comment: verdict, runs side by side, who owns the bytes
/// at the peak, utilization, quality; what else is known of each run folded away. Where that is
/// more than `limit` bytes, details are left out, and said to be.
[[nodiscard]] std::string summary_markdown(const CollectedResults& results,
                                           size_t limit = kCommentLimit);

}  // namespace noisemark::reports
