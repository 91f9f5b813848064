#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/result/result.h"

/// A study of several seeds under several modes, as a value. The unit of replication is the
/// training run: one seed gives one difference to the reference, however many samples or steps were
/// behind it.
namespace noisemark::reports {

/// The samples that a kernel distance looked at.
struct KernelOrigin {
  int64_t subsets = 0;
  int64_t subset_size = 0;
  std::string draws;             ///< "counter" or "numpy"; empty: nobody says
  std::optional<uint64_t> seed;  ///< seed of the draws; empty: nobody says

  bool operator==(const KernelOrigin&) const = default;
};

/// The facts that decide what a distance is: equal in all runs, or they are not comparable.
struct DistanceOrigin {
  std::string metric;     ///< "fid", "kid", "cifarnet_distance"
  std::string name;       ///< as its extractor calls it: "FID"
  std::string extractor;  ///< is empty for the values themselves
  std::string checksum;   ///< checksum of the extractor's weights
  std::string resize;
  bool resize_asserted = false;  ///< the user, not the maker, states one side's resize
  int64_t dimension = 0;
  int64_t samples = 0;
  std::optional<KernelOrigin> kernel = std::nullopt;  ///< is empty unless it is a kernel distance
  std::string definition;  ///< sampling's definition: "ho-cifar10@cpu 0123456789ab"; empty: unknown
  std::string sampler;     ///< "ddim, 50 steps, eta 0"
  std::string weights;     ///< "model" or "ema"
  std::string noise;       ///< "the run's seed", "seed 7", "a file 0123456789ab, seed 7"
  std::string precision;   ///< sampling's precision: "the run's", "bf16"; empty: nobody says
  std::string reference;
  std::optional<int64_t> reference_samples;  ///< is empty for a distribution itself, and where the
                                             ///< number is not known
  std::string reference_sha256;              ///< SHA-256 of the reference's moments; empty: unknown

  bool operator==(const DistanceOrigin&) const = default;
};

/// A distance of one run's samples.
struct DistanceValue {
  std::string benchmark;  ///< "gmm16-ho@cpu"
  std::string variant;    ///< "echo+dpr8-plain-fp32"
  uint64_t seed = 0;
  std::string metric;
  int64_t samples = 0;
  std::optional<double> value;
  std::optional<double> standard_error;
  std::optional<Interval> interval;  ///< interval over other samples of these weights
  std::string problem;               ///< why it counts as missing; empty: it does not
};

/// The verdicts by rising severity; the worst decides.
enum class QualityVerdict {
  kPass,            ///< proven to lie within the margin, or better by more than it
  kInconclusive,    ///< neither that nor the opposite is proven
  kBaselineNeeded,  ///< the reference has no run
  kNotComparable,   ///< other work or another machine, or no seed in common
  kFail,            ///< is proven to be worse by more than the margin, or training was not finite
};

/// "PASS", "INCONCLUSIVE", "BASELINE NEEDED", "NOT COMPARABLE", "FAIL".
[[nodiscard]] std::string_view verdict_name(QualityVerdict verdict);
[[nodiscard]] ExitCode exit_code_of(QualityVerdict verdict);

/// The way in which a difference of means is tested.
enum class TestDesign {
  kPaired,  ///< Student's t test of the differences within seeds
  kWelch,   ///< Welch's, of two samples whose seeds tell nothing about each other
};

/// "paired", "Welch".
[[nodiscard]] std::string_view design_name(TestDesign design);

/// The scale on which a variant differs from its reference.
enum class DifferenceScale {
  kLogRatio,    ///< log(variant / reference): 0.01 is about 1 %
  kDifference,  ///< variant - reference, for figures that may be zero or negative
};

/// A measure that is judged. Without a margin the definition's, else its default.
struct QualityGate {
  std::string measure;
  std::optional<double> margin;
};

/// A figure that must lie in a range, in every variant.
struct QualityRange {
  std::string measure;
  double low = 0;
  double high = 0;
};

/// The ids of the runs that were looked at together, sorted.
using RunIds = std::vector<std::string>;

/// Runs are judged so often by default: once, and once more with seeds added.
inline constexpr int64_t kDefaultLooks = 2;

/// Whoever judges some seeds, adds some because nothing was proven, and judges again gives chance a
/// second chance. So how often that may be done is declared before the first look, and every look
/// has its share of alpha. A look is at a set of runs: to judge the same runs again is the same
/// look, to judge more of them, or fewer, is another.
struct Looks {
  int64_t declared = kDefaultLooks;  ///< most looks, declared before the first one
  int64_t number = 1;                ///< number of this look; beyond `declared` nothing is claimed
  std::vector<RunIds> taken;         ///< this one too, where something was left to chance
};

/// One seed of a row.
struct SeedPair {
  uint64_t seed = 0;
  double reference = 0;
  double candidate = 0;
  double worsening = 0;  ///< in the row's scale, positive is worse
};

/// One measure of one variant beside its reference. Differences, intervals and margins are in the
/// row's scale and positive where the variant is worse.
struct QualityRow {
  std::string benchmark;                           ///< "gmm16-ho@cpu"
  std::string variant;                             ///< "echo+dpr8-plain-fp32"
  std::string reference;                           ///< "none-plain-fp32"
  std::string measure;                             ///< a metric of the result, or "loss"
  std::optional<int64_t> timestep = std::nullopt;  ///< the timestep, where the measure is a loss
  std::string unit;
  DifferenceScale scale = DifferenceScale::kLogRatio;
  bool gated = false;
  std::optional<double> margin;          ///< is empty unless the row is gated
  std::string margin_from;               ///< "definition", "default", "given"
  std::vector<SeedPair> seeds;           ///< seeds with a value on both sides, sorted
  std::optional<double> reference_mean;  ///< mean over seeds, which is geometric for log-ratios
  std::optional<double> candidate_mean;
  std::optional<double> correlation;  ///< correlation of both sides across seeds
  std::optional<TestDesign> design;   ///< is empty where nothing was tested
  std::optional<double> difference;
  std::optional<Interval> interval;       ///< confidence interval of level 1 - 2 alpha
  std::optional<double> degrees;          ///< the degrees of freedom
  std::optional<double> p;                ///< p of "it differs by the margin or more" (TOST)
  std::optional<double> p_adjusted;       ///< p that Holm adjusted among the tested rows
  std::optional<double> detectable;       ///< smallest true difference that these seeds would show
  std::optional<int64_t> seeds_needed;    ///< number of seeds that decides, with those that there
                                          ///< are; of an inconclusive row
  std::optional<QualityVerdict> verdict;  ///< is empty unless the row is gated
  std::string words;

  [[nodiscard]] bool is_ratio() const { return scale == DifferenceScale::kLogRatio; }
};

/// The knowledge about every step of a mode: that it changes no bit, or how far it moves a
/// gradient.
struct StepRow {
  int tier = 0;  ///< 0: bits, of a lossless mode; 1: the gradient's error, of a lossy one
  std::string benchmark;
  std::string variant;
  std::string reference;
  int64_t seeds = 0;                      ///< seeds proven equal (tier 0) or measured (tier 1)
  std::optional<double> value;            ///< largest relative error of the gradient, of tier 1
  std::optional<double> bound;            ///< the largest that is allowed
  std::optional<QualityVerdict> verdict;  ///< is empty where it was not judged
  std::string words;
};

/// A figure that must lie in a range, over the seeds of one variant.
struct RangeRow {
  std::string benchmark;
  std::string variant;
  std::string measure;
  std::string unit;
  double low = 0;
  double high = 0;
  int64_t seeds = 0;
  std::optional<double> mean;
  std::optional<Interval> interval;
  QualityVerdict verdict = QualityVerdict::kPass;
  std::string words;
};

/// A remark of a variant; a page says what it means.
inline constexpr const char* kUnofficialRemark = "data: unofficial";

/// A variant, or its reference, and the runs behind it.
struct VariantRuns {
  std::string benchmark;
  std::string variant;
  std::vector<uint64_t> seeds;
  std::vector<std::string> run_ids;  ///< ids in the order of the seeds
  std::vector<std::string> commits;  ///< sorted, without repetition; "+" behind: with changes
  /// Reasons why it is not the locked work, likewise: "custom definition: train.steps=60", "data:
  /// unofficial".
  std::vector<std::string> remarks;
  std::string repeat_command;  ///< command that repeats the first seed's run
};

/// A field in which runs of one seed differ. Its keys are others than those of a comparison.
struct SeedDifference : FieldDifference {};

struct QualityStudy {
  QualityVerdict verdict = QualityVerdict::kPass;
  int exit_code = 0;                 ///< exit_code_of(), in a study's file alone
  std::vector<std::string> reasons;  ///< one per finding that is no pass, and warnings
  std::vector<VariantRuns> variants;
  std::vector<QualityRow> rows;  ///< gated ones first, then the others, timesteps last
  std::vector<RangeRow> ranges;
  std::vector<StepRow> steps;                  ///< tiers 0 and 1
  std::vector<DistanceOrigin> distances;       ///< one of each metric, more where they differ
  std::vector<DistanceValue> distance_values;  ///< distances of every run
  std::vector<std::string> sheets;             ///< images of samples, as the page links to them
  std::vector<SeedDifference> differences;     ///< differences of runs that are not comparable
  std::vector<std::string> unpaired;           ///< seeds that one side lacks
  std::vector<std::string> without_result;     ///< runs that were planned or begun and left none
  std::vector<std::string> notes;
  bool inconclusive_passes = false;  ///< --inconclusive=warn
  std::vector<QualityGate> asked_gates;
  std::vector<QualityRange> asked_ranges;
  Looks looks;
  double alpha = 0;  ///< the chance of a wrong verdict in all looks together
  double power = 0;
  int64_t tests = 0;  ///< the number of tests that share the alpha of this look's gates
  int64_t resamples = 0;
  uint64_t seed = 0;
};

/// Returns the exit code of a process that judged.
[[nodiscard]] ExitCode exit_code_of(const QualityStudy& study);

/// quality.json, whose fields study_fields.h describes. Doubles read back bit for bit.
[[nodiscard]] std::string quality_json(const QualityStudy& study);

/// Reads it. Throws Error (bad input), which begins with `where`: not JSON, a key that is unknown
/// or missing, a wrong type, another version, a file that was changed or that lost its looks.
[[nodiscard]] QualityStudy quality_from_json(std::string_view text, const std::string& where);

// Differences of a row's scale as text for people.

/// "+0.314 %" of a log-ratio, "+0.000123" of a difference.
[[nodiscard]] std::string difference_text(const QualityRow& row, double difference);
/// Returns it without a sign, for what is said to be better or worse.
[[nodiscard]] std::string size_text(const QualityRow& row, double difference);
/// "-0.210 % to +0.838 %"
[[nodiscard]] std::string interval_text(const QualityRow& row, const Interval& interval);
/// "1 %" or "0.001"
[[nodiscard]] std::string margin_text(const QualityRow& row);
/// "val_loss", "loss at t 62"
[[nodiscard]] std::string measure_text(const QualityRow& row);

/// quality.md: the verdict and its reasons, the gates with their intervals, what the seeds could
/// show, other figures, every timestep, every seed, the runs. A pure function, byte for byte; it
/// names no path, so that a folder can be moved.
[[nodiscard]] std::string quality_markdown(const QualityStudy& study);

/// One line for a terminal: "quality: INCONCLUSIVE: 2 PASS, 1 INCONCLUSIVE".
[[nodiscard]] std::string quality_line(const QualityStudy& study);

/// Equal shares (Bonferroni), as `ab` has: a wrong verdict in any look is then at most as likely as
/// alpha says, however many seeds were added and whatever made one add them. Pocock's or O'Brien
/// and Fleming's shares are larger by little, and hold only for a number of seeds that is planned.
/// Throws std::logic_error for fewer than one look.
[[nodiscard]] double alpha_of_a_look(double alpha, int64_t declared);

/// Returns what the gates of one look share among them, and likewise its ranges: all that the look
/// has, and half of it where both are asked for. Throws as alpha_of_a_look() does.
[[nodiscard]] double alpha_of_a_family(double alpha, int64_t declared,
                                       const std::vector<QualityGate>& gates,
                                       const std::vector<QualityRange>& ranges);

/// The ids of a side's runs, sorted.
[[nodiscard]] RunIds run_ids_of(const Side& side);

/// Returns whether two looks are at runs of one study.
[[nodiscard]] bool share_a_run(const RunIds& a, const RunIds& b);

/// A look at these runs after `earlier` ones, of which those of another study, of runs that are all
/// others, count nothing. It has the number that the same runs had, else the next one.
[[nodiscard]] Looks next_look(const RunIds& runs, int64_t declared,
                              const std::vector<RunIds>& earlier);

/// Returns whether the declared looks are taken, so that this one may claim nothing.
[[nodiscard]] bool none_is_left(const Looks& looks);

/// Counts a look at these runs, unless it was counted or none is left.
void count_look(const RunIds& runs, Looks& looks);

/// Returns the words that then stand in place of a claim.
[[nodiscard]] std::string no_look_words(const Looks& looks);

/// Returns whether a look was counted that is none of `earlier`: if nobody keeps it, it is
/// forgotten.
[[nodiscard]] bool is_new_look(const Looks& looks, const std::vector<RunIds>& earlier);

}  // namespace noisemark::reports
