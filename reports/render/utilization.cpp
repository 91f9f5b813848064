#include "reports/render/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"

namespace noisemark::reports {
namespace {

constexpr const char* kNotMeasured = "not measured";

/// The metrics that are shares of the time of a run's steps.
std::vector<const MetricRow*> shares() {
  std::vector<const MetricRow*> all;
  for (const MetricRow& row : metric_table()) {
    if (row.share) all.push_back(&row);
  }
  return all;
}

bool is_of_gpu(const MetricRow& share) {
  return share.name.starts_with("gpu_");
}

constexpr const char* kThroughputDefinition =
    "\nThe metrics are those of TBD (Zhu et al., Benchmarking and Analyzing Deep Neural Network "
    "Training, IISWC 2018, arXiv 1803.06905):\n\n"
    "- images/s, its throughput: training samples that a second processes once the training is "
    "steady. Here: the batch over the median step after the warm-up.\n";

constexpr const char* kMemoryDefinition =
    "- Memory: TBD tells weights, gradients, feature maps, workspace and what the training "
    "allocates as it runs apart. Here every byte has its owner; feature maps are activations.\n";

std::string definitions() {
  std::string text = kThroughputDefinition;
  for (const MetricRow* row : shares()) {
    if (!row->share->definition.empty()) text += fmt::format("- {}\n", row->share->definition);
  }
  return text + kMemoryDefinition;
}

/// Names the figures that some results lack, by the reason.
class Missing {
 public:
  void add(const std::string& result, std::string_view title, const std::string& reason) {
    titles_[{reason, result}].emplace_back(title);
  }

  [[nodiscard]] std::string words() const {
    std::map<std::pair<std::string, std::vector<std::string>>, std::vector<std::string>> alike;
    for (const auto& [key, titles] : titles_)
      alike[{key.first, titles}].push_back(code(key.second));
    std::string text;
    for (const auto& [key, results] : alike) {
      text += fmt::format("- {} of {}: {}\n", fmt::join(key.second, ", "), fmt::join(results, ", "),
                          plain(key.first));
    }
    return text.empty() ? "" : "\nThese figures were not measured:\n\n" + text;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> titles_;
};

std::string why_missing(const Result& result, const MetricRow& share, const Metric* metric) {
  if (metric != nullptr) return metric->missing_reason;
  if (is_of_gpu(share) && result.identity.device == "cpu")
    return "it is a GPU's, and this ran on a CPU";
  const Utilization& use = result.utilization;
  std::string reason;
  if (is_of_gpu(share)) reason = use.measured ? use.device_use.missing_reason : use.missing_reason;
  return reason.empty() ? "the program that wrote the result did not measure it" : reason;
}

std::string share_cell(const NamedResult& named, const MetricRow& share, Missing& missing) {
  const Metric* metric = find_metric(named.result, share.name);
  if (metric != nullptr && metric->value) return format_percent(*metric->value);
  missing.add(named.name, share.share->title, why_missing(named.result, share, metric));
  return kNotMeasured;
}

/// Returns the owners that hold a byte at a peak, in the order of the first run that names them,
/// each with the largest share of a peak that it has.
std::vector<std::pair<std::string, double>> owners_at_peak(
    const std::vector<NamedResult>& results) {
  std::vector<std::pair<std::string, double>> owners;
  for (const auto& [name, result] : results) {
    for (const std::string& owner : result.memory.categories) {
      const int64_t bytes = result.memory.peak.bytes_of(owner);
      if (bytes == 0) continue;
      const double share =
          static_cast<double>(bytes) / static_cast<double>(result.memory.peak_bytes);
      const auto known = std::find_if(owners.begin(), owners.end(),
                                      [&](const auto& other) { return other.first == owner; });
      if (known == owners.end()) {
        owners.emplace_back(owner, share);
      } else {
        known->second = std::max(known->second, share);
      }
    }
  }
  return owners;
}

/// The owners that get a column of their own, and those that share one so that the table fits on a
/// page.
struct OwnerColumns {
  std::vector<std::string> own;
  std::vector<std::string> shared;
};

OwnerColumns columns_of(const std::vector<NamedResult>& results) {
  constexpr double kOwnColumnFrac = 0.01;
  OwnerColumns columns;
  auto& [own, shared] = columns;
  for (const auto& [owner, share] : owners_at_peak(results)) {
    (share < kOwnColumnFrac ? shared : own).push_back(owner);
  }
  if (shared.size() < 2) {
    own.insert(own.end(), shared.begin(), shared.end());
    shared.clear();
  }
  return columns;
}

}  // namespace

std::string utilization_table(const std::vector<NamedResult>& results) {
  std::vector<MarkdownTable::Column> columns{{"result"},
                                             {"benchmark", Align::kLeft, Fold::kIfAlike},
                                             {"batch", Align::kRight, Fold::kIfAlike},
                                             {"precision", Align::kLeft, Fold::kIfAlike},
                                             {"images/s", Align::kRight}};
  for (const MetricRow* row : shares()) {
    columns.push_back({std::string(row->share->title), Align::kRight,
                       is_of_gpu(*row) ? Fold::kIfAlike : Fold::kNever});
  }
  MarkdownTable table(columns);
  Missing missing;
  for (const NamedResult& named : results) {
    const Result& result = named.result;
    const std::optional<double> rate = metric_value(result, kRateMetric);
    if (!rate) continue;
    std::vector<std::string> row{named.name, benchmark_name(result.identity),
                                 format_count(result.protocol.batch), result.identity.precision,
                                 format_per_s(*rate)};
    for (const MetricRow* share : shares()) row.push_back(share_cell(named, *share, missing));
    table.add_row(row);
  }
  return table.empty() ? "" : table.text() + missing.words() + definitions();
}

std::string arithmetic_table(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"work per image", Align::kRight},
                       {"achieved", Align::kRight},
                       {"measured peak", Align::kRight},
                       {"MFU", Align::kRight}});
  for (const auto& [name, result] : results) {
    const Utilization& use = result.utilization;
    if (!use.measured) continue;
    const auto work = static_cast<double>(use.forward_flop_per_image + use.backward_flop_per_image);
    table.add_row({name, format_flop(work), format_flop_per_s(use.achieved_flop_per_s),
                   format_flop_per_s(use.gemm_peak_flop_per_s), format_percent(use.mfu_frac)});
  }
  return table.empty() ? "" : table.text();
}

std::string memory_table(const std::vector<NamedResult>& results) {
  const auto measured = std::count_if(results.begin(), results.end(), [](const auto& named) {
    return named.result.memory.measured;
  });
  const auto [own, shared] = columns_of(results);
  const Fold fold = measured > 1 ? Fold::kIfAlike : Fold::kNever;
  std::vector<MarkdownTable::Column> columns = {{"result"}, {"sum", Align::kRight}};
  for (const std::string& owner : own) columns.push_back({owner, Align::kRight, fold});
  if (!shared.empty()) columns.push_back({"others", Align::kRight, fold});
  columns.push_back({"bytes without an owner", Align::kRight, Fold::kIfAlike});
  MarkdownTable table(columns);
  for (const auto& [name, result] : results) {
    if (!result.memory.measured) continue;
    const MemorySnapshot& peak = result.memory.peak;
    std::vector<std::string> row = {name, ""};
    int64_t sum = peak.unattributed_bytes;
    for (const std::string& owner : own) {
      const int64_t held = peak.bytes_of(owner);
      row.push_back(format_mib(held));
      sum += held;
    }
    int64_t others = 0;
    for (const std::string& owner : shared) others += peak.bytes_of(owner);
    if (!shared.empty()) row.push_back(format_mib(others));
    sum += others;
    row.push_back(format_bytes(peak.unattributed_bytes));
    row[1] = format_mib(sum) + (sum == result.memory.peak_bytes ? "" : " (does not close)");
    table.add_row(row);
  }
  if (table.empty() || shared.empty()) return table.empty() ? "" : table.text();
  return fmt::format(
      "{}\nOthers are {}: each holds less than 1 % of every peak here. The report of a run has its "
      "own row for each.\n",
      table.text(), fmt::join(shared, ", "));
}

std::string machine_sections(const std::vector<NamedResult>& results) {
  const std::pair<const char*, std::string> sections[] = {
      {"Memory at the peak, by owner (MiB)", memory_table(results)},
      {"Utilization", utilization_table(results)},
      {"Arithmetic", arithmetic_table(results)}};
  std::string text;
  for (const auto& [heading, table] : sections) {
    if (!table.empty()) text += fmt::format("\n## {}\n\n{}", heading, table);
  }
  return text;
}

}  // namespace noisemark::reports
