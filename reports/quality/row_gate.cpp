#include "reports/quality/row_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/compare/multiplicity.h"
#include "reports/quality/looks.h"
#include "reports/quality/power.h"
#include "reports/quality/quality_text.h"

namespace noisemark::reports {
namespace {

constexpr size_t kFewestToTest = 2;
constexpr double kNoMargin = 1;  // of a row that judges nothing: its p is not kept

/// A row whose seeds have a spread.
struct TestedRow {
  RowSample* sample = nullptr;
  DifferenceTest test;
  double p = 1;       ///< adjusted
  double worse = 1;   ///< likewise
  double better = 1;  ///< likewise
};

double margin_of(const QualityRow& row) {
  if (!row.gated) return kNoMargin;
  return row.scale == DifferenceScale::kLogRatio ? std::log1p(row.margin) : row.margin;
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
  return seeds == 1 ? "1 seed" : fmt::format("{} seeds", seeds);
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

/// What these seeds could have shown, and how many would show it: at the strictest step of Holm.
void fill_outlook(const TestedRow& tested, const Sensitivity& sensitivity) {
  QualityRow& row = tested.sample->row;
  const Equivalence& e = tested.test.equivalence;
  row.detectable = detectable_difference({e.standard_error, e.degrees}, sensitivity);
  if (row.verdict != QualityVerdict::kInconclusive) return;
  const auto needed = seeds_to_decide(
      {tested.test.design, tested.test.variance, e.difference, margin_of(row)}, sensitivity);
  if (!needed) return;
  // What was seen may promise more than these seeds kept.
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

}  // namespace noisemark::reports
