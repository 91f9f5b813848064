#include "reports/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "reports/check.h"
#include "reports/convolution_workspace.h"
#include "reports/error.h"
#include "reports/gate.h"
#include "reports/json_io.h"
#include "reports/markdown.h"
#include "reports/mode_table.h"
#include "reports/quantity.h"
#include "reports/report.h"
#include "reports/table_cells.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> row_of(const NamedResult& named, const std::string& ratio,
                                Verdicts verdicts) {
  const Result& result = named.result;
  const Identity& id = result.identity;
  const auto& evaluations = result.quality.evaluations;
  std::vector<std::string> row{
      named.name,
      benchmark_name(id) + (id.custom ? " (custom)" : ""),
      id.framework,
      id.mode,
      id.baseline,
      id.precision,
      fmt::format("{} x{}", id.device, id.threads),
      rate_cell(result),
      ratio,
      bytes_cell(result, &MemorySection::peak_bytes, "peak_bytes"),
      bytes_cell(result, &MemorySection::saved_bytes, "saved_bytes"),
      evaluations.empty() ? "none" : format_number(evaluations.back().loss)};
  // A red gate in a suite is found by its name, so the verdict carries no more than that.
  if (verdicts == Verdicts::kShown) row.push_back(verdict_cell(result));
  return row;
}

// Custom runs did other work under the same name.
std::string comparable_key(const Identity& id) {
  return fmt::format("{} {} {}", benchmark_name(id), id.version, id.definition_sha256);
}

/// What the runs of a suite came to.
struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t unfinished = 0;
  int64_t custom = 0;

  void add(const Exit& exit) {
    const auto code = static_cast<ExitCode>(exit.code);
    if (exit.status == "pass") {
      ++passed;
    } else if (exit.status == "custom") {
      ++custom;
    } else if (code == ExitCode::kCannotRunHere || code == ExitCode::kInterrupted) {
      ++unfinished;
    } else {
      ++failed;
    }
  }

  void add(const MissingRun& run) { ++(run.not_run.empty() ? failed : unfinished); }

  [[nodiscard]] std::string headline() const {
    if (failed > 0) return "FAIL";
    if (unfinished > 0 || all() == 0) return "INCOMPLETE";
    return custom > 0 ? "CUSTOM" : "PASS";
  }

  [[nodiscard]] std::string words() const {
    std::string text = fmt::format("{} of {} runs passed", passed, all());
    if (failed > 0) text += fmt::format(", {} failed", failed);
    if (unfinished > 0) text += fmt::format(", {} not finished", unfinished);
    if (custom > 0) text += fmt::format(", {} custom", custom);
    return text + ".";
  }

 private:
  [[nodiscard]] int64_t all() const { return passed + failed + unfinished + custom; }
};

/// Whether `run` judges the quality of some of these: several seeds under several variants.
bool can_be_judged(const std::vector<NamedResult>& results) {
  std::map<std::string, std::pair<std::set<uint64_t>, std::set<std::string>>> benchmarks;
  for (const NamedResult& named : results) {
    const Identity& id = named.result.identity;
    auto& [seeds, variants] = benchmarks[benchmark_name(id)];
    seeds.insert(named.result.seeds.base);
    variants.insert(fmt::format("{} {} {}", id.mode, id.baseline, id.precision));
  }
  return std::any_of(benchmarks.begin(), benchmarks.end(), [](const auto& one) {
    return one.second.first.size() > 1 && one.second.second.size() > 1;
  });
}

}  // namespace

std::string side_by_side(const std::vector<NamedResult>& results, Verdicts verdicts) {
  std::vector<MarkdownTable::Column> columns{{"result"},
                                             {"benchmark"},
                                             {"framework"},
                                             {"mode"},
                                             {"baseline"},
                                             {"precision"},
                                             {"device"},
                                             {"images/s [95 %]", Align::kRight},
                                             {"ratio", Align::kRight},
                                             {"peak", Align::kRight},
                                             {"saved", Align::kRight},
                                             {"val loss", Align::kRight}};
  if (verdicts == Verdicts::kShown) columns.push_back({"verdict"});
  MarkdownTable table(columns);
  std::map<std::string, double> first_rate;
  for (const NamedResult& named : results) {
    const Metric* rate = find_metric(named.result, "images_per_s");
    std::string ratio;
    if (rate != nullptr && rate->value && *rate->value > 0) {
      const double base =
          first_rate.emplace(comparable_key(named.result.identity), *rate->value).first->second;
      ratio = fmt::format("{:.3f}", *rate->value / base);
    }
    table.add_row(row_of(named, ratio, verdicts));
  }
  return table.text() +
         "\nratio: images/s to the first row of the same definition. peak, saved: bytes in one "
         "training step. x: threads. not steady: no end of the warm-up was found.\n";
}

std::string table_markdown(const std::vector<std::string>& paths) {
  std::vector<NamedResult> results;
  for (const std::string& path : paths) {
    if (fs::is_regular_file(path)) {
      results.push_back({path, read_result(path)});
      continue;
    }
    for (const fs::path& folder : result_folders(path)) {
      results.push_back({folder.string(), read_result(folder / "result.json")});
    }
  }
  std::string text = side_by_side(results, Verdicts::kLeftOut);
  for (const std::string& more : {mode_table(results), workspace_table(results)}) {
    if (!more.empty()) text += "\n" + more;
  }
  return text;
}

std::string suite_summary(const std::string& title, const std::vector<NamedResult>& results,
                          const std::vector<MissingRun>& missing) {
  Tally tally;
  for (const NamedResult& named : results) tally.add(named.result.exit);
  for (const MissingRun& run : missing) tally.add(run);
  std::string text = fmt::format("# {}: {}\n\n{}\n", tally.headline(), title, tally.words());
  std::string reasons;
  for (const MissingRun& run : missing) {
    reasons += fmt::format("- {}: {}\n", code(run.name),
                           run.not_run.empty() ? "it left no result" : run.not_run);
  }
  for (const NamedResult& named : results) {
    for (const std::string& reason : named.result.exit.reasons) {
      reasons += fmt::format("- {}: {}\n", code(named.name), reason);
    }
  }
  if (!reasons.empty()) text += fmt::format("\n{}", reasons);
  text += fmt::format("\n## Side by side\n\n{}", side_by_side(results, Verdicts::kShown));
  const std::string modes = mode_table(results);
  if (!modes.empty()) text += fmt::format("\n## Memory modes\n\n{}", modes);
  return text;
}

std::string render_suite_report(const std::string& title, const std::vector<NamedResult>& results,
                                const std::vector<MissingRun>& missing) {
  std::string text = suite_summary(title, results, missing) + "\n## Reports\n\n";
  for (const NamedResult& named : results) {
    text += fmt::format("- [{0}]({0}/report.md)\n", named.name);
  }
  if (can_be_judged(results)) {
    text += fmt::format("\nWhat several seeds say about quality is in {}, beside this file.\n",
                        code("quality.md"));
  }
  return text;
}

}  // namespace noisemark::reports
