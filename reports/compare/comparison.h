#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/result/result.h"

/// The outcome of comparing two sets of results, as a value. A cell is what one row of a benchmark
/// table would be: a benchmark at one scale under one mode, baseline, precision, kind of device and
/// framework. Several runs of a cell are its repetitions.
namespace noisemark::reports {

/// The verdicts by rising severity; the worst decides.
enum class CompareVerdict {
  kEquivalent,         ///< exactly equal, or proven to lie within the margin
  kImproved,           ///< proven better; never fails
  kNotWorse,           ///< proven not to be worse by more than the margin
  kSkipped,            ///< cannot run here on either side; decides only where nothing else ran
  kInconclusive,       ///< neither a regression nor its absence is proven
  kUnstable,           ///< most runs never became steady, so their times say nothing
  kCalibrationNeeded,  ///< no usable baseline, or more noise than a gate can bear
  kTooFewPairs,        ///< is refused: so few could never reach alpha
  kRecipeMismatch,     ///< a changed definition under the same version
  kNotComparable,      ///< other work, another machine, or another clock
  kInvalidClocks,      ///< the device slowed itself down, so times say nothing about the code
  kIncomplete,         ///< NEW left no result, or no longer measures a figure
  kQualityFail,        ///< has trained a worse model
  kRegression,
};

/// The names of verdicts, in files and for people.
template <>
inline constexpr std::array json::kNames<CompareVerdict>{
    std::pair{CompareVerdict::kEquivalent, std::string_view{"equivalent"}},
    std::pair{CompareVerdict::kImproved, std::string_view{"improved"}},
    std::pair{CompareVerdict::kNotWorse, std::string_view{"not worse"}},
    std::pair{CompareVerdict::kSkipped, std::string_view{"skipped"}},
    std::pair{CompareVerdict::kInconclusive, std::string_view{"inconclusive"}},
    std::pair{CompareVerdict::kUnstable, std::string_view{"unstable"}},
    std::pair{CompareVerdict::kCalibrationNeeded, std::string_view{"calibration needed"}},
    std::pair{CompareVerdict::kTooFewPairs, std::string_view{"too few pairs"}},
    std::pair{CompareVerdict::kRecipeMismatch, std::string_view{"recipe mismatch"}},
    std::pair{CompareVerdict::kNotComparable, std::string_view{"not comparable"}},
    std::pair{CompareVerdict::kInvalidClocks, std::string_view{"invalid clocks"}},
    std::pair{CompareVerdict::kIncomplete, std::string_view{"incomplete"}},
    std::pair{CompareVerdict::kQualityFail, std::string_view{"QUALITY FAIL"}},
    std::pair{CompareVerdict::kRegression, std::string_view{"REGRESSION"}}};

[[nodiscard]] std::string_view verdict_name(CompareVerdict verdict);
/// The verdict in a table.
[[nodiscard]] std::string verdict_cell(CompareVerdict verdict);
[[nodiscard]] ExitCode exit_code_of(CompareVerdict verdict);
[[nodiscard]] bool passes(CompareVerdict verdict);

/// Says whether a comparison that proves nothing fails: --inconclusive.
enum class Inconclusive { kFails, kWarns };

/// verdict_name(), and in words how it was let pass where it was: "inconclusive, let pass by
/// --inconclusive=warn".
[[nodiscard]] std::string verdict_words(CompareVerdict verdict, Inconclusive inconclusive);

/// A field of the identity in which the two sides, or the runs of one, differ.
struct FieldDifference {
  std::string cell;
  std::string field;  ///< "identity.threads", "identity.software.libtorch"
  std::string base;
  std::string candidate;
};

/// The figure without noise that compares the digests of all losses.
inline constexpr const char* kLossTrace = "loss trace";

/// A figure without noise, or a digest.
struct ExactRow {
  std::string cell;
  std::string metric;
  std::string unit;
  std::optional<double> base;  ///< is empty for a digest and where it is missing
  std::optional<double> candidate;
  std::string base_digest;
  std::string candidate_digest;
  CompareVerdict verdict = CompareVerdict::kEquivalent;
  std::string words;  ///< why, when it is not equal

  /// Bytes of one owner at one moment ("peak: weights"), of which there are many.
  [[nodiscard]] bool by_owner() const { return metric.find(": ") != std::string::npos; }
};

/// A figure with noise, from pairs of runs.
struct StochasticRow {
  std::string cell;
  std::string metric;
  std::string unit;
  Direction direction = Direction::kNeutral;
  bool gated = false;
  int64_t pairs = 0;
  std::optional<double> base;       ///< median over the paired runs
  std::optional<double> candidate;  ///< median over the paired runs
  std::optional<double> ratio;      ///< candidate / base: Hodges-Lehmann over the pairs
  std::optional<Interval> ratio_ci95;
  std::optional<double> p;                ///< one-sided, of "not worse", when gated; else two-sided
  std::optional<double> p_adjusted;       ///< Holm among the gated rows, else Benjamini-Hochberg
  double margin_frac = 0;                 ///< margin in force
  double noise_floor_frac = 0;            ///< floor that was calibrated; 0: none was
  double session_deviation = 0;           ///< deviation of logarithms (evidence.h) that was
                                          ///< calibrated; 0: none was
  bool stored = false;                    ///< the runs were not made in turns, which is weaker
                                          ///< evidence (evidence.h)
  bool conflict = false;                  ///< units or directions differ: judged though not gated
  std::optional<double> detectable_frac;  ///< smallest difference that these pairs would show
  std::optional<int64_t> pairs_needed;    ///< number that proves it either way
  CompareVerdict verdict = CompareVerdict::kEquivalent;  ///< means nothing unless judged()
  std::string words;

  [[nodiscard]] bool judged() const { return gated || conflict; }
};

struct SideSummary {
  std::string name;  ///< name as the user spelled it
  int64_t runs = 0;
  std::vector<std::string> commits;  ///< sorted, without repetition; "+" behind: with changes
  std::vector<std::string> repeat_commands = {};  ///< commands that repeat the runs; sorted, unique
  std::string baseline_root = {};      ///< folder that keeps its runs as a baseline; empty: none
  std::string baseline_hardware = {};  ///< the folder below that names their machine
  std::string latest_utc = {};         ///< time of the newest run, in RFC 3339; empty: not known
};

/// Fewer runs of a cell make no baseline: they say nothing of how much runs differ.
inline constexpr int64_t kFewestBaselineRuns = 3;

struct Comparison {
  SideSummary base;
  SideSummary candidate;
  int64_t cells = 0;  ///< number of cells that both sides have
  std::vector<FieldDifference> differences;
  std::vector<FieldDifference> environment;  ///< environment_differences()
  std::vector<std::string> only_base;        ///< cells
  std::vector<std::string> only_candidate;   ///< cells
  std::vector<std::string> unpaired;         ///< runs without a partner
  std::vector<std::string> without_result;   ///< runs that were begun or planned and left none
  std::vector<ExactRow> exact;
  std::vector<StochasticRow> stochastic;  ///< gated ones first
  std::vector<std::string> notes;         ///< remarks about the runs, for a reader
  std::vector<std::string> reasons;       ///< one sentence per finding that is not a pass
  CompareVerdict verdict = CompareVerdict::kEquivalent;
  Inconclusive inconclusive = Inconclusive::kFails;
  bool noise_left_out = false;  ///< figures without noise alone were asked for
  double alpha = 0;
  int64_t resamples = 0;
  uint64_t seed = 0;

  /// Returns whether a gate was judged by runs that were not made in turns.
  [[nodiscard]] bool any_stored() const;
  /// Takes in a finding: the worst decides, and `reason` stands for one that is not a pass.
  void find(CompareVerdict found, const std::string& reason);
};

/// Returns the exit code of a comparison: its verdict's, or 0 where it was let pass.
[[nodiscard]] ExitCode exit_code_of(const Comparison& comparison);

/// "inconclusive, let pass by --inconclusive=warn" where that is why the code is 0; else empty.
[[nodiscard]] std::string let_pass(const Comparison& comparison);

/// "The exit code is 4", and why where it was let pass: "The exit code is 0: inconclusive, let pass
/// by ...".
[[nodiscard]] std::string exit_words(const Comparison& comparison);

/// comparison.json (comparison_fields.h). Doubles read back bit for bit.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

/// GitHub refuses a comment of more characters.
inline constexpr size_t kCommentLimit = 65536;

/// The invisible mark by which a script finds the comment that it made.
inline constexpr std::string_view kComparisonMark = "<!-- noisemark comparison -->";

/// A comparison for people, fit for a pull request's comment: the verdict and its reasons, whether
/// the sides are comparable, the gates, what has no noise, who owns the memory, utilization,
/// quality, the noise, what to do next; everything else folded away, or left out where the text
/// would be longer than `limit` bytes. It ends with kComparisonMark. A pure function, byte for
/// byte.
[[nodiscard]] std::string comparison_markdown(const Comparison& comparison,
                                              size_t limit = kCommentLimit);

/// Says what to do after a comparison, one sentence per line: how many more runs decide it, what to
/// mend, or, where it passes and NEW beats a stored baseline beyond the margin, the command
/// that makes NEW the baseline.
[[nodiscard]] std::string next_step(const Comparison& comparison);

}  // namespace noisemark::reports
