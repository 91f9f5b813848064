#include "reports/quality/row_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "reports/gate.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

using Observe = std::function<Observation(const Result&)>;

/// A figure that counts: of a run that came to its end.
Observation final_figure(const Result& result, const Observe& observe) {
  if (!is_finished(result)) {
    return {{}, fmt::format("the run ended as \"{}\"", result.exit.status), "", Direction::kLower};
  }
  return observe(result);
}

/// Why these figures say nothing of the candidate's mode; empty: they do. A mode that kept
/// everything is equal to its reference whatever it would have done.
std::string why_not_its_mode(const Result& reference, const Result& candidate) {
  if (has_no_plan(candidate)) return "its mode ended a pass without a plan";
  const MemoryMode& mode = candidate.memory_mode;
  if (mode.measured && !mode.lossless && same_weights(reference, candidate)) {
    return "a mode that rounds has the bits of its reference: it rounded nothing";
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
      return forbid(QualityVerdict::kInconclusive, seed, "the reference was not finite");
    }
    if (is_not_finite(candidate)) {
      return forbid(QualityVerdict::kFail, seed, "training was not finite, the reference was");
    }
    if (const std::string reason = why_not_its_mode(reference, candidate); !reason.empty()) {
      return forbid(QualityVerdict::kInconclusive, seed, reason);
    }
    const Observation a = final_figure(reference, observe_);
    const Observation b = final_figure(candidate, observe_);
    if (!a.value) return forbid(QualityVerdict::kInconclusive, seed, "reference: " + reason(a));
    if (!b.value) return forbid(QualityVerdict::kInconclusive, seed, reason(b));
    const bool ratio = sample_.row.scale == DifferenceScale::kLogRatio;
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
    const bool ratio = row.scale == DifferenceScale::kLogRatio;
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

}  // namespace noisemark::reports
