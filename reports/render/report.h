#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/render/check.h"
#include "reports/render/plot.h"
#include "reports/result/result.h"

namespace noisemark::reports {

/// Sentences of a report that its result alone cannot say: `noisemark report` finds them in what
/// other commands left, and notes them in insight.json beside the result.
struct Insight {
  std::string limit;  ///< limit of the speed, by a profile (reports/profile/limit.h)
  std::string since;  ///< changes since BASE (since_words() of reports/compare)
};

inline constexpr const char* kInsightFile = "insight.json";

/// Returns the notes in `folder` about the result.json of this digest, empty where there are none.
/// Throws Error (bad input) for a file that is none of ours, or was changed. One that cannot be
/// read goes to `unread`, as in read_addition().
[[nodiscard]] Insight read_insight(const std::filesystem::path& folder,
                                   const std::string& result_sha256,
                                   std::vector<Finding>* unread = nullptr);

/// Returns the text of a file beside a result that its report can do without; empty where it is not
/// there. One that cannot be read goes to `unread` with the exit code 0: the report is whole
/// without it. Without `unread` it is thrown.
[[nodiscard]] std::optional<std::string> read_addition(const std::filesystem::path& file,
                                                       std::vector<Finding>* unread);

/// Notes it, or removes the file where there is nothing to note. Throws Error (cannot write).
void write_insight(const std::filesystem::path& folder, const std::string& result_sha256,
                   const Insight& insight);

/// report.md of one result: the verdict first, what changes from run to run last. A pure function,
/// byte for byte. `result_sha256` is of the bytes of result.json; it and the run id stand in the
/// first line (Mark) and at the end. The first screen has what a person must know, and the rest is
/// folded.
[[nodiscard]] std::string render_report(const Result& result, const std::string& result_sha256,
                                        const Plots& plots, const Insight& insight = {});

/// The command line by which `noisemark COMMAND` does the work of the run, with DATA for the folder
/// of its images: "noisemark sweep gmm16@cpu --axis baseline=plain,fused --device cpu". `compared`
/// are baselines that stand in the place of the run's own. It is empty where a command line cannot
/// name the work.
[[nodiscard]] std::string command_of_work(std::string_view command, const Result& result,
                                          const std::string& compared = "");

/// "PASS", "FAIL", "CUSTOM (no gate of the definition applies)", "INTERRUPTED" ...
[[nodiscard]] std::string verdict_words(const Result& result);

/// "PASS", "**FAIL**", "**UNAVAILABLE**", "not applied": the verdict of a gate or a certificate.
[[nodiscard]] const char* verdict_mark(Verdict verdict);

/// "ho-cifar10@cpu"
[[nodiscard]] std::string benchmark_name(const Identity& identity);

/// "custom train.steps=60": what a changed definition sets otherwise, and "custom" where that is
/// not known by key. It is empty for a locked one.
[[nodiscard]] std::string custom_words(const Identity& identity);

/// Says why no profile can be of the run's steps; empty where one can.
[[nodiscard]] std::string why_no_profile(const Result& result);

/// Returns one sentence on where a report.md first departs from what its result renders to; empty
/// when it does not. Only what the machine that rendered it decides is free: whether a plot is
/// there, or gnuplot's reason why not. `result_sha256` is of the bytes of result.json; `insight` is
/// what was noted beside it.
[[nodiscard]] std::string report_difference(std::string_view text, const Result& result,
                                            const std::string& result_sha256,
                                            const Insight& insight = {});

/// Compares the report of a suite likewise with what it should be, `rendered`.
[[nodiscard]] std::string text_difference(std::string_view text, std::string_view rendered);

/// Ties a report to the result that it was rendered from.
struct Mark {
  std::string run_id;
  std::string result_sha256;  ///< digest of the bytes of result.json
};

/// The comment with which report.md begins: one line, invisible once rendered.
[[nodiscard]] std::string mark_line(const Mark& mark);

/// The mark of a report's text; empty when it has none or a malformed one.
[[nodiscard]] std::optional<Mark> read_mark(std::string_view text);

}  // namespace noisemark::reports
