#include "suite/cli/fid_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "reports/error.h"
#include "reports/quality/range_gate.h"
#include "reports/quantity.h"
#include "suite/cli/fid_report.h"
#include "suite/cli/output_format.h"
#include "suite/environment/environment.h"
#include "suite/quality/distance/subset_draws.h"
#include "suite/quality/statistics_file.h"
#include "suite/run/progress.h"

namespace noisemark::suite {
namespace {

using reports::format_count;

constexpr uint32_t kTorchFidelitySeed = 2020;
constexpr int64_t kScoreSplits = 10;  // torch-fidelity's
constexpr int64_t kReplicates = 100;  // behind a gate
// Fewer have no share of a twentieth at either end.
constexpr int64_t kFewestReplicates = 20;
constexpr double kConfidence = 0.9;  // 1 - 2 alpha, as between seeds

FeatureSetOptions set_options(const Arguments& arguments, const std::string& data) {
  FeatureSetOptions options;
  if (arguments.has("extractor")) options.extractor = arguments.text("extractor");
  options.extractor_options.weights = arguments.text("weights");
  options.extractor_options.data = data;
  options.extractor_options.resize = arguments.text("resize");
  options.extractor_options.device = parse_device(arguments.text("device"));
  options.data = data;
  options.cache = arguments.text("features-cache");
  options.limit = arguments.integer("limit", 2).value_or(0);
  options.batch = arguments.integer("batch", 1).value_or(options.batch);
  options.keep_features = arguments.has("kid") || arguments.has("prc");
  return options;
}

/// A gate is judged by an interval unless that is declined.
ResamplingOptions resampling_options(const Arguments& arguments, bool gated) {
  ResamplingOptions options;
  options.replicates = arguments.integer("bootstrap", 0).value_or(gated ? kReplicates : 0);
  options.seed = static_cast<uint64_t>(arguments.integer("seed", 0).value_or(0));
  if (options.replicates > 0 && options.replicates < kFewestReplicates) {
    throw bad_input("--bootstrap", "", std::to_string(options.replicates),
                    fmt::format("0, or at least {}", kFewestReplicates));
  }
  return options;
}

void take_distance_options(const Arguments& arguments, FidOutcome& outcome) {
  SetDistanceOptions& options = outcome.options;
  options.kernel = arguments.has("kid");
  options.precision_recall = arguments.has("prc");
  KernelDistanceOptions& kernel = options.kernel_options;
  kernel.subsets = arguments.integer("subsets", 1).value_or(kernel.subsets);
  kernel.subset_size = arguments.integer("subset-size", 2).value_or(kernel.subset_size);
  outcome.draws = one_of(arguments, "fid", "draws", {"counter", "numpy"});
  const bool numpy = outcome.draws == "numpy";
  const int64_t seed =
      arguments.integer("seed", 0).value_or(numpy ? int64_t{kTorchFidelitySeed} : 0);
  if (numpy && seed > UINT32_MAX) {
    throw bad_input("--seed", "", std::to_string(seed), "below 2^32, with --draws numpy");
  }
  outcome.draw_seed = seed;
  kernel.draw =
      numpy ? numpy_draws(static_cast<uint32_t>(seed)) : counter_draws(static_cast<uint64_t>(seed));
  options.resampling = resampling_options(arguments, outcome.gate.has_value());
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

std::optional<FidGate> gate_of(const Arguments& arguments) {
  const auto low = arguments.number("min", 0);
  const auto high = arguments.number("max", 0);
  if (!low && !high) return std::nullopt;
  const FidGate open;
  return gate_of(low.value_or(open.low), high.value_or(open.high));
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

void write_moments(const Arguments& arguments, const FeatureSet& set) {
  if (!arguments.has("out")) return;
  StatisticsFile statistics{gaussian_of(set), set.extractor};
  statistics.gaussian.samples = set.samples;
  write_statistics(arguments.text("out"), statistics);
}

void print_notes(const FeatureSet& set) {
  for (const std::string& note : set.notes) fmt::print(stderr, "noisemark: {}\n", note);
}

/// What the user knows of the reference and its file does not say.
void take_the_users_word(const Arguments& arguments, FidOutcome& outcome) {
  if (const auto n = arguments.integer("reference-samples", 2)) {
    if (outcome.reference.samples != 0 || outcome.reference.exact) {
      throw bad_input("--reference-samples", "", std::to_string(*n),
                      "none: it is known of " + outcome.reference.name);
    }
    outcome.reference.samples = *n;
  }
  if (!arguments.has("resize")) return;
  FeatureSet& a = outcome.evaluated;
  FeatureSet& b = outcome.reference;
  if (a.extractor.has_value() == b.extractor.has_value() || b.exact) return;
  assert_extractor(a.extractor ? b : a, a.extractor ? a : b, arguments.text("resize"));
}

std::optional<SamplingOrigin> origin_of(const FeatureSet& set) {
  return sampling_origin(set.name, set.samples, set.contents_sha256);
}

/// Both sets, and what is asked of the first alone.
void read_sets(const Arguments& arguments, const std::string& data, Progress& line,
               FidOutcome& outcome) {
  const auto& given = arguments.positional();
  FeatureSetOptions options = set_options(arguments, data);
  options.say = [&line](const std::string& what) { line.say(what); };
  FeatureSetReader reader(std::move(options));
  const bool scored = arguments.has("inception-score");
  outcome.evaluated =
      reader.read(given.front(), scored || outcome.options.resampling.replicates > 0);
  if (scored) outcome.score = score_of(reader.logits_of(outcome.evaluated));
  if (given.size() > 1) outcome.reference = reader.read(given.back());
}

Answer wrote_moments(const Arguments& arguments, const FeatureSet& set) {
  return {fmt::format("{}: mean and covariance of {} samples, d = {}\n", arguments.text("out"),
                      count_of(set), format_count(set.dimension)),
          ExitCode::kPass};
}

ExitCode code_of(const FidOutcome& outcome, reports::Inconclusive inconclusive) {
  if (!outcome.gate) return ExitCode::kPass;
  const ExitCode code = reports::exit_code_of(outcome.gate->verdict.verdict);
  const bool let_pass =
      code == ExitCode::kInconclusive && inconclusive == reports::Inconclusive::kWarns;
  return let_pass ? ExitCode::kPass : code;
}

}  // namespace

Answer measure_sets(const Arguments& arguments, const std::string& data) {
  const bool alone = arguments.positional().size() == 1;
  if (alone && !arguments.has("out")) {
    throw bad_input("fid", "", "one set", "A and B, or A and --out FILE.npz");
  }
  const reports::Inconclusive inconclusive = inconclusive_of(arguments, "fid");
  FidOutcome outcome;
  outcome.gate = gate_of(arguments);
  take_distance_options(arguments, outcome);
  if (const auto threads = arguments.integer("threads", 1)) {
    at::set_num_threads(static_cast<int>(*threads));
  }
  Progress line("fid", 1, 1);
  read_sets(arguments, data, line, outcome);
  line.clear();
  print_notes(outcome.evaluated);
  write_moments(arguments, outcome.evaluated);
  if (alone) return wrote_moments(arguments, outcome.evaluated);
  print_notes(outcome.reference);
  take_the_users_word(arguments, outcome);
  require_gate(outcome);
  outcome.evaluated_origin = origin_of(outcome.evaluated);
  outcome.reference_origin = origin_of(outcome.reference);
  outcome.options.resampling.progress = [&](int64_t done) {
    line.say(
        fmt::format("features drawn again: {} of {}", done, outcome.options.resampling.replicates));
  };
  outcome.distance = measure_distance(outcome.evaluated, outcome.reference, outcome.options);
  line.clear();
  judge(outcome);
  return {arguments.has("json") ? fid_json(outcome) : fid_text(outcome),
          code_of(outcome, inconclusive)};
}

}  // namespace noisemark::suite
