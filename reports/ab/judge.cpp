#include "reports/ab/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/statistics.h"
#include "reports/compare/compare.h"
#include "reports/compare/evidence.h"
#include "reports/compare/inference.h"
#include "reports/compare/sides.h"
#include "reports/result/environment_changes.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

bool all_same_work(const std::vector<Result>& a, const std::vector<Result>& b) {
  const Strings work = same_work(a.front());
  const auto same = [&](const Result& result) {
    return differing_fields(work, same_work(result)).empty();
  };
  return std::all_of(a.begin(), a.end(), same) && std::all_of(b.begin(), b.end(), same);
}

std::vector<ExactRow> compare_pair(const Result& a, const Result& b) {
  const Side base{"A", {{"A", a}}};
  const Side candidate{"B", {{"B", b}}};
  std::vector<ExactRow> rows;
  for (const Cell& cell : pair_runs(base, candidate).both) {
    for (ExactRow& row : compare_exact(cell)) {
      if (row.metric != "parameters") rows.push_back(std::move(row));
    }
  }
  return rows;
}

/// Joins what another pair of runs says of the same figure.
void add(ExactRow& known, const ExactRow& row) {
  if (known.verdict == row.verdict) return;
  if (passes(known.verdict) && passes(row.verdict)) {
    known.verdict = std::max(known.verdict, row.verdict);
    return;
  }
  if (passes(known.verdict)) known = row;  // shows the values that differ
  known.verdict = CompareVerdict::kInconclusive;
  known.words = "differs between runs of one build";
}

void add(std::vector<ExactRow>& known, const std::vector<ExactRow>& rows) {
  for (const ExactRow& row : rows) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const ExactRow& one) { return one.metric == row.metric; });
    if (found == known.end()) {
      known.push_back(row);
    } else {
      add(*found, row);
    }
  }
}

}  // namespace

std::vector<ExactRow> compare_exact_figures(const std::vector<Result>& a,
                                            const std::vector<Result>& b) {
  if (a.empty() || b.empty() || !all_same_work(a, b)) return {};
  std::vector<ExactRow> rows;
  for (const Result& of_a : a) {
    for (const Result& of_b : b) add(rows, compare_pair(of_a, of_b));
  }
  return rows;
}

namespace {

using Trace = std::vector<double>;

std::vector<Trace> traces_of(const AbRecord& record, AbSide side) {
  std::vector<Trace> traces;
  for (const AbPair& pair : record.pairs) {
    Trace trace;
    for (const std::vector<AbTurn>* turns : {&pair.warmup, &pair.turns}) {
      for (const AbTurn& turn : *turns) {
        if (turn.side == side) trace.insert(trace.end(), turn.loss.begin(), turn.loss.end());
      }
    }
    traces.push_back(std::move(trace));
  }
  return traces;
}

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// The first step at which two traces differ; empty when one continues the other.
std::optional<size_t> first_difference(const Trace& a, const Trace& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!same_bits(a[i], b[i])) return i;
  }
  return std::nullopt;
}

const Trace& longest(const std::vector<Trace>& traces) {
  return *std::max_element(traces.begin(), traces.end(),
                           [](const Trace& a, const Trace& b) { return a.size() < b.size(); });
}

bool repeats_itself(const std::vector<Trace>& traces) {
  const Trace& reference = longest(traces);
  return std::none_of(traces.begin(), traces.end(), [&](const Trace& trace) {
    return first_difference(reference, trace).has_value();
  });
}

/// A digest of the bits, so that equal digests are equal losses.
std::string digest_of(const Trace& trace, size_t steps) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(trace).first(steps)));
  return digest.hex();
}

std::string difference_words(const Trace& a, const Trace& b, size_t step) {
  return fmt::format("first at step {}: {} and {}", step, a[step], b[step]);
}

LossFinding not_repeated(ExactRow row, bool a_repeats, bool b_repeats, bool deterministic) {
  const char* who = a_repeats ? "B does not repeat its" : "A does not repeat its";
  const std::string words =
      fmt::format("{} own losses", a_repeats || b_repeats ? who : "A and B do not repeat their");
  if (!a_repeats && !deterministic) {
    return {std::nullopt, words + ", so that they cannot be compared; --deterministic can"};
  }
  row.verdict = CompareVerdict::kInconclusive;
  row.words = words;
  return {row, ""};
}

}  // namespace

LossFinding compare_losses(const AbRecord& record, const std::string& cell, bool other_losses) {
  if (record.pairs.empty()) return {};
  const std::vector<Trace> a = traces_of(record, AbSide::kA);
  const std::vector<Trace> b = traces_of(record, AbSide::kB);
  const Trace& of_a = longest(a);
  const Trace& of_b = longest(b);
  const size_t steps = std::min(of_a.size(), of_b.size());
  if (steps == 0) return {};
  ExactRow row{cell,
               fmt::format("losses of {} steps", format_count(static_cast<int64_t>(steps))),
               "",
               {},
               {},
               digest_of(of_a, steps),
               digest_of(of_b, steps),
               {},
               {}};
  const bool a_repeats = repeats_itself(a);
  const bool b_repeats = repeats_itself(b);
  if (!a_repeats || !b_repeats) {
    const bool deterministic = text_of(record.a.identity, "protocol.deterministic") == "yes";
    return not_repeated(row, a_repeats, b_repeats, deterministic);
  }
  const std::optional<size_t> step = first_difference(of_a, of_b);
  if (!step) return {row, ""};
  const std::string words = difference_words(of_a, of_b, *step);
  if (other_losses) return {std::nullopt, "the losses differ, as they may: " + words};
  row.verdict = CompareVerdict::kRegression;
  row.words = "must be equal; " + words;
  return {row, ""};
}

namespace {

constexpr double kLooks = 2;
constexpr auto kTurns = static_cast<size_t>(kTurnsOfBlock);
constexpr size_t kMostStepsOfTurn = 64;

const MetricRow& gate_of_rate() {
  const MetricRow* gate = find_metric_row(kRateMetric);
  if (gate == nullptr || gate->rule != MetricRule::kGated) {
    throw std::logic_error("judge_ab: images_per_s is not gated");
  }
  return *gate;
}

std::string cell_of(const AbRecord& record) {
  const std::string cell = text_of(record.a.identity, "cell");
  return cell.empty() ? record.a.benchmark : cell;
}

/// Returns the fields that must agree in both builds.
Strings work_of(const AbBuild& build) {
  Strings fields = build.identity;
  fields["benchmark"] = build.benchmark;
  fields["variant"] = build.variant;
  fields["batch"] = std::to_string(build.batch);
  return fields;
}

double median_step_s(std::span<const AbTurn> turns, AbSide side) {
  std::vector<double> steps;
  for (const AbTurn& turn : turns) {
    if (turn.side == side) steps.insert(steps.end(), turn.step_s.begin(), turn.step_s.end());
  }
  return median(steps);
}

/// Logarithms of a turn's steps; of many steps as many order statistics as make no difference.
std::vector<double> logs_of(const AbTurn& turn) {
  std::vector<double> logs;
  for (const double seconds : turn.step_s) logs.push_back(std::log(seconds));
  if (logs.size() <= kMostStepsOfTurn) return logs;
  std::vector<double> thinned;
  for (size_t i = 0; i < kMostStepsOfTurn; ++i) {
    thinned.push_back(
        quantile(logs, (static_cast<double>(i) + 0.5) / static_cast<double>(kMostStepsOfTurn)));
  }
  return thinned;
}

/// The two turns of a couple were made one right after the other, while the machine was equally
/// fast.
void add_differences(const AbTurn& one, const AbTurn& two, std::vector<double>& differences) {
  const std::vector<double> a = logs_of(one.side == AbSide::kA ? one : two);
  const std::vector<double> b = logs_of(one.side == AbSide::kA ? two : one);
  for (const double of_a : a) {
    for (const double of_b : b) differences.push_back(of_b - of_a);
  }
}

/// The couples of turns that are whole blocks: ABBA is two couples in opposite orders.
double worsening_of(std::span<const AbTurn> turns) {
  std::vector<double> differences;
  for (size_t i = 0; i < turns.size(); i += 2) {
    add_differences(turns[i], turns[i + 1], differences);
  }
  return median(differences);
}

void require_block(std::span<const AbTurn> block) {
  const AbSide first = block[0].side;
  if (block[1].side != first && block[2].side != first && block[3].side == first) return;
  throw bad_input("ab", "pairs", "a block of other turns", "ABBA or BAAB");
}

/// Without a whole block there is no figure.
std::optional<AbPairFigure> figure_of(const AbPair& pair) {
  const size_t whole = pair.turns.size() / kTurns;
  if (whole == 0) return std::nullopt;
  const std::span<const AbTurn> turns = std::span(pair.turns).first(whole * kTurns);
  std::vector<double> blocks;
  for (size_t i = 0; i < turns.size(); i += kTurns) {
    const auto block = turns.subspan(i, kTurns);
    require_block(block);
    blocks.push_back(worsening_of(block));
  }
  AbPairFigure figure;
  figure.first = pair.first;
  figure.blocks = static_cast<int64_t>(whole);
  figure.a_step_s = median_step_s(turns, AbSide::kA);
  figure.b_step_s = median_step_s(turns, AbSide::kB);
  figure.worsening = worsening_of(turns);
  const auto [least, most] = std::minmax_element(blocks.begin(), blocks.end());
  figure.spread = *most - *least;
  return figure;
}

ExactRow compare_parameters(const AbRecord& record, const std::string& cell) {
  ExactRow row{cell, "parameters", "count", {}, {}, {}, {}, {}, {}};
  row.base = static_cast<double>(record.a.parameters);
  row.candidate = static_cast<double>(record.b.parameters);
  if (record.a.parameters != record.b.parameters) {
    row.verdict = CompareVerdict::kRegression;
    row.words = "must be equal";
  }
  return row;
}

SideSummary summary(const AbBuild& build, int64_t pairs) {
  SideSummary side;
  side.name = build.name;
  side.runs = pairs;
  const std::string commit = text_of(build.about, "commit");
  if (!commit.empty()) side.commits.push_back(commit);
  return side;
}

class Judge {
 public:
  Judge(const AbRecord& record, const AbOptions& options)
      : record_(record), options_(options), cell_(cell_of(record)) {}

  AbVerdict judge() {
    take_pairs();
    describe();
    Comparison& comparison = verdict_.comparison;
    comparison.differences = differing_fields(work_of(record_.a), work_of(record_.b), cell_);
    if (!comparison.differences.empty()) {
      comparison.find(CompareVerdict::kNotComparable,
                      fmt::format("{}: differs in {}", cell_, first_of(comparison.differences)));
      return std::move(verdict_);
    }
    judge_exactly();
    judge_rate();
    return std::move(verdict_);
  }

 private:
  void take_pairs() {
    for (const AbPair& pair : record_.pairs) {
      if (const auto figure = figure_of(pair)) verdict_.pairs.push_back(*figure);
    }
    const auto whole = std::find_if(
        verdict_.pairs.begin(), verdict_.pairs.end(),
        [&](const AbPairFigure& figure) { return figure.blocks < record_.plan.blocks; });
    const int64_t made = whole - verdict_.pairs.begin();
    const int64_t look = record_.plan.pairs;
    verdict_.extended = made >= 2 * look;
    verdict_.judged_pairs = verdict_.extended ? 2 * look : std::min(made, look);
  }

  void describe() {
    Comparison& comparison = verdict_.comparison;
    comparison.base = summary(record_.a, verdict_.judged_pairs);
    comparison.candidate = summary(record_.b, verdict_.judged_pairs);
    comparison.candidate.latest_utc = record_.created_utc;
    comparison.cells = 1;
    comparison.alpha = options_.alpha / kLooks;
    comparison.resamples = options_.resamples;
    comparison.seed = options_.seed;
    if (!record_.ended.empty()) comparison.notes.push_back("ended early: " + record_.ended);
    const std::vector<std::string> changed = changes_while_it_ran(record_.environment);
    if (!changed.empty()) {
      comparison.notes.push_back(fmt::format("changed while it ran: {}", fmt::join(changed, ", ")));
    }
    if (record_.plan.slow_down_frac > 0) {
      comparison.notes.push_back(
          fmt::format("a control: every step of B was made to take {} % longer",
                      100 * record_.plan.slow_down_frac));
    }
  }

  void judge_exactly() {
    Comparison& comparison = verdict_.comparison;
    comparison.exact.push_back(compare_parameters(record_, cell_));
    LossFinding losses = compare_losses(record_, cell_, options_.other_losses);
    if (losses.row) comparison.exact.push_back(*losses.row);
    if (!losses.note.empty()) comparison.notes.push_back(losses.note);
    if (record_.figures.empty()) {
      comparison.notes.push_back("bytes and FLOPs were not compared: there were no short runs");
    }
    for (ExactRow row : record_.figures) {
      if (row.metric == kLossTrace && options_.other_losses) continue;
      row.cell = cell_;
      comparison.exact.push_back(std::move(row));
    }
    for (const ExactRow& row : comparison.exact) find(row.metric, row.verdict, row.words);
  }

  void judge_rate() {
    PairedSample sample;
    StochasticRow& row = sample.row;
    row.cell = cell_;
    const MetricRow& gate = gate_of_rate();
    row.metric = gate.name;
    row.unit = gate.unit;
    row.direction = gate.direction;
    row.gated = true;
    row.pairs = verdict_.judged_pairs;
    row.noise_floor_frac = options_.noise_floor_frac.value_or(record_.plan.noise_floor_frac);
    row.margin_frac = std::max(gate.gate_margin_frac, 2 * row.noise_floor_frac);
    fill_figures(sample);
    sample.timing.throttled = slowed_down();
    if (row.pairs < record_.plan.pairs) {
      row.pairs_needed = record_.plan.pairs;
      decide(row, CompareVerdict::kInconclusive,
             fmt::format("only {} of {} pairs were made", row.pairs, record_.plan.pairs));
    } else {
      judge_gates({&sample}, {options_.alpha / kLooks, options_.resamples, options_.seed, {}});
    }
    find(row.metric, row.verdict, row.words);
    verdict_.comparison.stochastic.push_back(std::move(row));
  }

  /// Says so in words, if it was seen in the same share of pairs as of runs (compare.h); empty: it
  /// was not seen.
  [[nodiscard]] std::string slowed_down() const {
    size_t slow = 0;
    std::string reasons;
    for (const AbPair& pair : record_.pairs) {
      const std::string words = slow_downs(pair.clock_reasons);
      slow += words.empty() ? 0 : 1;
      if (!words.empty()) reasons += (reasons.empty() ? "" : ", ") + words;
    }
    if (static_cast<double>(slow) >
        kMostThrottledFrac * static_cast<double>(record_.pairs.size())) {
      return fmt::format("the device slowed itself down in {} of {} pairs: {}", slow,
                         record_.pairs.size(), slow_downs(reasons));
    }
    const std::string around = slow_downs(record_.environment);
    return around.empty() ? "" : "the device slowed itself down: " + around;
  }

  void fill_figures(PairedSample& sample) const {
    std::vector<double> a;
    std::vector<double> b;
    for (int64_t i = 0; i < verdict_.judged_pairs; ++i) {
      const AbPairFigure& figure = verdict_.pairs[static_cast<size_t>(i)];
      a.push_back(figure.a_step_s);
      b.push_back(figure.b_step_s);
      sample.worsening.push_back(figure.worsening);
    }
    if (sample.worsening.empty()) return;
    const auto batch = static_cast<double>(record_.a.batch);
    sample.row.base = batch / median(a);
    sample.row.candidate = batch / median(b);
    sample.row.ratio = std::exp(-hodges_lehmann(sample.worsening));
  }

  void find(const std::string& metric, CompareVerdict verdict, const std::string& words) {
    verdict_.comparison.find(verdict,
                             fmt::format("{}: {} ({})", metric, verdict_name(verdict), words));
  }

  const AbRecord& record_;
  const AbOptions& options_;
  std::string cell_;
  AbVerdict verdict_;
};

}  // namespace

int64_t fewest_ab_pairs(double alpha) {
  return fewest_pairs(alpha / kLooks, 1);
}

AbVerdict judge_ab(const AbRecord& record, const AbOptions& options) {
  const int64_t fewest = fewest_ab_pairs(options.alpha);
  if (record.plan.pairs < fewest) {
    throw bad_input(
        "ab", "pairs", std::to_string(record.plan.pairs),
        fmt::format("at least {}: fewer can never reach alpha {}", fewest, options.alpha / kLooks));
  }
  return Judge(record, options).judge();
}

bool wants_extension(const AbRecord& record, const AbOptions& options) {
  const AbVerdict verdict = judge_ab(record, options);
  const Comparison& comparison = verdict.comparison;
  return comparison.differences.empty() && !verdict.extended && record.ended.empty() &&
         verdict.judged_pairs == record.plan.pairs &&
         std::all_of(comparison.exact.begin(), comparison.exact.end(),
                     [](const ExactRow& row) { return passes(row.verdict); }) &&
         comparison.stochastic.front().verdict == CompareVerdict::kInconclusive;
}

}  // namespace noisemark::reports
