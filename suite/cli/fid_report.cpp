#include "suite/cli/fid_report.h"

#include <fmt/format.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/json_values.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/sha256.h"
#include "suite/io/tensor_bytes.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::ordered_json;
using reports::format_count;
using reports::format_number;

constexpr size_t kShownDigits = 12;  // of a checksum

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

/// How often perfect samples would have shares at least as far off.
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
  /// Of the first set alone.
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
                                        info.checksum.substr(0, kShownDigits), info.resize);
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

Json set_json(const FeatureSet& set, const FeatureSet& other,
              const std::optional<SamplingOrigin>& origin) {
  const std::string why = why_no_gate(set, other);
  Json json = Json::object();
  json["name"] = set.name;
  json["n"] = set.samples == 0 ? Json() : Json(set.samples);
  json["exact"] = set.exact;
  json["extractor"] = set.extractor ? Json::parse(extractor_json(*set.extractor)) : Json();
  json["extractor_asserted"] = set.extractor_asserted;
  json["moments_sha256"] = moments_sha256(set);
  json["drawn"] = origin ? Json::parse(origin->json) : Json();
  json["gateable"] = why.empty();
  json["why_no_gate"] = why.empty() ? Json() : Json(why);
  return json;
}

Json kernel_json(const FidOutcome& outcome) {
  const KernelDistance& kernel = *outcome.distance.kernel;
  return {{"mean", kernel.mean},
          {"standard_deviation", kernel.standard_deviation},
          {"standard_error", reports::or_null(kernel.standard_error)},
          {"subsets", kernel.subsets},
          {"subset_size", kernel.subset_size},
          {"draws", outcome.draws},
          {"seed", outcome.draw_seed}};
}

Json bootstrap_json(const FidOutcome& outcome) {
  return {{"replicates", outcome.options.resampling.replicates},
          {"seed", outcome.options.resampling.seed},
          {"drawn_again", "a"},
          {"confidence", outcome.confidence},
          {"low", outcome.interval->low},
          {"high", outcome.interval->high}};
}

Json mixture_json(const MixtureDistance& mixture) {
  return {{"floor_mean", mixture.floor_mean},
          {"floor_largest", mixture.floor_largest},
          {"component_share_frac", mixture.component_share_frac},
          {"component_chi_square", mixture.component_chi_square},
          {"degrees", degrees_of(mixture)},
          {"p", p_of_shares(mixture)}};
}

Json gate_json(const FidGate& gate) {
  return {{"min", std::isfinite(gate.low) ? Json(gate.low) : Json()},
          {"max", std::isfinite(gate.high) ? Json(gate.high) : Json()},
          {"pass", gate.verdict.verdict == reports::QualityVerdict::kPass},
          {"verdict", reports::verdict_name(gate.verdict.verdict)},
          {"words", gate.verdict.words}};
}

void add_parts(const FidOutcome& outcome, Json& json) {
  const SetDistance& distance = outcome.distance;
  if (outcome.interval) json["bootstrap"] = bootstrap_json(outcome);
  if (distance.kernel) json["kernel"] = kernel_json(outcome);
  if (distance.precision_recall) {
    json["precision_frac"] = distance.precision_recall->precision_frac;
    json["recall_frac"] = distance.precision_recall->recall_frac;
    json["neighbours"] = distance.precision_recall->neighbours;
  }
  if (outcome.score) {
    json["inception_score"] = {{"name", score_name(outcome)},
                               {"mean", outcome.score->mean},
                               {"standard_deviation", outcome.score->standard_deviation},
                               {"splits", outcome.score->splits}};
  }
  if (distance.mixture) json["mixture"] = mixture_json(*distance.mixture);
  if (outcome.gate) json["gate"] = gate_json(*outcome.gate);
}

}  // namespace

std::string count_of(const FeatureSet& set) {
  if (set.exact) return "exact";
  return set.samples == 0 ? "not known" : format_count(set.samples);
}

std::string why_no_gate(const FeatureSet& set, const FeatureSet& other) {
  const std::string why = why_no_gate(set);
  return why.empty() && !set.extractor ? why_not_alike(set, other) : why;
}

std::string fid_text(const FidOutcome& outcome) {
  std::string text = table_of(outcome) + "\n";
  text += set_line("A", outcome.evaluated, outcome.evaluated_origin);
  text += set_line("B", outcome.reference, outcome.reference_origin);
  if (outcome.gate) return text + gate_line(outcome);
  for (const std::string& why : {why_no_gate(outcome.evaluated, outcome.reference),
                                 why_no_gate(outcome.reference, outcome.evaluated)}) {
    if (!why.empty()) text += fmt::format("- no gate: {}\n", why);
  }
  return text;
}

std::string fid_json(const FidOutcome& outcome) {
  const FrechetDistance& frechet = outcome.distance.frechet;
  Json json = Json::object();
  json["schema"] = "noisemark.distance";
  json["version"] = 1;
  json["a"] = set_json(outcome.evaluated, outcome.reference, outcome.evaluated_origin);
  json["b"] = set_json(outcome.reference, outcome.evaluated, outcome.reference_origin);
  json["d"] = outcome.evaluated.dimension;
  json["name"] = outcome.distance.name;
  json["value"] = frechet.value;
  json["mean_term"] = frechet.mean_term;
  json["trace_term"] = frechet.trace_term;
  json["cross_term"] = frechet.cross_term;
  json["method"] = frechet.method;
  json["frechet_s"] = outcome.distance.frechet_s;
  add_parts(outcome, json);
  return json.dump(2) + "\n";
}

}  // namespace noisemark::suite
