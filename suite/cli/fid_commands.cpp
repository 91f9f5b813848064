#include "suite/cli/commands.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <boost/math/distributions/chi_squared.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/json_writer.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/result/result.h"
#include "reports/seeds/distance_file.h"
#include "reports/seeds/gates.h"
#include "suite/cli/arguments.h"
#include "suite/environment/environment.h"
#include "suite/environment/processor.h"
#include "suite/io/tensors.h"
#include "suite/quality/distance/draws.h"
#include "suite/quality/distance/measures.h"
#include "suite/quality/feature_set.h"
#include "suite/quality/set_distance.h"
#include "suite/run/passes/watch.h"
#include "suite/sampling/folder.h"

namespace noisemark::suite {
namespace {

using reports::DistanceFile;
using reports::format_count;
using reports::format_number;

constexpr uint32_t kTorchFidelitySeed = 2020;
constexpr int64_t kScoreSplits = 10;  // torch-fidelity's
constexpr int64_t kReplicates = 100;  // stands behind a gate
// Fewer have no share of a twentieth at either end.
constexpr int64_t kFewestReplicates = 20;
constexpr double kConfidence = 0.9;  // 1 - 2 alpha, as between seeds

/// --min and --max of `noisemark fid`, and what was found.
struct FidGate {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  reports::RangeVerdict verdict;
};

/// Everything that `noisemark fid` says about two sets.
struct FidOutcome {
  FeatureSet evaluated;
  FeatureSet reference;
  std::optional<SamplingOrigin> evaluated_origin;
  std::optional<SamplingOrigin> reference_origin;
  SetDistanceOptions options;
  std::string draws;      ///< draws of the kernel distance: "counter" or "numpy"
  int64_t draw_seed = 0;  ///< seed of these draws
  SetDistance distance;
  double confidence = 0;  ///< level of the interval
  std::optional<reports::Interval>
      interval;                         ///< interval of the Fréchet distance of so many samples
  std::optional<InceptionScore> score;  ///< score of the evaluated set
  std::optional<FidGate> gate;
};

/// N as people read it: "exact", "not known" or a number.
std::string count_of(const FeatureSet& set) {
  if (set.exact) return "exact";
  return set.samples == 0 ? "not known" : format_count(set.samples);
}

/// Says why this distance decides no gate; empty: it may.
std::string why_no_gate(const FeatureSet& set, const FeatureSet& other) {
  const std::string why = why_no_gate(set);
  return why.empty() && !set.extractor ? why_not_alike(set, other) : why;
}

bool is_fid(const FidOutcome& outcome) {
  return outcome.distance.name == "FID";
}

std::string interval_text(const reports::Interval& interval) {
  return fmt::format("{} to {}", format_number(interval.low), format_number(interval.high));
}

std::string kernel_text(const KernelDistance& kernel) {
  const std::string error = kernel.standard_error
                                ? fmt::format(" ± {}", format_number(*kernel.standard_error))
                                : ", its error unknown";
  return format_number(kernel.mean) + error;
}

/// The score has its name from the same weights as FID.
std::string score_name(const FidOutcome& outcome) {
  const auto& extractor = outcome.evaluated.extractor;
  const bool official = extractor && extractor->distance == "FID";
  return official ? "Inception score" : "class score of other weights, no Inception score";
}

double degrees_of(const MixtureDistance& mixture) {
  return static_cast<double>(mixture.component_share_frac.size()) - 1;
}

/// The probability that perfect samples have shares at least as far off.
double p_of_shares(const MixtureDistance& mixture) {
  const boost::math::chi_squared distribution(degrees_of(mixture));
  return boost::math::cdf(boost::math::complement(distribution, mixture.component_chi_square));
}

/// Rows of a value and what it was taken of.
class Table {
 public:
  explicit Table(const FidOutcome& outcome)
      : n_a_(count_of(outcome.evaluated)),
        n_b_(count_of(outcome.reference)),
        d_(format_count(outcome.evaluated.dimension)) {}

  void row(const std::string& figure, const std::string& value) {
    table_.add_row({figure, value, n_a_, n_b_, d_});
  }
  /// Adds a figure that is of the first set alone.
  void row_of_a(const std::string& figure, const std::string& value) {
    table_.add_row({figure, value, n_a_, "", d_});
  }
  [[nodiscard]] std::string text() const { return table_.text(); }

 private:
  static constexpr auto kRight = reports::Align::kRight;

  std::string n_a_;
  std::string n_b_;
  std::string d_;
  reports::MarkdownTable table_{
      {{"figure"}, {"value", kRight}, {"N of A", kRight}, {"N of B", kRight}, {"d", kRight}}};
};

void add_mixture(const MixtureDistance& mixture, Table& table) {
  table.row("the same of as many perfect samples, mean of 5 sets",
            format_number(mixture.floor_mean));
  table.row("largest of them", format_number(mixture.floor_largest));
  table.row(fmt::format("chi-square of the components' shares, {:g} degrees of freedom",
                        degrees_of(mixture)),
            fmt::format("{} (p = {:.3g})", format_number(mixture.component_chi_square),
                        p_of_shares(mixture)));
}

std::string table_of(const FidOutcome& outcome) {
  const SetDistance& distance = outcome.distance;
  Table table(outcome);
  table.row(distance.name, format_number(distance.frechet.value));
  if (outcome.interval) {
    table.row(fmt::format("its {:g} % interval, A drawn again {} times", 100 * outcome.confidence,
                          distance.replicates.size()),
              interval_text(*outcome.interval));
  }
  if (distance.kernel) {
    table.row(fmt::format("{}, {} subsets of {}", is_fid(outcome) ? "KID" : "kernel distance",
                          distance.kernel->subsets, distance.kernel->subset_size),
              kernel_text(*distance.kernel));
  }
  if (distance.precision_recall) {
    table.row("precision", format_number(distance.precision_recall->precision_frac));
    table.row("recall", format_number(distance.precision_recall->recall_frac));
  }
  if (outcome.score) {
    table.row_of_a(
        score_name(outcome),
        fmt::format("{} ± {} over {} splits", format_number(outcome.score->mean),
                    format_number(outcome.score->standard_deviation), outcome.score->splits));
  }
  if (distance.mixture) add_mixture(*distance.mixture, table);
  return table.text();
}

std::string extractor_words(const FeatureSet& set) {
  if (set.exact) return "the distribution itself";
  if (!set.extractor) return "extractor not known";
  const ExtractorInfo& info = *set.extractor;
  const std::string words = fmt::format("extractor {} ({}), resize {}", info.name,
                                        reports::shown_digits(info.checksum), info.resize);
  return set.extractor_asserted ? words + ", as --resize says" : words + ", " + info.provenance;
}

std::string set_line(const char* letter, const FeatureSet& set,
                     const std::optional<SamplingOrigin>& origin) {
  return fmt::format("- {}: {}, {}{}\n", letter, set.name, extractor_words(set),
                     origin ? "; drawn by " + origin->words : "");
}

std::string bounds_text(const FidGate& gate) {
  const bool low = std::isfinite(gate.low);
  const bool high = std::isfinite(gate.high);
  if (low && high) {
    return fmt::format("from {} to {}", format_number(gate.low), format_number(gate.high));
  }
  return high ? "at most " + format_number(gate.high) : "at least " + format_number(gate.low);
}

std::string gate_line(const FidOutcome& outcome) {
  const std::string judged = outcome.interval ? "interval" : "value alone";
  return fmt::format("- gate: {}, judged by the {}: {} ({})\n", bounds_text(*outcome.gate), judged,
                     reports::verdict_name(outcome.gate->verdict.verdict),
                     outcome.gate->verdict.words);
}

/// Hashes mean and covariance, so that a stale reference can be told; empty where only features are
/// held.
std::optional<std::string> moments_sha256(const FeatureSet& set) {
  if (!set.gaussian) return {};
  reports::Sha256 sha256;
  for (const at::Tensor& part : {set.gaussian->mean, set.gaussian->covariance}) {
    sha256.update(bytes_of(row_major_on_cpu(part)));
  }
  return sha256.hex();
}

DistanceFile::Set set_of(const FeatureSet& set, const FeatureSet& other,
                         const std::optional<SamplingOrigin>& origin) {
  const std::string why = why_no_gate(set, other);
  DistanceFile::Set file;
  file.name = set.name;
  if (set.samples != 0) file.n = set.samples;
  file.exact = set.exact;
  file.extractor = set.extractor;
  file.extractor_asserted = set.extractor_asserted;
  file.moments_sha256 = moments_sha256(set);
  if (origin) file.drawn = origin->drawn;
  file.gateable = why.empty();
  if (!why.empty()) file.why_no_gate = why;
  return file;
}

DistanceFile::Kernel kernel_of(const FidOutcome& outcome) {
  const KernelDistance& kernel = *outcome.distance.kernel;
  return {kernel.mean,
          kernel.standard_deviation,
          kernel.standard_error,
          kernel.subsets,
          kernel.subset_size,
          outcome.draws,
          static_cast<uint64_t>(outcome.draw_seed)};
}

DistanceFile::Gate judged(const FidGate& gate) {
  const auto bound = [](double value) {
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  return {bound(gate.low), bound(gate.high), gate.verdict.verdict == reports::QualityVerdict::kPass,
          gate.verdict.verdict, gate.verdict.words};
}

void add_parts(const FidOutcome& outcome, DistanceFile& file) {
  const SetDistance& distance = outcome.distance;
  if (const auto& interval = outcome.interval) {
    const ResamplingOptions& drawn = outcome.options.resampling;
    file.bootstrap = {drawn.replicates,   drawn.seed,    "a",
                      outcome.confidence, interval->low, interval->high};
  }
  if (distance.kernel) file.kernel = kernel_of(outcome);
  if (const auto& found = distance.precision_recall) {
    file.precision_frac = found->precision_frac;
    file.recall_frac = found->recall_frac;
    file.neighbours = found->neighbours;
  }
  if (const auto& score = outcome.score) {
    file.inception_score = {score_name(outcome), score->mean, score->standard_deviation,
                            score->splits};
  }
  if (const auto& mixture = distance.mixture) {
    file.mixture = {mixture->floor_mean,           mixture->floor_largest,
                    mixture->component_share_frac, mixture->component_chi_square,
                    degrees_of(*mixture),          p_of_shares(*mixture)};
  }
  if (outcome.gate) file.gate = judged(*outcome.gate);
}

std::string fid_text(const FidOutcome& outcome) {
  std::string text = table_of(outcome) + "\n";
  text += set_line("A", outcome.evaluated, outcome.evaluated_origin);
  text += set_line("B", outcome.reference, outcome.reference_origin);
  if (outcome.gate) return reports::finished_page(text + gate_line(outcome));
  for (const std::string& why : {why_no_gate(outcome.evaluated, outcome.reference),
                                 why_no_gate(outcome.reference, outcome.evaluated)}) {
    if (!why.empty()) text += fmt::format("- no gate: {}\n", why);
  }
  return reports::finished_page(text);
}

std::string fid_json(const FidOutcome& outcome) {
  const FrechetDistance& frechet = outcome.distance.frechet;
  DistanceFile file;
  file.a = set_of(outcome.evaluated, outcome.reference, outcome.evaluated_origin);
  file.b = set_of(outcome.reference, outcome.evaluated, outcome.reference_origin);
  file.d = outcome.evaluated.dimension;
  file.name = outcome.distance.name;
  file.value = frechet.value;
  file.mean_term = frechet.mean_term;
  file.trace_term = frechet.trace_term;
  file.cross_term = frechet.cross_term;
  file.method = frechet.method;
  file.frechet_s = outcome.distance.frechet_s;
  add_parts(outcome, file);
  return reports::document_text(reports::json::kDistanceDocument, reports::json::tree_of(file));
}

FeatureSetOptions set_options(const Options& given) {
  FeatureSetOptions options;
  const std::string data = data_folder(given);
  options.extractor = given.extractor;
  options.extractor_options.weights = given.weights;
  options.extractor_options.data = data;
  options.extractor_options.resize = given.resize;
  options.extractor_options.device = parse_device(given.run.device);
  options.data = data;
  options.cache = given.features_cache;
  options.limit = given.limit;
  options.batch = given.batch.value_or(options.batch);
  options.keep_features = given.kernel || given.precision_recall;
  return options;
}

/// A gate is judged by an interval unless that is declined.
ResamplingOptions resampling_options(const Options& given, bool gated) {
  ResamplingOptions options;
  options.replicates = given.bootstrap.value_or(gated ? kReplicates : 0);
  options.seed = given.run.seed.value_or(0);
  if (options.replicates > 0 && options.replicates < kFewestReplicates) {
    throw bad_input("--bootstrap", "", std::to_string(options.replicates),
                    fmt::format("0, or at least {}", kFewestReplicates));
  }
  return options;
}

void take_distance_options(const Options& given, FidOutcome& outcome) {
  SetDistanceOptions& options = outcome.options;
  options.kernel = given.kernel;
  options.precision_recall = given.precision_recall;
  KernelDistanceOptions& kernel = options.kernel_options;
  kernel.subsets = given.subsets;
  kernel.subset_size = given.subset_size;
  outcome.draws = given.draws;
  const bool numpy = outcome.draws == "numpy";
  const uint64_t seed = given.run.seed.value_or(numpy ? kTorchFidelitySeed : 0);
  if (numpy && seed > UINT32_MAX) {
    throw bad_input("--seed", "", std::to_string(seed), "below 2^32, with --draws numpy");
  }
  outcome.draw_seed = static_cast<int64_t>(seed);
  kernel.draw = numpy ? numpy_draws(static_cast<uint32_t>(seed)) : counter_draws(seed);
  options.resampling = resampling_options(given, outcome.gate.has_value());
}

/// Samples dealt to the splits as torch-fidelity does.
InceptionScore score_of(const at::Tensor& logits) {
  return inception_score(logits, kScoreSplits,
                         numpy_permutation(kTorchFidelitySeed, logits.size(0)));
}

FidGate gate_of(double low, double high) {
  if (low < high) return {low, high, {}};
  throw bad_input("fid", "--min and --max", fmt::format("{} and {}", low, high),
                  "--min below --max");
}

std::optional<FidGate> gate_of(const Options& given) {
  if (!given.min && !given.max) return std::nullopt;
  const FidGate open;
  return gate_of(given.min.value_or(open.low), given.max.value_or(open.high));
}

void require_gate(const FidOutcome& outcome) {
  if (!outcome.gate) return;
  for (const std::string& why : {why_no_gate(outcome.evaluated, outcome.reference),
                                 why_no_gate(outcome.reference, outcome.evaluated)}) {
    if (!why.empty()) {
      throw bad_input("fid", "a gate", why, "no --min or --max, or sets that can decide it");
    }
  }
}

void judge(FidOutcome& outcome) {
  const double value = outcome.distance.frechet.value;
  const std::vector<double>& replicates = outcome.distance.replicates;
  outcome.confidence = kConfidence;
  if (!replicates.empty()) {
    outcome.interval = reports::resampled_interval(value, replicates, kConfidence);
  }
  if (!outcome.gate) return;
  outcome.gate->verdict =
      reports::judge_range(outcome.interval.value_or(reports::Interval{value, value}),
                           outcome.gate->low, outcome.gate->high);
}

void write_moments(const std::string& out, const FeatureSet& set) {
  if (out.empty()) return;
  StatisticsFile statistics{gaussian_of(set), set.extractor};
  statistics.gaussian.samples = set.samples;
  write_statistics(out, statistics);
}

void print_notes(const FeatureSet& set) {
  for (const std::string& note : set.notes) reports::say_on_stderr(note);
}

/// Takes what the user knows of the reference and its file does not say.
void take_the_users_word(const Options& given, FidOutcome& outcome) {
  if (const auto n = given.reference_samples) {
    if (outcome.reference.samples != 0 || outcome.reference.exact) {
      throw bad_input("--reference-samples", "", std::to_string(*n),
                      "none: it is known of " + outcome.reference.name);
    }
    outcome.reference.samples = *n;
  }
  if (given.resize.empty()) return;
  FeatureSet& a = outcome.evaluated;
  FeatureSet& b = outcome.reference;
  if (a.extractor.has_value() == b.extractor.has_value() || b.exact) return;
  assert_extractor(a.extractor ? b : a, a.extractor ? a : b, given.resize);
}

std::optional<SamplingOrigin> origin_of(const FeatureSet& set) {
  return sampling_origin(set.name, set.samples, set.contents_sha256);
}

/// Reads both sets, and what is asked of the first alone.
void read_sets(const CommandLine& line, Progress& progress, FidOutcome& outcome) {
  const auto& names = line.positional;
  FeatureSetOptions options = set_options(line.options);
  options.say = [&progress](const std::string& what) { progress.say(what); };
  FeatureSetReader reader(std::move(options));
  const bool scored = line.options.inception_score;
  outcome.evaluated =
      reader.read(names.front(), scored || outcome.options.resampling.replicates > 0);
  if (scored) outcome.score = score_of(reader.logits_of(outcome.evaluated));
  if (names.size() > 1) outcome.reference = reader.read(names.back());
}

Answer wrote_moments(const std::string& out, const FeatureSet& set) {
  return {fmt::format("{}: mean and covariance of {} samples, d = {}\n", out, count_of(set),
                      format_count(set.dimension))};
}

ExitCode code_of(const FidOutcome& outcome, reports::Inconclusive inconclusive) {
  if (!outcome.gate) return ExitCode::kPass;
  const ExitCode code = reports::exit_code_of(outcome.gate->verdict.verdict);
  const bool let_pass =
      code == ExitCode::kInconclusive && inconclusive == reports::Inconclusive::kWarns;
  return let_pass ? ExitCode::kPass : code;
}

}  // namespace

Answer measure_sets(const CommandLine& line) {
  const Options& options = line.options;
  const std::string& out = options.run.out;
  const bool alone = line.positional.size() == 1;
  if (alone && out.empty()) {
    throw bad_input("fid", "", "one set", "A and B, or A and --out FILE.npz");
  }
  FidOutcome outcome;
  outcome.gate = gate_of(options);
  take_distance_options(options, outcome);
  if (options.run.threads) at::set_num_threads(static_cast<int>(*options.run.threads));
  require_threads(at::get_num_threads() - 1);
  Progress progress("fid", 1, 1);
  read_sets(line, progress, outcome);
  progress.clear();
  print_notes(outcome.evaluated);
  write_moments(out, outcome.evaluated);
  if (alone) return wrote_moments(out, outcome.evaluated);
  print_notes(outcome.reference);
  take_the_users_word(options, outcome);
  require_gate(outcome);
  outcome.evaluated_origin = origin_of(outcome.evaluated);
  outcome.reference_origin = origin_of(outcome.reference);
  outcome.options.resampling.progress = [&](int64_t done) {
    progress.say(
        fmt::format("features drawn again: {} of {}", done, outcome.options.resampling.replicates));
  };
  outcome.distance = measure_distance(outcome.evaluated, outcome.reference, outcome.options);
  progress.clear();
  judge(outcome);
  return {options.json ? fid_json(outcome) : fid_text(outcome),
          code_of(outcome, inconclusive_of(options))};
}

}  // namespace noisemark::suite
