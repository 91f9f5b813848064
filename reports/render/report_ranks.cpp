#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "reports/render/report_sections.h"
#include "reports/render/scaling.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports::sections {
namespace {

/// A rank whose own work takes longer than that of the median rank by this factor keeps the others
/// waiting. Ranks of equal machines differ by less, as their steps do from one to the next.
constexpr double kStraggler = 1.05;

std::string median_ms(const Result& result, const std::vector<double>& samples) {
  const std::vector<double> values = steady_steps(result, samples);
  return values.empty() ? std::string(kMissing) : format_ms(median(values));
}

std::vector<std::string> row_of(const Result& result, const RankRecord& record) {
  const Samples& samples = record.samples;
  return {fmt::format("{}", record.rank),         median_ms(result, samples.step_s),
          median_ms(result, samples.data_wait_s), median_ms(result, samples.forward_s),
          median_ms(result, samples.backward_s),  median_ms(result, samples.optimizer_s)};
}

/// Returns the owners that hold anything at the peak of any rank.
std::vector<std::string> owners_at_peaks(const Result& result) {
  std::vector<std::string> owners = result.memory.categories;
  std::erase_if(owners, [&](const std::string& owner) {
    return std::none_of(result.ranks.begin(), result.ranks.end(),
                        [&](const RankRecord& record) { return record.peak.bytes_of(owner) != 0; });
  });
  return owners;
}

/// Returns a table of who holds memory at the peak of each rank; empty where it was not measured.
std::string by_owner(const Result& result) {
  if (result.ranks.front().boundaries.empty()) return "";
  const std::vector<std::string> owners = owners_at_peaks(result);
  std::vector<MarkdownTable::Column> columns{{"rank", Align::kRight},
                                             {"peak (MiB)", Align::kRight}};
  for (const std::string& owner : owners) {
    columns.push_back({plain(owner) + " (MiB)", Align::kRight});
  }
  columns.push_back({"without an owner", Align::kRight});
  MarkdownTable table(columns);
  for (const RankRecord& record : result.ranks) {
    const MemorySnapshot& peak = record.peak;
    std::vector<std::string> row{fmt::format("{}", record.rank), format_mib(peak.allocator_bytes)};
    for (const std::string& owner : owners) row.push_back(format_mib(peak.bytes_of(owner)));
    row.push_back(format_exact_bytes(peak.unattributed_bytes));
    table.add_row(row);
  }
  return "\n### Memory of each rank\n\nThe table shows who holds memory at the peak of each rank's "
         "step.\n\n" +
         table.text();
}

std::vector<std::string> row_of(const RankTimes& times, const RankRecord& record) {
  return {fmt::format("{}", times.rank),
          quantity_cell(record.exchanges, "count"),
          quantity_cell(record.exchanged_bytes, "bytes"),
          quantity_cell(record.expected_bytes, "bytes"),
          format_ms(times.communication_s),
          format_ms(std::max(0.0, times.communication_s - times.exposed_s)),
          format_ms(times.exposed_s),
          format_ms(times.own_s)};
}

/// Returns the bytes alone, for ranks whose backend the host cannot time.
std::string exchanged_bytes(const Result& result) {
  MarkdownTable table({{"rank", Align::kRight},
                       {"exchanges", Align::kRight},
                       {"bytes", Align::kRight},
                       {"by formula", Align::kRight}});
  for (const RankRecord& record : result.ranks) {
    if (!record.exchanges) return "";
    table.add_row({fmt::format("{}", record.rank), format_count(*record.exchanges),
                   quantity_cell(record.exchanged_bytes, "bytes"),
                   quantity_cell(record.expected_bytes, "bytes")});
  }
  return table.text();
}

std::string of_each_rank(const Result& result, const std::vector<RankTimes>& times) {
  MarkdownTable table({{"rank", Align::kRight},
                       {"exchanges", Align::kRight},
                       {"bytes", Align::kRight},
                       {"by formula", Align::kRight},
                       {"communication (ms)", Align::kRight},
                       {"overlapped (ms)", Align::kRight},
                       {"exposed (ms)", Align::kRight},
                       {"own work (ms)", Align::kRight}});
  for (const RankTimes& one : times) {
    for (const RankRecord& record : result.ranks) {
      if (record.rank == one.rank) table.add_row(row_of(one, record));
    }
  }
  return table.text();
}

const RankRecord& record_of(const Result& result, int64_t rank) {
  for (const RankRecord& record : result.ranks) {
    if (record.rank == rank) return record;
  }
  return result.ranks.front();
}

/// The step by phase, on the slowest and on the median rank.
std::string by_phase(const Result& result, const RankTimes& slowest, const RankTimes& typical) {
  MarkdownTable table({{"phase"},
                       {fmt::format("slowest, rank {} (ms)", slowest.rank), Align::kRight},
                       {fmt::format("median, rank {} (ms)", typical.rank), Align::kRight}});
  const Samples& first = record_of(result, slowest.rank).samples;
  const Samples& second = record_of(result, typical.rank).samples;
  const auto add = [&](const SamplePhase& phase) {
    table.add_row({std::string(phase.name), median_ms(result, first.*phase.seconds),
                   median_ms(result, second.*phase.seconds)});
  };
  for (const SamplePhase& phase : kSamplePhases) add(phase);
  add({"**step**", &Samples::step_s});
  add({"exposed part of it", &Samples::exposed_s});
  table.add_row({"own work", format_ms(slowest.own_s), format_ms(typical.own_s)});
  return table.text();
}

std::string stragglers(const std::vector<RankTimes>& times, const RankTimes& typical) {
  std::string text;
  for (const RankTimes& one : times) {
    if (one.own_s <= kStraggler * typical.own_s) continue;
    text += fmt::format(
        "**Rank {} is a straggler: its own work takes {} more than that of rank "
        "{}, the median.**\n",
        one.rank, format_percent(one.own_s / typical.own_s - 1), typical.rank);
  }
  return text.empty() ? fmt::format(
                            "No rank is a straggler: none works more than {} longer than "
                            "the median rank.\n",
                            format_percent(kStraggler - 1))
                      : text;
}

std::string what_it_costs(const Result& result) {
  const std::optional<double> rate = metric_value(result, kRateMetric);
  const auto free = rate_without_exposed(result);
  if (!rate || !free) return "";
  std::string text = fmt::format(
      "All ranks together train {} images/s. Without the exposed part they would train {}.\n",
      format_per_s(*rate), format_per_s(*free));
  const std::string shared = shared_processors(result);
  if (shared.empty()) return text;
  return text +
         fmt::format("{}, so these figures say nothing about ranks with devices of their own.\n",
                     shared);
}

std::string stages_of(const Result& result) {
  MarkdownTable table({{"stage", Align::kRight},
                       {"first block"},
                       {"last block"},
                       {"blocks", Align::kRight},
                       {"ms for a micro-batch", Align::kRight}});
  for (const RankRecord& record : result.ranks) {
    table.add_row({fmt::format("{}", record.rank), code(record.first_block),
                   code(record.last_block), fmt::format("{}", record.blocks.value_or(0)),
                   format_ms(record.blocks_s.value_or(0))});
  }
  return table.text();
}

std::string pipeline(const Result& result) {
  if (result.identity.pipeline.empty()) return "";
  std::string text = fmt::format(
      "\n### Pipeline\n\nThe ranks are {}. The network was divided by the times of its blocks, "
      "which were measured before training began.\n\n{}",
      pipeline_words(result.identity), stages_of(result));
  if (const auto bubble = bubble_of(result)) {
    text += fmt::format(
        "\nThe bubble is {}: the mean stage waits for so much of the longest stage's forward and "
        "backward time. With equal stages and no communication it would be {}, which is (S - 1) / "
        "(M + S - 1) for S stages and M micro-batches.\n",
        format_percent(bubble->measured), format_percent(bubble->ideal));
    const std::string shared = shared_processors(result);
    if (!shared.empty())
      text += fmt::format("{}, so the bubble is also that of sharing.\n", shared);
  }
  return text;
}

/// Says what the figures of communication count.
std::string about_communication(const Result& result) {
  if (!result.identity.pipeline.empty()) {
    return "Exposed is the time during which a stage does nothing but wait for another one. Bytes "
           "are those of the tensors that it gives to others in one step, counted and by formula.";
  }
  return "Exposed is the part of the communication during which a rank does nothing but wait, for "
         "a slower rank too. Overlapped is the part during which its backward pass goes on. Bytes "
         "are those of the tensors that one step sums or gathers, counted and by formula.";
}

std::string communication(const Result& result) {
  const std::vector<RankTimes> times = rank_times(result);
  const RankTimes* slowest = slowest_of(times);
  const RankTimes* typical = median_of(times);
  if (slowest == nullptr || typical == nullptr) {
    const std::string bytes = exchanged_bytes(result);
    if (bytes.empty()) return "";
    return fmt::format(
        "\n### Communication\n\nBytes are those of the tensors that one step sums or gathers, "
        "counted and by formula. Seconds are not known: {} works on a stream of the GPU, which the "
        "host does not see.\n\n{}",
        plain(result.identity.backend), bytes);
  }
  return fmt::format("\n### Communication\n\n{}\n\n{}\n{}\n{}\n{}", about_communication(result),
                     of_each_rank(result, times), what_it_costs(result),
                     stragglers(times, *typical), by_phase(result, *slowest, *typical));
}

}  // namespace

std::string ranks(const Result& result) {
  if (!result.identity.ranks) return "";
  std::string text = "## Ranks\n\n";
  if (result.ranks.empty()) return text + "No rank handed over what it found.\n";
  MarkdownTable table({{"rank", Align::kRight},
                       {"step (ms)", Align::kRight},
                       {"data (ms)", Align::kRight},
                       {"forward (ms)", Align::kRight},
                       {"backward (ms)", Align::kRight},
                       {"optimizer (ms)", Align::kRight}});
  for (const RankRecord& record : result.ranks) table.add_row(row_of(result, record));
  return text +
         (result.identity.pipeline.empty()
              ? "Times are medians after the warm-up. A rank waits for the others in its backward "
                "pass, where gradients are exchanged.\n\n"
              : "Times are medians after the warm-up, those of passes with their waits for other "
                "stages.\n\n") +
         table.text() + by_owner(result) + pipeline(result) + communication(result);
}

}  // namespace noisemark::reports::sections
