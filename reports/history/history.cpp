#include "reports/history/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "reports/compare/comparable.h"
#include "reports/compare/exact_tier.h"
#include "reports/compare/sides.h"
#include "reports/error.h"
#include "reports/gate.h"
#include "reports/nearest.h"
#include "reports/sha256.h"
#include "reports/statistics.h"

namespace noisemark::reports {
namespace {

constexpr size_t kCommitDigits = 12;
constexpr size_t kIdentityDigits = 12;

using Runs = std::vector<const NamedResult*>;
using GroupKey = std::pair<std::string, Strings>;  ///< cell, identity

bool finished(const Result& result) {
  const auto code = static_cast<ExitCode>(result.exit.code);
  return code == ExitCode::kPass || code == ExitCode::kFailed;
}

HistoryRun run_of(const NamedResult& named) {
  const Result& result = named.result;
  const Provenance& from = result.provenance;
  return {named.name, result.run_id, result.created_utc,
          from.git_commit.substr(0, kCommitDigits) + (from.git_dirty ? "+" : ""),
          result.seeds.base};
}

std::string digest_of(const Strings& identity) {
  std::string text;
  for (const auto& [field, value] : identity) text += fmt::format("{}={}\n", field, value);
  return sha256_of(text).substr(0, kIdentityDigits);
}

/// Medians of the levels around each change.
void measure_levels(HistorySeries& series) {
  std::vector<size_t> bounds = {0};
  for (const HistoryChange& change : series.changes) bounds.push_back(change.at);
  bounds.push_back(series.values.size());
  const std::span<const double> values = series.values;
  const auto level = [&](size_t part) {
    return median(values.subspan(bounds[part], bounds[part + 1] - bounds[part]));
  };
  for (size_t i = 0; i < series.changes.size(); ++i) {
    series.changes[i].before = level(i);
    series.changes[i].after = level(i + 1);
  }
}

void find_changes(HistorySeries& series, const ChangePointOptions& options) {
  if (series.exact) {
    for (size_t i = 1; i < series.values.size(); ++i) {
      if (series.values[i] != series.values[i - 1]) series.changes.push_back({i, {}, 0, 0});
    }
  } else {
    series.too_few = series.values.size() < fewest_values(options);
    for (const ChangePoint& found : change_points(series.values, options)) {
      series.changes.push_back({found.at, found.p, 0, 0});
    }
  }
  measure_levels(series);
}

/// In the order in which runs name them.
std::vector<std::string> metrics_of(const Runs& runs, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const NamedResult* run : runs) {
    for (const Metric& metric : run->result.metrics) {
      const bool followed =
          wanted.empty()
              ? metric.direction != Direction::kNeutral || exact_metrics().contains(metric.name)
              : std::find(wanted.begin(), wanted.end(), metric.name) != wanted.end();
      const bool known = std::find(names.begin(), names.end(), metric.name) != names.end();
      if (followed && !known && metric.value) names.push_back(metric.name);
    }
  }
  return names;
}

HistorySeries series_of(const std::string& name, const Runs& runs,
                        const ChangePointOptions& options) {
  HistorySeries series;
  series.metric = name;
  series.exact = exact_metrics().contains(name);
  for (size_t i = 0; i < runs.size(); ++i) {
    const Metric* metric = find_metric(runs[i]->result, name);
    if (metric == nullptr || !metric->value) continue;
    if (series.values.empty()) {
      series.unit = metric->unit;
      series.direction = metric->direction;
    } else if (series.unit != metric->unit) {
      throw bad_input(runs[i]->name, name, "in " + metric->unit,
                      series.unit + ", as in the runs before");
    }
    series.runs.push_back(i);
    series.values.push_back(*metric->value);
  }
  find_changes(series, options);
  return series;
}

HistoryGroup group_of(const GroupKey& key, Runs runs, const std::vector<std::string>& metrics,
                      const ChangePointOptions& options) {
  std::sort(runs.begin(), runs.end(), [](const NamedResult* a, const NamedResult* b) {
    return std::tie(a->result.created_utc, a->result.run_id) <
           std::tie(b->result.created_utc, b->result.run_id);
  });
  HistoryGroup group{key.first, digest_of(key.second), {}, {}, {}};
  for (const NamedResult* run : runs) group.runs.push_back(run_of(*run));
  for (const std::string& name : metrics_of(runs, metrics)) {
    group.series.push_back(series_of(name, runs, options));
  }
  return group;
}

/// What the identities of a cell do not agree in: each field in which one differs from the first.
std::set<std::string> distinguishing(const std::map<GroupKey, Runs>& groups,
                                     const std::string& cell) {
  const Strings* first = nullptr;
  std::set<std::string> fields;
  for (const auto& [key, runs] : groups) {
    if (key.first != cell) continue;
    if (first == nullptr) first = &key.second;
    for (const FieldDifference& found : differing_fields(*first, key.second)) {
      fields.insert(found.field);
    }
  }
  return fields;
}

void check_metrics(const std::vector<NamedResult>& results,
                   const std::vector<std::string>& metrics) {
  std::set<std::string> known;
  for (const NamedResult& run : results) {
    for (const Metric& metric : run.result.metrics) known.insert(metric.name);
  }
  for (const std::string& name : metrics) {
    if (known.contains(name)) continue;
    throw bad_input("--metric", "", name,
                    accepted_names(name, std::vector<std::string>(known.begin(), known.end())));
  }
}

}  // namespace

History history_of(const std::vector<NamedResult>& results, const std::vector<std::string>& metrics,
                   const ChangePointOptions& options) {
  check_metrics(results, metrics);
  History history;
  history.options = options;
  std::map<GroupKey, Runs> groups;
  for (const NamedResult& run : results) {
    if (finished(run.result)) {
      groups[{cell_name(run.result.identity), identity_fields(run.result)}].push_back(&run);
    } else {
      history.left_out.push_back(fmt::format("{}: {}", run.name, run.result.exit.status));
    }
  }
  std::sort(history.left_out.begin(), history.left_out.end());
  for (const auto& [key, runs] : groups) {
    HistoryGroup group = group_of(key, runs, metrics, options);
    for (const std::string& field : distinguishing(groups, key.first)) {
      const auto value = key.second.find(field);
      group.differs[field] = value == key.second.end() ? "" : value->second;
    }
    history.groups.push_back(std::move(group));
  }
  std::stable_sort(history.groups.begin(), history.groups.end(),
                   [](const HistoryGroup& a, const HistoryGroup& b) {
                     return std::tie(a.cell, a.runs.front().created_utc, a.identity) <
                            std::tie(b.cell, b.runs.front().created_utc, b.identity);
                   });
  return history;
}

}  // namespace noisemark::reports
