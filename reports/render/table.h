#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/render/check.h"
#include "reports/result/metrics.h"
#include "reports/result/result.h"

/// Any results side by side, whatever they ran on. Descriptive: it never says which is better than
/// another, and it gates nothing.
namespace noisemark::reports {

struct NamedResult {
  std::string name;  ///< path of its folder or file, as the reader knows it
  Result result;
};

/// Returns what a table calls the definition of one of `results`: "gmm16@cpu", of a changed one
/// "gmm16@cpu (custom train.steps=60)". Where others of `results` have that name too and another
/// definition, twelve digits of its SHA-256 follow.
[[nodiscard]] std::string definition_name(const Identity& identity,
                                          const std::vector<NamedResult>& results);

/// Says whether a table ends with the verdict that each run came to.
enum class Verdicts { kLeftOut, kShown };

/// Says whether machine_sections() follow a table.
enum class Sections { kSideBySide, kAll };

/// One row per result, in the order given. The ratio is of images/s to the first row that ran the
/// same benchmark at the same scale. Settings that differ stand beside the figures, or in a table
/// of their own where they are many.
[[nodiscard]] std::string side_by_side(const std::vector<NamedResult>& results, Verdicts verdicts);

/// The same, without verdicts, for result.json files, their folders, and folders of such folders,
/// with the tables of memory modes and of convolutions' scratch memory where there are any, and,
/// where they are asked for, machine_sections(). In a folder of folders those of mode "none" come
/// first. Anything that cannot be read goes to `lost`, and stands below the table; without `lost`
/// it is thrown as Error (bad input).
[[nodiscard]] std::string table_markdown(const std::vector<std::string>& paths,
                                         std::vector<Finding>* lost = nullptr,
                                         Sections sections = Sections::kSideBySide);

inline constexpr const char* kNoResult = "it left no result";

/// A run of a suite that left no result.
struct MissingRun {
  std::string name;
  std::string not_run = {};  ///< reason why that is no failure: "cannot run here"; else it failed
  std::string failed = kNoResult;  ///< reason of the failure
};

/// report.md of several results of one command: verdict, side_by_side(), what failed, and for
/// several seeds of several variants where their quality is judged. Each name is the path of the
/// result's folder relative to the report.
///
/// The headline is the worst of the runs: FAIL; INCOMPLETE where one could not run here or did not
/// come to its end; CUSTOM where the gates of a definition did not apply; PASS when every run
/// passed.
[[nodiscard]] std::string render_suite_report(const std::string& title,
                                              const std::vector<NamedResult>& results,
                                              const std::vector<MissingRun>& missing);

/// Says whether a text is such a report, by its headings.
[[nodiscard]] bool is_suite_report(std::string_view text);

/// Renders it without the links to the runs' reports, for a reader who has not got them.
[[nodiscard]] std::string suite_summary(const std::string& title,
                                        const std::vector<NamedResult>& results,
                                        const std::vector<MissingRun>& missing);

/// The metric of that row in one result, as it is listed there or else follows from its sections:
/// «16.38 [16.21, 16.52]» of the rate, with «(not steady)» where it applies; bytes or a number of
/// others; kMissing without a value.
[[nodiscard]] std::string metric_cell(const Result& result, const MetricRow& row);

/// The verdict without its explanation: "CUSTOM".
[[nodiscard]] std::string verdict_cell(const Result& result);

/// One combination of the settings of a sweep.
struct SweepRow {
  std::string name;                 ///< name of its folder
  std::vector<std::string> values;  ///< one for each key of the sweep
  std::optional<Result> result;     ///< the result that it left
  std::optional<int> exit_code;     ///< is empty where it has not begun
  std::string words;                ///< reason why it left no result
  bool possible = true;             ///< is false where its values exclude each other, and no run
                                    ///< was made
};

/// One benchmark trained under every combination of some settings. Its table judges nothing.
struct Sweep {
  std::string title;  ///< the benchmark: "gmm16@cpu"
  std::vector<std::string> keys;
  std::vector<SweepRow> rows;
};

/// Counts the ends of the cells, shows a row for every cell, and repeats the words of those that
/// did not pass. Times are beside the first row's.
[[nodiscard]] std::string sweep_markdown(const Sweep& sweep);

// The scratch memory of convolutions on a GPU, and whether a limit that was set for it took
// effect.

enum class WorkspaceLimit {
  kNone,      ///< none was set
  kUnknown,   ///< set, and what convolutions took was not measured
  kKept,      ///< no convolution took more
  kExceeded,  ///< at least one did: it had no effect there
};

[[nodiscard]] WorkspaceLimit limit_of(const ConvolutionWorkspace& workspace);

/// "none", "not known", "kept to", "no effect".
[[nodiscard]] std::string limit_words(const ConvolutionWorkspace& workspace);

/// Limits and what convolutions took, beside what cuDNN was told of its algorithms; one row for
/// each result that has either. It is empty where none has.
[[nodiscard]] std::string workspace_table(const std::vector<NamedResult>& results);

/// Memory modes side by side, one row for each result that ran under one, and the rows of mode
/// "none" of the same benchmarks, in three tables that fit a page: peak and saved bytes, the most
/// that is saved, time and proof; and a fourth where runs looked for the largest batch that fits a
/// given memory. Each figure that a plan predicts stands beside what was measured.
/// Markdown, empty where no result ran under a mode.
[[nodiscard]] std::string mode_table(const std::vector<NamedResult>& results);

/// Returns how many times fewer bytes than "none" the mode could save at the most by making values
/// again alone. It is empty where that bound is not known.
[[nodiscard]] std::optional<double> most_times_fewer(const MemoryMode& mode);

/// The time that the plan was expected to add to a step, as a share of the median step of "none" in
/// the certificate pass; empty where there is no plan, or no such step was timed. Beside
/// Overhead::frac.
[[nodiscard]] std::optional<double> predicted_overhead_frac(const MemoryMode& mode);

/// Throughput and shares of the time in which the parts of GPU and processor worked, a row for each
/// result that came to a step, with why a figure is missing and the definitions beneath. It is
/// empty without a row.
[[nodiscard]] std::string utilization_table(const std::vector<NamedResult>& results);

/// The work of an image, the speed that was reached, and its share of the measured peak, a row for
/// each result whose profile was made. It is empty without a row.
[[nodiscard]] std::string arithmetic_table(const std::vector<NamedResult>& results);

/// The bytes at the peak of a step by owner, in MiB, and their sum, which is the measured peak or
/// says that it is not; a row for each result whose memory was measured. It is empty without a row.
[[nodiscard]] std::string memory_table(const std::vector<NamedResult>& results);

/// The three of them under their headings; those that are empty are left out.
[[nodiscard]] std::string machine_sections(const std::vector<NamedResult>& results);

}  // namespace noisemark::reports
