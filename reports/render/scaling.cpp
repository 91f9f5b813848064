#include "reports/render/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

double middle(const Result& result, const std::vector<double>& samples) {
  const std::vector<double> values = steady_steps(result, samples);
  return values.empty() ? 0 : median(values);
}

std::vector<double> without(std::vector<double> whole, const std::vector<double>& part) {
  for (size_t i = 0; i < std::min(whole.size(), part.size()); ++i) whole[i] -= part[i];
  return whole;
}

bool by_own_work(const RankTimes& a, const RankTimes& b) {
  return std::pair(a.own_s, a.rank) < std::pair(b.own_s, b.rank);
}

}  // namespace

std::vector<RankTimes> rank_times(const Result& result) {
  std::vector<RankTimes> times;
  for (const RankRecord& record : result.ranks) {
    const Samples& samples = record.samples;
    if (samples.exposed_s.empty() || steady_steps(result, samples.step_s).empty()) continue;
    times.push_back({record.rank, middle(result, samples.step_s),
                     middle(result, samples.communication_s), middle(result, samples.exposed_s),
                     middle(result, without(samples.step_s, samples.exposed_s))});
  }
  return times;
}

const RankTimes* slowest_of(const std::vector<RankTimes>& times) {
  const auto found = std::max_element(times.begin(), times.end(), by_own_work);
  return found == times.end() ? nullptr : &*found;
}

const RankTimes* median_of(const std::vector<RankTimes>& times) {
  std::vector<const RankTimes*> sorted;
  for (const RankTimes& one : times) sorted.push_back(&one);
  std::sort(sorted.begin(), sorted.end(),
            [](const RankTimes* a, const RankTimes* b) { return by_own_work(*a, *b); });
  return sorted.empty() ? nullptr : sorted[(sorted.size() - 1) / 2];
}

std::string pipeline_words(const Identity& identity) {
  return fmt::format("stages by {} of {} micro-batches", identity.pipeline,
                     identity.micro_batches.value_or(0));
}

std::optional<Bubble> bubble_of(const Result& result) {
  const Identity& id = result.identity;
  if (id.pipeline.empty() || !id.ranks || !id.micro_batches) return std::nullopt;
  double waits = 0;
  double longest = 0;
  for (const RankRecord& record : result.ranks) {
    waits += middle(result, record.samples.exposed_s) / static_cast<double>(*id.ranks);
    longest = std::max(longest, middle(result, record.samples.forward_s) +
                                    middle(result, record.samples.backward_s));
  }
  if (longest <= 0) return std::nullopt;
  const auto others = static_cast<double>(*id.ranks - 1);
  return Bubble{waits / longest, others / (static_cast<double>(*id.micro_batches) + others)};
}

std::string shared_processors(const Result& result) {
  int64_t local = result.identity.ranks.value_or(1);
  if (!result.ranks.empty() && result.ranks.front().local_rank) local = 0;
  for (const RankRecord& record : result.ranks) {
    local = std::max(local, record.local_rank.value_or(-1) + 1);
  }
  const std::string text = text_of(result.identity.hardware, "cpu_threads");
  int64_t processors = 0;
  std::from_chars(text.data(), text.data() + text.size(), processors);
  const int64_t threads = result.identity.threads;
  const int64_t loaders = result.protocol.loader_threads;
  if (local < 2 || processors == 0 || local * (threads + loaders) <= processors) return "";
  return fmt::format("{} ranks with {} and {} each share {} processors", local,
                     format_counted(threads, "thread"), format_counted(loaders, "loader thread"),
                     processors);
}

std::optional<double> rate_without_exposed(const Result& result) {
  const std::optional<double> rate = metric_value(result, kRateMetric);
  const std::vector<RankTimes> times = rank_times(result);
  const RankTimes* slowest = slowest_of(times);
  if (!rate || slowest == nullptr || slowest->own_s <= 0) return {};
  return *rate * slowest->step_s / slowest->own_s;
}

namespace {

/// A row of a sweep over ranks that left a rate.
struct ScalingRow {
  const SweepRow* row = nullptr;
  int64_t ranks = 1;
  double rate = 0;
};

/// On these axes a run of one rank has no other values than 1 and "none".
constexpr std::string_view kAxesOfRanks[] = {"ranks", "pipeline"};

/// Returns the values of the other axes.
std::vector<std::string> others_of(const Sweep& sweep, const SweepRow& row) {
  std::vector<std::string> others;
  for (size_t axis = 0; axis < sweep.keys.size(); ++axis) {
    const auto* const end = std::end(kAxesOfRanks);
    if (std::find(std::begin(kAxesOfRanks), end, sweep.keys[axis]) == end) {
      others.push_back(row.values[axis]);
    }
  }
  return others;
}

std::optional<ScalingRow> scaling_row(const SweepRow& row) {
  if (!row.result) return std::nullopt;
  const std::optional<double> rate = metric_value(*row.result, kRateMetric);
  if (!rate || *rate <= 0) return std::nullopt;
  return ScalingRow{&row, row.result->identity.ranks.value_or(1), *rate};
}

/// Says why a row can claim no efficiency beside that of one rank; empty: it can.
std::string why_no_efficiency(const ScalingRow& row, const ScalingRow* one) {
  if (one == nullptr) return "no row of one rank";
  if (const std::string shared = shared_processors(*row.row->result); !shared.empty()) {
    return "shared processors";
  }
  const int64_t threads = row.row->result->identity.threads;
  const int64_t threads_of_one = one->row->result->identity.threads;
  return threads == threads_of_one ? "" : "other threads than one rank";
}

std::vector<std::string> scaling_cells(const ScalingRow& row, const ScalingRow* one) {
  const Result& result = *row.row->result;
  std::vector<std::string> cells = row.row->values;
  const std::vector<RankTimes> times = rank_times(result);
  const RankTimes* slowest = slowest_of(times);
  const auto free = rate_without_exposed(result);
  cells.push_back(format_per_s(row.rate));
  cells.push_back(slowest == nullptr ? std::string(kMissing)
                                     : format_percent(slowest->exposed_s / slowest->step_s));
  cells.push_back(free ? format_per_s(*free) : std::string(kMissing));
  const std::string why = why_no_efficiency(row, one);
  const auto efficiency = [&](double rate) {
    return format_percent(rate / (static_cast<double>(row.ranks) * one->rate));
  };
  cells.push_back(why.empty() ? efficiency(row.rate) : why);
  cells.push_back(!why.empty() ? why : free ? efficiency(*free) : std::string(kMissing));
  return cells;
}

/// The columns that only a pipeline fills.
constexpr const char* kBubbleColumns[] = {"bubble", "bubble of equal stages"};

std::vector<std::string> bubble_cells(const ScalingRow& row) {
  const auto bubble = bubble_of(*row.row->result);
  if (!bubble) return {std::string(kMissing), std::string(kMissing)};
  return {format_percent(bubble->measured), format_percent(bubble->ideal)};
}

std::string words_on_bubbles(bool has_pipeline) {
  if (!has_pipeline) return "";
  return "A bubble is what the mean stage waits, as a share of the longest stage's forward and "
         "backward time; of S equal stages without communication it would be (S - 1) / (M + S - 1) "
         "for M micro-batches.\n";
}

std::string words_on_sharing(const Sweep& sweep) {
  std::string text;
  for (const SweepRow& row : sweep.rows) {
    const std::string shared = row.result ? shared_processors(*row.result) : "";
    if (!shared.empty()) text += fmt::format("- {}: {}.\n", code(row.name), shared);
  }
  if (text.empty()) return "";
  return "\nWhere threads share processors, a rank takes from the others what it uses, and "
         "images/s say nothing about ranks with devices of their own:\n" +
         text;
}

}  // namespace

std::string scaling_table(const Sweep& sweep) {
  const std::vector<std::string>& keys = sweep.keys;
  if (std::find(keys.begin(), keys.end(), "ranks") == keys.end()) return "";
  std::vector<ScalingRow> rows;
  std::map<std::vector<std::string>, ScalingRow> alone;
  for (const SweepRow& row : sweep.rows) {
    const auto one = scaling_row(row);
    if (!one) continue;
    rows.push_back(*one);
    if (one->ranks == 1) alone[others_of(sweep, row)] = *one;
  }
  std::vector<MarkdownTable::Column> columns;
  for (const std::string& key : keys) columns.push_back({key});
  for (const char* name :
       {"images/s", "exposed", "images/s without it", "efficiency", "efficiency without it"}) {
    columns.push_back({name, Align::kRight});
  }
  const bool has_pipeline = std::any_of(rows.begin(), rows.end(), [](const ScalingRow& row) {
    return !row.row->result->identity.pipeline.empty();
  });
  if (has_pipeline) {
    for (const char* name : kBubbleColumns) columns.push_back({name, Align::kRight});
  }
  MarkdownTable table(columns);
  for (const ScalingRow& row : rows) {
    const auto one = alone.find(others_of(sweep, *row.row));
    std::vector<std::string> cells =
        scaling_cells(row, one == alone.end() ? nullptr : &one->second);
    if (has_pipeline) {
      for (std::string& cell : bubble_cells(row)) cells.push_back(std::move(cell));
    }
    table.add_row(std::move(cells));
  }
  return fmt::format(
      "\n## Scaling\n\n{}\nThe efficiency of N ranks is their images/s over N times those of one. "
      "Exposed is the share of a step in which the slowest rank only waited for others.\n{}{}",
      table.text(), words_on_bubbles(has_pipeline), words_on_sharing(sweep));
}

}  // namespace noisemark::reports
