#include "reports/seeds/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "reports/base/error.h"
#include "reports/base/quantity.h"
#include "reports/compare/sides.h"
#include "reports/render/report.h"
#include "reports/seeds/gates.h"
#include "reports/seeds/measures.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {
namespace {

/// A measure with a row of its own may be missing in every run, and its rows say so.
void require_known(const Side& side, const std::string& measure, const char* option) {
  std::set<std::string> names;
  for (const Measure& known : known_measures()) names.insert(known.name);
  for (const NamedResult& run : side.runs) {
    for (const Metric& metric : run.result.metrics) names.insert(metric.name);
  }
  if (names.contains(measure)) return;
  throw bad_input("quality", option, measure + ", which no run measured",
                  accepted_names(measure, std::vector<std::string>(names.begin(), names.end())));
}

void check_options(const Side& side, const QualityOptions& options) {
  std::set<std::string> seen;
  for (const QualityGate& gate : options.gates) {
    require_known(side, gate.measure, "--gate");
    if (!seen.insert(gate.measure).second) {
      throw bad_input("quality", "--gate", gate.measure + " a second time", "each once");
    }
  }
  for (const QualityRange& range : options.ranges) {
    require_known(side, range.measure, "--range");
    if (range.low < range.high) continue;
    throw bad_input("quality", "--range", fmt::format("{} to {}", range.low, range.high),
                    "a lower end below the upper");
  }
}

/// A reason for a test that proved nothing, or that there could not be.
std::string seeds_to_add(const QualityRow& row) {
  if (!row.seeds_needed) return "";
  const int64_t more = *row.seeds_needed - static_cast<int64_t>(row.seeds.size());
  const char* seeds = more == 1 ? "seed" : "seeds";
  if (!row.detectable) return fmt::format("; at least {} more {}", more, seeds);
  return fmt::format("; {} more {} would decide", more, seeds);
}

class Judging {
 public:
  Judging(const QualitySide& judged, const QualityOptions& options)
      : judged_(judged),
        side_(judged.side),
        options_(options),
        runs_(run_ids_of(judged.side)),
        alpha_(alpha_of_a_family(options.alpha, options.looks, options.gates, options.ranges)) {}

  QualityStudy study() {
    check_options(side_, options_);
    study_.asked_gates = options_.gates;
    study_.asked_ranges = options_.ranges;
    study_.looks = next_look(runs_, options_.looks, options_.earlier);
    study_.alpha = options_.alpha;
    study_.power = options_.power;
    study_.resamples = options_.resamples;
    study_.seed = options_.seed;
    study_.variants = variants_of(side_);
    const std::vector<Pairing> pairings = pairings_of(side_);
    if (pairings.empty() && options_.ranges.empty()) {
      throw bad_input("quality", "", "nothing but the reference in these results",
                      "the same seeds under mode none and under another");
    }
    look_at_distances();
    for (const Pairing& pairing : pairings) look_at(pairing);
    for (const Pairing& pairing : pairings_of(judged_.by_steps)) look_at_steps(pairing);
    judge();
    judge_ranges();
    if (study_.tests > 0 || !study_.ranges.empty()) count_look(runs_, study_.looks);
    find_lost_runs();
    note_short_trainings();
    return std::move(study_);
  }

 private:
  void record(QualityVerdict verdict, const std::string& reason) {
    study_.verdict = std::max(study_.verdict, verdict);
    if (verdict != QualityVerdict::kPass) study_.reasons.push_back(reason);
  }

  void look_at(const Pairing& pairing) {
    study_.unpaired.insert(study_.unpaired.end(), pairing.unpaired.begin(), pairing.unpaired.end());
    const std::string& name = pairing.cell.name;
    if (pairing.reference.empty()) {
      return record(QualityVerdict::kBaselineNeeded, name + ": no run of its reference, mode none");
    }
    if (pairing.cell.pairs.empty()) {
      return record(QualityVerdict::kNotComparable,
                    fmt::format("{}: no seed in common with {}", name, pairing.reference));
    }
    const std::vector<FieldDifference> differences = identity_differences(pairing.cell);
    if (differences.empty()) return take(pairing);
    add_differences(pairing, differences);
  }

  /// Takes a benchmark that is not there for its quality over seeds. A variant that has no
  /// reference beside it is none of this study.
  void look_at_steps(const Pairing& pairing) {
    if (pairing.cell.pairs.empty()) return;
    const std::vector<FieldDifference> differences = identity_differences(pairing.cell);
    if (differences.empty()) return take_steps(pairing);
    add_differences(pairing, differences);
  }

  void add_differences(const Pairing& pairing, const std::vector<FieldDifference>& differences) {
    record(QualityVerdict::kNotComparable,
           fmt::format("{}: differs from {} in {}", pairing.cell.name, pairing.reference,
                       differences.front().field));
    for (const FieldDifference& one : differences) study_.differences.push_back({one});
  }

  void look_at_distances() {
    study_.sheets = judged_.sheets;
    for (const RunDistance& one : judged_.distances) {
      if (std::find(study_.distances.begin(), study_.distances.end(), one.origin) ==
          study_.distances.end()) {
        study_.distances.push_back(one.origin);
      }
    }
    std::sort(study_.distances.begin(), study_.distances.end(),
              [](const DistanceOrigin& a, const DistanceOrigin& b) {
                return std::tie(a.metric, a.samples, a.sampler, a.reference, a.reference_sha256) <
                       std::tie(b.metric, b.samples, b.sampler, b.reference, b.reference_sha256);
              });
    study_.distance_values = distance_values(judged_.distances, side_);
    for (const std::string& problem : distance_problems(judged_.distances, side_)) {
      record(QualityVerdict::kNotComparable, problem);
    }
  }

  void take_steps(const Pairing& pairing) {
    for (StepRow& row : step_rows(pairing)) {
      if (row.verdict) {
        record(*row.verdict, fmt::format("{}, {}: tier {}: {} ({})", row.benchmark, row.variant,
                                         row.tier, verdict_name(*row.verdict), row.words));
      }
      study_.steps.push_back(std::move(row));
    }
  }

  void take(const Pairing& pairing) {
    take_steps(pairing);
    for (const QualityGate& gate : options_.gates) {
      RowSample sample = sample_row(pairing, measure_named(gate.measure));
      sample.row.gated = true;
      set_margin(pairing, gate, sample);
      gated_.push_back(std::move(sample));
    }
    std::vector<std::string> names = described_measures();
    for (const DistanceOrigin& one : study_.distances) {
      if (std::find(names.begin(), names.end(), one.metric) == names.end()) {
        names.push_back(one.metric);
      }
    }
    for (const std::string& name : names) {
      const bool gated = std::any_of(options_.gates.begin(), options_.gates.end(),
                                     [&](const QualityGate& gate) { return gate.measure == name; });
      if (!gated) described_.push_back(sample_row(pairing, measure_named(name)));
    }
    for (const int64_t t : evaluated_timesteps(pairing.cell.pairs.front().first->result)) {
      timesteps_.push_back(sample_timestep(pairing, t));
    }
  }

  /// The definitions of a pairing are one and the same.
  static void set_margin(const Pairing& pairing, const QualityGate& gate, RowSample& sample) {
    QualityRow& row = sample.row;
    const auto defined =
        margin_in_definition(pairing.cell.pairs.front().first->result, gate.measure);
    row.margin = gate.margin.value_or(defined.value_or(sample.measure.margin));
    row.margin_from = gate.margin ? "given" : defined ? "definition" : "default";
    const bool ratio = row.is_ratio();
    if (*row.margin > 0 && !(ratio && *row.margin > kWidestQualityMargin)) return;
    throw bad_input("quality", "margin of " + gate.measure,
                    *row.margin == 0 ? "none" : margin_text(row),
                    ratio ? fmt::format("more than 0 and at most {}: --gate {}=0.01",
                                        kWidestQualityMargin, gate.measure)
                          : fmt::format("more than 0: --gate {}=0.001", gate.measure));
  }

  void judge() {
    std::vector<RowSample*> gated;
    for (RowSample& sample : gated_) gated.push_back(&sample);
    study_.tests = judge_rows(gated, options_, study_.looks);
    for (RowSample& sample : gated_) {
      const QualityRow& row = sample.row;
      record(row.verdict.value(),
             fmt::format("{}, {}: {}: {} ({}{})", row.benchmark, row.variant, measure_text(row),
                         verdict_name(*row.verdict), row.words, seeds_to_add(row)));
      study_.rows.push_back(row);
    }
    for (auto* samples : {&described_, &timesteps_}) {
      for (RowSample& sample : *samples) describe(sample);
    }
  }

  /// A figure that no run has is no row.
  void describe(RowSample& sample) {
    describe_row(sample, alpha_);
    sample.row.words = sample.problem_words;
    if (!sample.row.seeds.empty() || !sample.row.words.empty()) study_.rows.push_back(sample.row);
  }

  void judge_ranges() {
    const size_t count = options_.ranges.size() * study_.variants.size();
    if (count == 0) return;
    // Bonferroni: intervals have no p to order.
    const double alpha = alpha_ / static_cast<double>(count);
    const BootstrapOptions bootstrap{options_.resamples, options_.seed, 1 - 2 * alpha};
    for (const VariantRuns& variant : study_.variants) {
      for (const QualityRange& range : options_.ranges) {
        RangeRow row = judge_range_row(runs_of(side_, variant), range, bootstrap, study_.looks);
        record(row.verdict, fmt::format("{}, {}: {}: {} ({})", row.benchmark, row.variant,
                                        row.measure, verdict_name(row.verdict), row.words));
        study_.ranges.push_back(std::move(row));
      }
    }
  }

  void find_lost_runs() {
    for (const LostRun& run : side_.lost) {
      study_.without_result.push_back(fmt::format("{}: {}", run.name, run.why));
    }
    for (const LostRun& run : by_reason(side_.lost)) {
      if (!run.skipped) {
        record(QualityVerdict::kInconclusive, fmt::format("{}: {}", run.name, run.why));
      }
    }
    study_.notes = side_.left_out;
  }

  /// Trainings that have hardly begun are alike, whatever a mode rounds.
  void note_short_trainings() {
    constexpr double kBegun = 0.9;
    std::set<std::string> named;
    for (const NamedResult& run : side_.runs) {
      const auto& evaluations = run.result.quality.evaluations;
      if (evaluations.size() < 2) continue;
      const double left = evaluations.back().loss / evaluations.front().loss;
      const std::string name = benchmark_name(run.result.identity);
      if (!(left > kBegun) || !named.insert(name).second) continue;
      study_.reasons.push_back(fmt::format(
          "{}: after {} the loss was still {} of that at the start ({}): trainings that have "
          "hardly begun show little of what a mode costs in quality",
          name, format_counted(run.result.protocol.steps, "step"), format_percent(left), run.name));
    }
  }

  const QualitySide& judged_;
  const Side& side_;
  const QualityOptions& options_;
  RunIds runs_;
  double alpha_;  // alpha of this look's gates and of its ranges
  std::vector<RowSample> gated_;
  std::vector<RowSample> described_;
  std::vector<RowSample> timesteps_;
  QualityStudy study_;
};

}  // namespace

QualityStudy judge_quality(const QualitySide& judged, const QualityOptions& options) {
  return Judging(judged, options).study();
}

QualityStudy judge_quality(const Side& side, const QualityOptions& options) {
  return judge_quality(QualitySide{side, {}, {}, {}}, options);
}

}  // namespace noisemark::reports
