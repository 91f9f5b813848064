#include "reports/seeds/gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/math/distributions/students_t.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/compare/inference.h"
#include "reports/result/gate.h"
#include "reports/seeds/difference_test.h"
#include "reports/seeds/measures.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"

namespace noisemark::reports {
namespace {

using Observe = std::function<Observation(const Result&)>;

std::string ended_words(const Result& result) {
  return fmt::format("the run ended as \"{}\"", result.exit.status);
}

/// A figure that counts: of a run that came to its end.
Observation final_figure(const Result& result, const Observe& observe) {
  if (!is_finished(result)) {
    return {{}, ended_words(result), "", Direction::kLower};
  }
  return observe(result);
}

/// Says why these figures tell nothing of the candidate's mode; empty: they do. A mode that kept
/// everything is equal to its reference whatever it would have done.
std::string why_not_its_mode(const Result& reference, const Result& candidate) {
  if (has_no_plan(candidate)) return "its mode ended a pass without a plan";
  const MemoryMode& mode = candidate.memory_mode;
  if (mode.measured && !mode.lossless && same_weights(reference, candidate)) {
    return "a mode that rounds has the bits of BASE: it rounded nothing";
  }
  return "";
}

class Sampling {
 public:
  Sampling(const Pairing& pairing, const Measure& measure, Observe observe)
      : pairing_(pairing), observe_(std::move(observe)) {
    sample_.measure = measure;
    sample_.row.benchmark = pairing.benchmark;
    sample_.row.variant = pairing.variant;
    sample_.row.reference = pairing.reference;
    sample_.row.measure = measure.name;
    sample_.row.scale = measure.scale;
  }

  RowSample take() {
    for (const auto& [reference, candidate] : pairing_.cell.pairs) {
      add(reference->result, candidate->result);
    }
    sample_.same_bits = !pairing_.cell.pairs.empty() &&
                        std::all_of(pairing_.cell.pairs.begin(), pairing_.cell.pairs.end(),
                                    [](const RunPair& pair) {
                                      return same_weights(pair.first->result, pair.second->result);
                                    });
    fill_means();
    return std::move(sample_);
  }

 private:
  void add(const Result& reference, const Result& candidate) {
    const uint64_t seed = reference.seeds.base;
    if (is_not_finite(reference)) {
      return forbid(QualityVerdict::kInconclusive, seed, "BASE was not finite");
    }
    if (is_not_finite(candidate)) {
      return forbid(QualityVerdict::kFail, seed, "training was not finite, BASE was");
    }
    if (const std::string reason = why_not_its_mode(reference, candidate); !reason.empty()) {
      return forbid(QualityVerdict::kInconclusive, seed, reason);
    }
    const Observation a = final_figure(reference, observe_);
    const Observation b = final_figure(candidate, observe_);
    if (!a.value) return forbid(QualityVerdict::kInconclusive, seed, "BASE: " + reason(a));
    if (!b.value) return forbid(QualityVerdict::kInconclusive, seed, reason(b));
    const bool ratio = sample_.row.is_ratio();
    if (ratio && !(*a.value > 0 && *b.value > 0)) {
      return forbid(QualityVerdict::kInconclusive, seed, "zero or negative, which has no ratio");
    }
    sample_.row.unit = a.unit;
    const double sign = a.direction == Direction::kHigher ? -1 : 1;
    const auto scaled = [&](double value) { return sign * (ratio ? std::log(value) : value); };
    sample_.values.reference.push_back(scaled(*a.value));
    sample_.values.candidate.push_back(scaled(*b.value));
    sample_.row.seeds.push_back(
        {seed, *a.value, *b.value,
         sample_.values.candidate.back() - sample_.values.reference.back()});
  }

  static std::string reason(const Observation& observation) {
    return observation.missing_reason.empty() ? "not measured" : observation.missing_reason;
  }

  /// The worst stands, and of equals the first.
  void forbid(QualityVerdict verdict, uint64_t seed, const std::string& words) {
    if (verdict <= sample_.problem) return;
    sample_.problem = verdict;
    sample_.problem_words = fmt::format("seed {}: {}", seed, words);
  }

  void fill_means() {
    QualityRow& row = sample_.row;
    if (row.seeds.empty()) return;
    const bool ratio = row.is_ratio();
    const auto mean_of = [&](double SeedPair::*side) {
      std::vector<double> values;
      for (const SeedPair& pair : row.seeds) {
        values.push_back(ratio ? std::log(pair.*side) : pair.*side);
      }
      return ratio ? std::exp(mean(values)) : mean(values);
    };
    row.reference_mean = mean_of(&SeedPair::reference);
    row.candidate_mean = mean_of(&SeedPair::candidate);
  }

  const Pairing& pairing_;
  Observe observe_;
  RowSample sample_;
};

}  // namespace

RowSample sample_row(const Pairing& pairing, const Measure& measure) {
  return Sampling(pairing, measure,
                  [&](const Result& result) { return observe(result, measure.name); })
      .take();
}

RowSample sample_timestep(const Pairing& pairing, int64_t timestep) {
  Measure loss;
  loss.name = "loss";
  RowSample sample = Sampling(pairing, loss, [=](const Result& result) {
                       return observe_loss_at(result, timestep);
                     }).take();
  sample.row.timestep = timestep;
  return sample;
}

namespace {

constexpr size_t kFewestToTest = 2;
constexpr double kNoMargin = 1;  // margin of a row that judges nothing: its p is not kept

/// A row whose seeds have a spread.
struct TestedRow {
  RowSample* sample = nullptr;
  DifferenceTest test;
  double p = 1;       ///< is adjusted
  double worse = 1;   ///< is adjusted
  double better = 1;  ///< is adjusted
};

double margin_of(const QualityRow& row) {
  if (!row.margin) return kNoMargin;
  return row.is_ratio() ? std::log1p(*row.margin) : *row.margin;
}

void fill_in(QualityRow& row, const DifferenceTest& test) {
  row.correlation = test.correlation;
  row.design = test.design;
  row.difference = test.equivalence.difference;
  row.interval = test.equivalence.interval;
  row.degrees = test.equivalence.degrees;
}

void decide(QualityRow& row, QualityVerdict verdict, const std::string& words) {
  row.verdict = verdict;
  row.words = words;
}

bool all_equal(const QualityRow& row) {
  return !row.seeds.empty() &&
         std::all_of(row.seeds.begin(), row.seeds.end(),
                     [](const SeedPair& pair) { return pair.worsening == 0; });
}

std::string seeds_words(size_t seeds) {
  return format_counted(static_cast<int64_t>(seeds), "seed");
}

void say_too_few(RowSample& sample) {
  const auto fewest = std::max<int64_t>(kFewestToTest, sample.measure.fewest_seeds);
  sample.row.seeds_needed = fewest;
  decide(sample.row, QualityVerdict::kInconclusive,
         fmt::format("{} can never decide: {} is judged from {} on",
                     seeds_words(sample.row.seeds.size()), sample.row.measure, fewest));
}

/// Judges what needs no test, or can have none; false: it is to be tested.
bool settle_without_test(RowSample& sample) {
  QualityRow& row = sample.row;
  const size_t seeds = row.seeds.size();
  if (sample.problem != QualityVerdict::kPass) {
    decide(row, sample.problem, sample.problem_words);
  } else if (all_equal(row) && sample.same_bits) {
    row.difference = 0;
    decide(row, QualityVerdict::kPass, "trained to the same bits in every seed");
  } else if (seeds < kFewestToTest || static_cast<int64_t>(seeds) < sample.measure.fewest_seeds) {
    say_too_few(sample);
  } else if (all_equal(row)) {
    // A figure that other weights do not move is too coarse, or is not of these weights.
    decide(row, QualityVerdict::kInconclusive,
           "equal in every seed, though nothing shows that the weights are");
  } else if (row.interval && row.interval->low == row.interval->high) {
    decide(row, QualityVerdict::kInconclusive,
           "the differences have no spread, so nothing says how far another seed would differ");
  } else {
    return false;
  }
  return true;
}

void adjust(std::vector<TestedRow>& rows) {
  const auto adjusted = [&](const auto& p_of) {
    std::vector<double> p;
    for (const TestedRow& row : rows) p.push_back(p_of(row.test));
    return holm(p);
  };
  const auto p = adjusted([](const DifferenceTest& test) { return test.equivalence.p(); });
  const auto worse = adjusted([](const DifferenceTest& test) { return test.p_worse; });
  const auto better = adjusted([](const DifferenceTest& test) { return test.p_better; });
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].p = p[i];
    rows[i].worse = worse[i];
    rows[i].better = better[i];
  }
}

std::string among(size_t tests) {
  return fmt::format("by itself, but not among {} tests", tests);
}

/// The verdict of the interval, if the row were alone.
void decide_by_interval(const TestedRow& tested, double alpha, size_t tests) {
  QualityRow& row = tested.sample->row;
  const double margin = margin_of(row);
  const Interval& interval = *row.interval;
  const auto claim = [&](double p, QualityVerdict verdict, const std::string& words) {
    if (p <= alpha) return decide(row, verdict, words);
    decide(row, QualityVerdict::kInconclusive, words + " " + among(tests));
  };
  if (-margin < interval.low && interval.high < margin) {
    claim(tested.p, QualityVerdict::kPass, "within the margin");
  } else if (interval.low > margin) {
    claim(tested.worse, QualityVerdict::kFail,
          fmt::format("worse by {}, at least {}", size_text(row, *row.difference),
                      size_text(row, interval.low)));
  } else if (interval.high < -margin) {
    claim(tested.better, QualityVerdict::kPass,
          fmt::format("better by {}, at least {}", size_text(row, *row.difference),
                      size_text(row, interval.high)));
  } else if (interval.high < margin) {
    decide(row, QualityVerdict::kInconclusive,
           "not worse, but the interval reaches across the margin on the better side");
  } else {
    decide(row, QualityVerdict::kInconclusive, "the interval reaches across the margin");
  }
}

/// Fills in what these seeds could have shown, and how many would show it, at the strictest step of
/// Holm.
void fill_outlook(const TestedRow& tested, const Sensitivity& sensitivity) {
  QualityRow& row = tested.sample->row;
  const Equivalence& e = tested.test.equivalence;
  row.detectable = detectable_difference({e.standard_error, e.degrees}, sensitivity);
  if (row.verdict != QualityVerdict::kInconclusive) return;
  const auto needed = seeds_to_decide(
      {tested.test.design, tested.test.variance, e.difference, margin_of(row)}, sensitivity);
  if (!needed) return;
  // The difference that was seen may promise more than these seeds kept.
  row.seeds_needed = std::max<int64_t>(*needed, static_cast<int64_t>(row.seeds.size()) + 1);
}

}  // namespace

void describe_row(RowSample& sample, double alpha) {
  if (sample.row.seeds.size() < kFewestToTest) {
    if (!sample.row.seeds.empty()) sample.row.difference = sample.row.seeds.front().worsening;
    return;
  }
  fill_in(sample.row, test_difference(sample.values, margin_of(sample.row), alpha));
}

int64_t judge_rows(const std::vector<RowSample*>& samples, const QualityOptions& options,
                   const Looks& looks) {
  const double alpha =
      alpha_of_a_family(options.alpha, looks.declared, options.gates, options.ranges);
  std::vector<TestedRow> tested;
  for (RowSample* sample : samples) {
    describe_row(*sample, alpha);
    if (settle_without_test(*sample)) continue;
    TestedRow& row = tested.emplace_back();
    row.sample = sample;
    row.test = test_difference(sample->values, margin_of(sample->row), alpha);
  }
  adjust(tested);
  for (const TestedRow& row : tested) {
    row.sample->row.p = row.test.equivalence.p();
    row.sample->row.p_adjusted = row.p;
    if (none_is_left(looks)) {
      decide(row.sample->row, QualityVerdict::kInconclusive, no_look_words(looks));
    } else {
      decide_by_interval(row, alpha, tested.size());
    }
    fill_outlook(row, {alpha / static_cast<double>(tested.size()), options.power});
  }
  return static_cast<int64_t>(tested.size());
}

namespace {

void check(std::span<const double> values, size_t fewest) {
  if (values.size() < fewest) throw std::logic_error("range: too few values");
  for (const double value : values) {
    if (!std::isfinite(value)) throw std::logic_error("range: a value is not finite");
  }
}

Interval percentile_interval(std::span<const double> values, const BootstrapOptions& options) {
  std::mt19937_64 generator(options.seed);
  std::vector<double> means(static_cast<size_t>(options.resamples));
  std::vector<double> resample(values.size());
  for (double& one : means) {
    for (double& value : resample) value = values[index_below(generator, values.size())];
    one = mean(resample);
  }
  const double tail = (1 - options.confidence) / 2;
  return {quantile(means, tail), quantile(means, 1 - tail)};
}

Interval student_interval(std::span<const double> values, double confidence) {
  const auto count = static_cast<double>(values.size());
  const boost::math::students_t t(count - 1);
  const double half = boost::math::quantile(boost::math::complement(t, (1 - confidence) / 2)) *
                      standard_deviation(values) / std::sqrt(count);
  return {mean(values) - half, mean(values) + half};
}

/// The values of all runs, or what forbids a verdict.
std::vector<double> values_of(const std::vector<const NamedResult*>& runs, RangeRow& row) {
  std::vector<double> values;
  for (const NamedResult* run : runs) {
    const Result& result = run->result;
    const Observation found = observe(result, row.measure);
    const auto forbid = [&](QualityVerdict verdict, const std::string& words) {
      if (verdict <= row.verdict) return;
      row.verdict = verdict;
      row.words = fmt::format("seed {}: {}", result.seeds.base, words);
    };
    if (is_not_finite(result)) {
      forbid(QualityVerdict::kFail, "training was not finite");
    } else if (!is_finished(result)) {
      forbid(QualityVerdict::kInconclusive, ended_words(result));
    } else if (!found.value) {
      forbid(QualityVerdict::kInconclusive, found.missing_reason);
    } else {
      row.unit = found.unit;
      values.push_back(*found.value);
    }
  }
  return values;
}

}  // namespace

Interval resampled_interval(double value, std::span<const double> replicates, double confidence) {
  check(replicates, 1);
  check(std::span(&value, 1), 1);
  const double tail = (1 - confidence) / 2;
  const double centre = value + mean(replicates);
  return {centre - quantile(replicates, 1 - tail), centre - quantile(replicates, tail)};
}

Interval seed_interval(std::span<const double> values, const BootstrapOptions& options) {
  check(values, 2);
  const Interval drawn = percentile_interval(values, options);
  const Interval student = student_interval(values, options.confidence);
  return {std::min(drawn.low, student.low), std::max(drawn.high, student.high)};
}

RangeVerdict judge_range(const Interval& interval, double low, double high) {
  if (!(low < high)) throw std::logic_error("range: it holds nothing");
  if (low <= interval.low && interval.high <= high) {
    return {QualityVerdict::kPass, "within the range"};
  }
  if (interval.low > high) return {QualityVerdict::kFail, "above the range"};
  if (interval.high < low) return {QualityVerdict::kFail, "below the range"};
  return {QualityVerdict::kInconclusive,
          "the interval reaches across an end of the range; more seeds make it narrower"};
}

RangeRow judge_range_row(const std::vector<const NamedResult*>& runs, const QualityRange& range,
                         const BootstrapOptions& options, const Looks& looks) {
  RangeRow row;
  row.benchmark = workload_name(runs.front()->result.identity);
  row.variant = variant_name(runs.front()->result.identity);
  row.measure = range.measure;
  row.low = range.low;
  row.high = range.high;
  const std::vector<double> values = values_of(runs, row);
  row.seeds = static_cast<int64_t>(values.size());
  if (!values.empty()) row.mean = mean(values);
  if (values.size() >= 2) row.interval = seed_interval(values, options);
  if (row.verdict != QualityVerdict::kPass) return row;
  if (values.size() < kFewestSeedsOfRange) {
    row.verdict = QualityVerdict::kInconclusive;
    row.words =
        fmt::format("{} seeds, and a range needs at least {}", values.size(), kFewestSeedsOfRange);
    return row;
  }
  const RangeVerdict judged =
      none_is_left(looks) ? RangeVerdict{QualityVerdict::kInconclusive, no_look_words(looks)}
                          : judge_range(*row.interval, range.low, range.high);
  row.verdict = judged.verdict;
  row.words = judged.words;
  return row;
}

namespace {

/// The bound by which the runs themselves judged the gradient's error; empty where none did.
std::optional<double> gradient_bound_of(const Pairing& pairing) {
  for (const RunPair& pair : pairing.cell.pairs) {
    for (const Gate& gate : pair.second->result.gates) {
      if (gate.name == kGradientErrorGate) return gate.bound;
    }
  }
  return std::nullopt;
}

StepRow row_of(const Pairing& pairing, int tier) {
  StepRow row;
  row.tier = tier;
  row.benchmark = pairing.benchmark;
  row.variant = pairing.variant;
  row.reference = pairing.reference;
  return row;
}

void settle(StepRow& row, QualityVerdict verdict, const std::string& words) {
  if (row.verdict && *row.verdict >= verdict) return;
  row.verdict = verdict;
  row.words = words;
}

std::string what_differs(const Determinism& a, const Determinism& b) {
  return a.weights_sha256 == b.weights_sha256 ? "averages of the weights" : "weights";
}

/// One pair of runs; true: proven to be equal.
bool look_at_bits(const RunPair& pair, StepRow& row) {
  const Result& reference = pair.first->result;
  const Result& candidate = pair.second->result;
  const Certificate& proof = candidate.memory_mode.certificate;
  const std::string seed = fmt::format("seed {}: ", reference.seeds.base);
  if (proof.verdict == Verdict::kFail) {
    settle(row, QualityVerdict::kFail, seed + "the certificate failed: " + proof.words);
    return false;
  }
  if (proof.verdict == Verdict::kUnavailable) {
    settle(row, QualityVerdict::kInconclusive, seed + "no certificate: " + proof.words);
    return false;
  }
  if (!is_finished(reference) || !is_finished(candidate)) return false;
  const bool equal = same_weights(reference, candidate);
  const bool known = !reference.determinism.weights_sha256.empty() &&
                     !candidate.determinism.weights_sha256.empty();
  if (!equal && known && reference.protocol.deterministic && candidate.protocol.deterministic) {
    settle(row, QualityVerdict::kFail,
           seed + "deterministic runs, and yet other " +
               what_differs(reference.determinism, candidate.determinism));
  }
  return equal || proof.verdict == Verdict::kPass;
}

StepRow bits(const Pairing& pairing) {
  StepRow row = row_of(pairing, 0);
  for (const RunPair& pair : pairing.cell.pairs) {
    if (look_at_bits(pair, row)) ++row.seeds;
  }
  if (row.verdict) return row;
  if (row.seeds == static_cast<int64_t>(pairing.cell.pairs.size())) {
    settle(row, QualityVerdict::kPass, "bit for bit what BASE gives");
  } else {
    row.words = "not judged: without a certificate, and not all runs deterministic and ended";
  }
  return row;
}

StepRow gradient(const Pairing& pairing) {
  StepRow row = row_of(pairing, 1);
  row.bound = gradient_bound_of(pairing);
  std::string missing = "it was not measured";
  for (const RunPair& pair : pairing.cell.pairs) {
    const GradientError& error = pair.second->result.memory_mode.gradient_error;
    if (!error.error_frac) {
      if (!error.missing_reason.empty()) missing = error.missing_reason;
      continue;
    }
    ++row.seeds;
    // std::max alone would pass over a NaN.
    const bool larger = !row.value || !(*error.error_frac <= *row.value);
    if (larger && !std::isnan(row.value.value_or(0))) row.value = error.error_frac;
  }
  if (!row.value || !row.bound) {
    row.words = "not judged: " + missing;
  } else if (*row.value <= *row.bound) {  // NaN fails this
    settle(row, QualityVerdict::kPass, "within the bound");
  } else {
    settle(row, QualityVerdict::kFail, "the gradient of a step is another one");
  }
  return row;
}

}  // namespace

std::vector<StepRow> step_rows(const Pairing& pairing) {
  if (pairing.cell.pairs.empty()) return {};
  const Result& run = pairing.cell.pairs.front().second->result;
  if (!run.identity.has_mode() || !run.memory_mode.measured) return {};
  return {run.memory_mode.lossless ? bits(pairing) : gradient(pairing)};
}

}  // namespace noisemark::reports
