#include "suite/cli/fid_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/sha256.h"
#include "suite/cli/output_format.h"
#include "suite/environment/environment.h"
#include "suite/io/tensor_bytes.h"
#include "suite/quality/set_distance.h"
#include "suite/quality/statistics_file.h"
#include "suite/run/progress.h"
#include "suite/sampling/origin.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::ordered_json;
using reports::format_count;
using reports::format_number;

constexpr int64_t kTorchFidelitySeed = 2020;

/// All that the command says.
struct Outcome {
  FeatureSet evaluated;
  FeatureSet reference;
  SetDistance distance;
  std::optional<double> bound;

  [[nodiscard]] bool passes() const { return !bound || distance.frechet.value <= *bound; }
};

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

SetDistanceOptions distance_options(const Arguments& arguments) {
  SetDistanceOptions options;
  options.kernel = arguments.has("kid");
  options.precision_recall = arguments.has("prc");
  KernelDistanceOptions& kernel = options.kernel_options;
  kernel.subsets = arguments.integer("subsets", 1).value_or(kernel.subsets);
  kernel.subset_size = arguments.integer("subset-size", 2).value_or(kernel.subset_size);
  const bool numpy = one_of(arguments, "fid", "draws", {"counter", "numpy"}) == "numpy";
  const int64_t seed = arguments.integer("seed", 0).value_or(numpy ? kTorchFidelitySeed : 0);
  if (numpy && seed > UINT32_MAX) {
    throw bad_input("--seed", "", std::to_string(seed), "below 2^32, with --draws numpy");
  }
  kernel.draw =
      numpy ? numpy_draws(static_cast<uint32_t>(seed)) : counter_draws(static_cast<uint64_t>(seed));
  return options;
}

void require_gate(const Outcome& outcome) {
  if (!outcome.bound) return;
  for (const FeatureSet* set : {&outcome.evaluated, &outcome.reference}) {
    const std::string why = why_no_gate(*set);
    if (!why.empty()) throw bad_input("--max", "", why, "no gate, or more samples");
  }
}

std::string count_of(const FeatureSet& set) {
  if (set.exact) return "exact";
  return set.samples == 0 ? "not known" : format_count(set.samples);
}

std::string kernel_text(const KernelDistance& kernel) {
  const std::string error = kernel.standard_error
                                ? fmt::format(" ± {}", format_number(*kernel.standard_error))
                                : ", its error unknown";
  return format_number(kernel.mean) + error;
}

std::string table_of(const Outcome& outcome) {
  using reports::Align;
  reports::MarkdownTable table({{"figure"},
                                {"value", Align::kRight},
                                {"N of A", Align::kRight},
                                {"N of B", Align::kRight},
                                {"d", Align::kRight}});
  const auto row = [&](const std::string& figure, const std::string& value) {
    table.add_row({figure, value, count_of(outcome.evaluated), count_of(outcome.reference),
                   format_count(outcome.evaluated.dimension)});
  };
  const SetDistance& distance = outcome.distance;
  row(distance.name, format_number(distance.frechet.value));
  if (distance.kernel) {
    const bool is_kid = distance.name == "FID";
    row(fmt::format("{}, {} subsets of {}", is_kid ? "KID" : "kernel distance",
                    distance.kernel->subsets, distance.kernel->subset_size),
        kernel_text(*distance.kernel));
  }
  if (distance.precision_recall) {
    row("precision", format_number(distance.precision_recall->precision_frac));
    row("recall", format_number(distance.precision_recall->recall_frac));
  }
  return table.text();
}

std::string drawn_words(const FeatureSet& set) {
  const auto origin = sampling_origin(set.name, set.samples);
  return origin ? "; drawn by " + origin->words : "";
}

std::string set_line(const char* letter, const FeatureSet& set) {
  return fmt::format("- {}: {}, {}{}\n", letter, set.name,
                     !set.extractor
                         ? "extractor not known"
                         : fmt::format("extractor {} ({}), resize {}, {}", set.extractor->name,
                                       set.extractor->checksum.substr(0, 12), set.extractor->resize,
                                       set.extractor->provenance),
                     drawn_words(set));
}

std::string text_of(const Outcome& outcome) {
  std::string text = table_of(outcome) + "\n";
  text += set_line("A", outcome.evaluated) + set_line("B", outcome.reference);
  if (outcome.bound) {
    text += fmt::format("- gate: at most {}: {}\n", format_number(*outcome.bound),
                        outcome.passes() ? "pass" : "FAIL");
    return text;
  }
  for (const FeatureSet* set : {&outcome.evaluated, &outcome.reference}) {
    const std::string why = why_no_gate(*set);
    if (!why.empty()) text += fmt::format("- {}\n", why);
  }
  return text;
}

/// Of mean and covariance, so that a stale reference can be told; null where only features are
/// held.
Json moments_sha256(const FeatureSet& set) {
  if (!set.gaussian) return {};
  reports::Sha256 sha256;
  for (const at::Tensor& part : {set.gaussian->mean, set.gaussian->covariance}) {
    sha256.update(bytes_of(row_major_on_cpu(part)));
  }
  return sha256.hex();
}

Json set_json(const FeatureSet& set) {
  Json json = Json::object();
  json["name"] = set.name;
  json["n"] = set.samples == 0 ? Json() : Json(set.samples);
  json["exact"] = set.exact;
  json["extractor"] = set.extractor ? Json::parse(extractor_json(*set.extractor)) : Json();
  const auto origin = sampling_origin(set.name, set.samples);
  json["moments_sha256"] = moments_sha256(set);
  json["drawn"] = origin ? Json::parse(origin->json) : Json();
  json["gateable"] = why_no_gate(set).empty();
  return json;
}

std::string json_of(const Outcome& outcome) {
  const SetDistance& distance = outcome.distance;
  Json json = Json::object();
  json["schema"] = "noisemark.distance";
  json["version"] = 1;
  json["a"] = set_json(outcome.evaluated);
  json["b"] = set_json(outcome.reference);
  json["d"] = outcome.evaluated.dimension;
  json["name"] = distance.name;
  json["value"] = distance.frechet.value;
  json["mean_term"] = distance.frechet.mean_term;
  json["trace_term"] = distance.frechet.trace_term;
  json["cross_term"] = distance.frechet.cross_term;
  json["method"] = distance.frechet.method;
  json["frechet_s"] = distance.frechet_s;
  if (distance.kernel) {
    const KernelDistance& kernel = *distance.kernel;
    json["kernel"] = {
        {"mean", kernel.mean},
        {"standard_deviation", kernel.standard_deviation},
        {"standard_error", kernel.standard_error ? Json(*kernel.standard_error) : Json()},
        {"subsets", kernel.subsets},
        {"subset_size", kernel.subset_size}};
  }
  if (distance.precision_recall) {
    json["precision_frac"] = distance.precision_recall->precision_frac;
    json["recall_frac"] = distance.precision_recall->recall_frac;
    json["neighbours"] = distance.precision_recall->neighbours;
  }
  if (outcome.bound) json["gate"] = {{"max", *outcome.bound}, {"pass", outcome.passes()}};
  return json.dump(2) + "\n";
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

}  // namespace

Answer measure_sets(const Arguments& arguments, const std::string& data) {
  const auto& given = arguments.positional();
  if (given.size() == 1 && !arguments.has("out")) {
    throw bad_input("fid", "", "one set", "A and B, or A and --out FILE.npz");
  }
  const SetDistanceOptions measured = distance_options(arguments);
  Outcome outcome;
  outcome.bound = arguments.number("max", 0);
  if (const auto threads = arguments.integer("threads", 1)) {
    at::set_num_threads(static_cast<int>(*threads));
  }
  {
    FeatureSetOptions options = set_options(arguments, data);
    Progress line("fid", 1, 1);
    options.say = [&line](const std::string& what) { line.say(what); };
    FeatureSetReader reader(std::move(options));
    outcome.evaluated = reader.read(given.front());
    if (given.size() > 1) outcome.reference = reader.read(given.back());
  }
  print_notes(outcome.evaluated);
  write_moments(arguments, outcome.evaluated);
  if (given.size() == 1) {
    return {fmt::format("{}: mean and covariance of {} samples, d = {}\n", arguments.text("out"),
                        count_of(outcome.evaluated), format_count(outcome.evaluated.dimension)),
            ExitCode::kPass};
  }
  print_notes(outcome.reference);
  if (const auto n = arguments.integer("reference-samples", 2)) {
    if (outcome.reference.samples != 0 || outcome.reference.exact) {
      throw bad_input("--reference-samples", "", std::to_string(*n),
                      "none: it is known of " + outcome.reference.name);
    }
    outcome.reference.samples = *n;
  }
  require_gate(outcome);
  outcome.distance = measure_distance(outcome.evaluated, outcome.reference, measured);
  return {arguments.has("json") ? json_of(outcome) : text_of(outcome),
          outcome.passes() ? ExitCode::kPass : ExitCode::kFailed};
}

}  // namespace noisemark::suite
