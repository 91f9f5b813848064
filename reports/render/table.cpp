#include "reports/render/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/render/check.h"
#include "reports/render/report.h"
#include "reports/render/report_sections.h"
#include "reports/render/scaling.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "reports/result/warmup.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// A setting that tells results apart, beside their names.
struct Trait {
  const char* title;
  std::function<std::string(const Identity& id)> of;
};

/// Returns whether the names of differing results say it already, as those of a suite's runs do.
bool is_told_by_names(const Trait& trait, const std::vector<NamedResult>& results) {
  std::set<std::string> values;
  for (const auto& [name, result] : results) {
    const std::string value = trait.of(result.identity);
    if (name.find(value) == std::string::npos) return false;
    values.insert(value);
  }
  return values.size() > 1;
}

/// Returns all traits, which refer to `results`.
std::vector<Trait> traits_of(const std::vector<NamedResult>& results) {
  std::vector<Trait> traits{
      {"benchmark", [&](const Identity& id) { return definition_name(id, results); }},
      {"framework", [](const Identity& id) { return id.framework; }},
      {"mode", [](const Identity& id) { return id.mode; }},
      {"baseline", [](const Identity& id) { return id.baseline; }},
      {"precision", [](const Identity& id) { return id.precision; }},
      {"device", [](const Identity& id) {
         const std::string ranks = id.ranks ? fmt::format(", {} ranks", *id.ranks) : "";
         const std::string rounded = id.reduction.empty() ? "" : " reducing in " + id.reduction;
         const std::string stages = id.pipeline.empty() ? "" : ", " + pipeline_words(id);
         return fmt::format("{}, {}{}{}{}", id.device, format_counted(id.threads, "thread"), ranks,
                            rounded, stages);
       }}};
  std::erase_if(traits, [&](const Trait& one) { return is_told_by_names(one, results); });
  return traits;
}

/// Returns the settings that differ, where they are so many or so long that beside the figures they
/// would make a table wider than a page; `traits` keeps the others.
std::vector<Trait> taken_apart(std::vector<Trait>& traits,
                               const std::vector<NamedResult>& results) {
  constexpr std::ptrdiff_t kMostBesideFigures = 2;
  const auto differs = [&](const Trait& one) {
    return std::any_of(results.begin(), results.end(), [&](const NamedResult& named) {
      return one.of(named.result.identity) != one.of(results.front().result.identity);
    });
  };
  constexpr size_t kLongestBesideFigures = 24;  // "ho-relu-cifar10@cpu", and no changed keys
  const auto is_long = [&](const Trait& one) {
    return differs(one) && std::any_of(results.begin(), results.end(), [&](const auto& named) {
             return one.of(named.result.identity).size() > kLongestBesideFigures;
           });
  };
  std::vector<Trait> apart;
  if (std::count_if(traits.begin(), traits.end(), differs) <= kMostBesideFigures &&
      std::none_of(traits.begin(), traits.end(), is_long)) {
    return apart;
  }
  std::copy_if(traits.begin(), traits.end(), std::back_inserter(apart), differs);
  std::erase_if(traits, differs);
  return apart;
}

std::string settings_table(const std::vector<NamedResult>& results,
                           const std::vector<Trait>& traits) {
  if (traits.empty()) return "";
  std::vector<MarkdownTable::Column> columns{{"result"}};
  for (const Trait& trait : traits) columns.push_back({trait.title});
  MarkdownTable table(columns);
  for (const auto& [name, result] : results) {
    std::vector<std::string> row{name};
    for (const Trait& trait : traits) row.push_back(trait.of(result.identity));
    table.add_row(row);
  }
  return "\n" + table.text();
}

std::vector<std::string> row_of(const NamedResult& named, const std::string& ratio,
                                Verdicts verdicts, const std::vector<Trait>& traits) {
  const Result& result = named.result;
  std::vector<std::string> row{named.name};
  // A red gate in a suite is found by its name, so the verdict carries no more than that.
  if (verdicts == Verdicts::kShown) row.push_back(verdict_cell(result));
  for (const MetricRow& metric : metric_table()) {
    if (metric.column.empty()) continue;
    row.push_back(metric_cell(result, metric));
    if (metric.name == kRateMetric) row.push_back(ratio);
  }
  for (const Trait& trait : traits) row.push_back(trait.of(result.identity));
  return row;
}

// Custom runs did other work under the same name.
std::string comparable_key(const Identity& id) {
  return fmt::format("{} {} {}", benchmark_name(id), id.version, id.definition_sha256);
}

/// Custom runs cannot pass, so where all are custom, those are counted in which no gate failed.
std::string ended_words(int64_t passed, int64_t custom, int64_t all, std::string_view what) {
  const bool none_can_pass = custom == all && custom > 0;
  return fmt::format("{} of {} {} {}", none_can_pass ? custom : passed, all, what,
                     none_can_pass ? "ended" : "passed");
}

std::string custom_addition(int64_t custom) {
  if (custom == 0) return "";
  return fmt::format(", {} custom (no gate failed, and the benchmark's do not apply)", custom);
}

/// The verdict that the runs of a suite came to.
struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t elsewhere = 0;  ///< cannot run here
  int64_t unfinished = 0;
  int64_t custom = 0;

  void add(const Exit& exit) {
    const auto code = static_cast<ExitCode>(exit.code);
    if (exit.status == kPassStatus) {
      ++passed;
    } else if (exit.is_custom()) {
      ++custom;
    } else if (code == ExitCode::kCannotRunHere) {
      ++elsewhere;
    } else if (code == ExitCode::kInterrupted) {
      ++unfinished;
    } else {
      ++failed;
    }
  }

  void add(const MissingRun& run) {
    const bool lacking = run.not_run.starts_with(error_status(ExitCode::kCannotRunHere));
    ++(run.not_run.empty() ? failed : lacking ? elsewhere : unfinished);
  }

  [[nodiscard]] std::string headline() const {
    if (failed > 0) return "FAIL";
    if (elsewhere + unfinished > 0 || all() == 0) return "INCOMPLETE";
    return custom > 0 ? "CUSTOM" : "PASS";
  }

  [[nodiscard]] std::string words() const {
    std::string text = ended_words(passed, custom, all(), "runs");
    if (failed > 0) text += fmt::format(", {} failed", failed);
    if (elsewhere > 0) text += fmt::format(", {} cannot run here", elsewhere);
    if (unfinished > 0) text += fmt::format(", {} not finished", unfinished);
    return text + custom_addition(custom) + ".";
  }

 private:
  [[nodiscard]] int64_t all() const { return passed + failed + elsewhere + unfinished + custom; }
};

/// Returns whether `run` judges the quality of some of these: several seeds under several variants.
bool can_be_judged(const std::vector<NamedResult>& results) {
  std::map<std::string, std::pair<std::set<uint64_t>, std::set<std::string>>> benchmarks;
  for (const NamedResult& named : results) {
    const Identity& id = named.result.identity;
    auto& [seeds, variants] = benchmarks[benchmark_name(id)];
    seeds.insert(named.result.seeds.base);
    variants.insert(fmt::format("{} {} {} {}", id.mode, id.baseline, id.precision, id.reduction));
  }
  return std::any_of(benchmarks.begin(), benchmarks.end(), [](const auto& one) {
    return one.second.first.size() > 1 && one.second.second.size() > 1;
  });
}

}  // namespace

std::string definition_name(const Identity& identity, const std::vector<NamedResult>& results) {
  const auto plain_name = [](const Identity& id) {
    return benchmark_name(id) + (id.custom ? fmt::format(" ({})", custom_words(id)) : "");
  };
  std::string name = plain_name(identity);
  const bool alone = std::none_of(results.begin(), results.end(), [&](const NamedResult& other) {
    const Identity& id = other.result.identity;
    return id.definition_sha256 != identity.definition_sha256 && plain_name(id) == name;
  });
  return alone ? name : fmt::format("{} {}", name, shown_digits(identity.definition_sha256));
}

namespace {

std::optional<double> rate_of(const Result& result) {
  const std::optional<double> rate = metric_value(result, kRateMetric);
  return rate && *rate > 0 ? rate : std::nullopt;
}

/// The rates of the rows of each definition, in their order.
std::map<std::string, std::vector<double>> rates_by_definition(
    const std::vector<NamedResult>& results) {
  std::map<std::string, std::vector<double>> rates;
  for (const NamedResult& named : results) {
    if (const std::optional<double> rate = rate_of(named.result)) {
      rates[comparable_key(named.result.identity)].push_back(*rate);
    }
  }
  return rates;
}

}  // namespace

std::string side_by_side(const std::vector<NamedResult>& results, Verdicts verdicts) {
  std::vector<Trait> traits = traits_of(results);
  const std::vector<Trait> apart = taken_apart(traits, results);
  std::vector<MarkdownTable::Column> columns{{"result"}};
  if (verdicts == Verdicts::kShown) columns.push_back({"verdict"});
  for (const MetricRow& metric : metric_table()) {
    if (metric.column.empty()) continue;
    columns.push_back({std::string(metric.column), Align::kRight});
    if (metric.name == kRateMetric)
      columns.push_back({"images/s / first row", Align::kRight, Fold::kIfEmpty});
  }
  for (const Trait& trait : traits) columns.push_back({trait.title, Align::kLeft, Fold::kIfAlike});
  MarkdownTable table(columns);
  const std::map<std::string, std::vector<double>> rates = rates_by_definition(results);
  bool any_ratio = false;
  for (const NamedResult& named : results) {
    const auto alike = rates.find(comparable_key(named.result.identity));
    const bool has_ratio = alike != rates.end() && alike->second.size() > 1;
    const std::optional<double> rate = rate_of(named.result);
    any_ratio = any_ratio || (has_ratio && rate);
    table.add_row(
        row_of(named, has_ratio && rate ? fmt::format("{:.3f}", *rate / alike->second.front()) : "",
               verdicts, traits));
  }
  return fmt::format(
             "{}\n{}The peak is the most memory in one training step. Saved for backward is what "
             "the "
             "forward pass leaves for the backward pass, not what a mode spares. A run is not "
             "steady "
             "where no end of its warm-up was found. Runs that were made one after another also "
             "differ by what the machine did meanwhile.\n",
             table.text(),
             any_ratio ? "The column \"/ first row\" divides by the first row of the same "
                         "definition. "
                       : "") +
         settings_table(results, apart);
}

namespace {

/// A ratio to the first row says most where that is the run without a mode.
void put_none_first(std::vector<NamedResult>& results) {
  const auto folder_of = [](const NamedResult& named) {
    return fs::path(named.name).parent_path();
  };
  for (auto first = results.begin(); first != results.end();) {
    const auto end = std::find_if(first, results.end(), [&](const NamedResult& named) {
      return folder_of(named) != folder_of(*first);
    });
    std::stable_partition(
        first, end, [](const NamedResult& named) { return !named.result.identity.has_mode(); });
    first = end;
  }
}

/// Says of each result that did not come to its end how it ended, and why it has no loss.
std::string unfinished_words(const std::vector<NamedResult>& results) {
  std::string text;
  for (const auto& [name, result] : results) {
    std::vector<std::string> words;
    if (!is_finished(result)) {
      words = result.exit.reasons;
      const std::string& status = result.exit.status;
      if (words.empty() || !words.front().starts_with(status)) words.insert(words.begin(), status);
    }
    const Metric* loss = find_metric(result, kLossMetric);
    if (loss != nullptr && !loss->value && !loss->missing_reason.empty())
      words.push_back("no val loss: " + loss->missing_reason);
    if (words.empty()) continue;
    text += fmt::format("- {}: {}\n", code(name), plain(fmt::format("{}", fmt::join(words, "; "))));
  }
  return text.empty() ? "" : fmt::format("\nResults that are not whole:\n\n{}", text);
}

}  // namespace

std::string table_markdown(const std::vector<std::string>& paths, std::vector<Finding>* lost,
                           Sections sections) {
  std::vector<NamedResult> results;
  const auto add = [&](const std::string& name, const fs::path& file,
                       std::vector<NamedResult>& to) {
    or_lost(file, lost, [&] { to.push_back({name, read_result(file)}); });
  };
  for (const std::string& path : paths) {
    if (fs::is_regular_file(path)) {
      add(path, path, results);
      continue;
    }
    or_lost(path, paths.size() > 1 ? lost : nullptr, [&] {
      std::vector<NamedResult> inside;
      for (const fs::path& folder : result_folders(path, lost)) {
        add(folder.string(), folder / "result.json", inside);
      }
      put_none_first(inside);
      results.insert(results.end(), inside.begin(), inside.end());
    });
  }
  std::string text = "# Results side by side\n\n" + side_by_side(results, Verdicts::kLeftOut);
  for (const std::string& more : {mode_table(results), workspace_table(results)}) {
    if (!more.empty()) text += "\n" + more;
  }
  text += unfinished_words(results);
  if (lost != nullptr && !lost->empty()) {
    text += "\nNot in the table:\n\n";
    for (const Finding& one : *lost) text += fmt::format("- {}: {}\n", code(one.file), one.words);
  }
  if (sections == Sections::kAll) text += machine_sections(results);
  return finished_page(text + std::string(kGlossaryLine));
}

namespace {

/// Headings of the report of a suite.
constexpr std::string_view kSideBySide = "\n## Side by side\n";
constexpr std::string_view kReports = "\n## Reports\n\n";  ///< a summary has none

}  // namespace

std::string suite_summary(const std::string& title, const std::vector<NamedResult>& results,
                          const std::vector<MissingRun>& missing) {
  Tally tally;
  for (const NamedResult& named : results) tally.add(named.result.exit);
  for (const MissingRun& run : missing) tally.add(run);
  std::string text = fmt::format("# {}: {}\n\n{}\n", tally.headline(), plain(title), tally.words());
  std::string reasons;
  for (const MissingRun& run : missing) {
    reasons += fmt::format("- {}: {}\n", code(run.name),
                           plain(run.not_run.empty() ? run.failed : run.not_run));
  }
  for (const NamedResult& named : results) {
    for (const std::string& reason : named.result.exit.reasons) {
      reasons += fmt::format("- {}: {}\n", code(named.name), plain(reason));
    }
  }
  if (!reasons.empty()) text += fmt::format("\n{}", reasons);
  text += fmt::format("{}\n{}", kSideBySide, side_by_side(results, Verdicts::kShown));
  const std::string modes = mode_table(results);
  if (!modes.empty()) text += fmt::format("\n## Memory modes\n\n{}", modes);
  return text;
}

bool is_suite_report(std::string_view text) {
  return text.starts_with("# ") && text.find(kSideBySide) != text.npos &&
         text.find(kReports) != text.npos;
}

std::string render_suite_report(const std::string& title, const std::vector<NamedResult>& results,
                                const std::vector<MissingRun>& missing) {
  std::string text = suite_summary(title, results, missing) + std::string(kReports);
  for (const NamedResult& named : results) {
    text += fmt::format("- {}\n", link(named.name, named.name + "/report.md"));
  }
  if (can_be_judged(results)) {
    text += fmt::format("\nWhat several seeds say about quality is in {}, beside this file.\n",
                        code("quality.md"));
  }
  return finished_page(text + std::string(kGlossaryLine));
}

namespace {

std::string rate_cell(const Result& result) {
  const Metric* measured_rate = find_metric(result, kRateMetric);
  if (measured_rate == nullptr || !measured_rate->value) return std::string(kMissing);
  const std::string_view caveat = rate_caveat(result.protocol.warmup_stable);
  if (!measured_rate->ci95) return fmt::format("{}{}", format_per_s(*measured_rate->value), caveat);
  return fmt::format("{} [{}, {}]{}", format_per_s(*measured_rate->value),
                     format_per_s(measured_rate->ci95->low),
                     format_per_s(measured_rate->ci95->high), caveat);
}

}  // namespace

std::string metric_cell(const Result& result, const MetricRow& row) {
  if (row.name == kRateMetric) return rate_cell(result);
  std::optional<double> value;
  if (const Metric* listed = find_metric(result, std::string(row.name))) {
    value = listed->value;
  } else if (row.of != nullptr) {
    value = row.of(result).value_or(MetricValue()).value;
  }
  if (!value) return std::string(kMissing);
  return row.unit == "bytes" ? format_bytes(static_cast<int64_t>(*value)) : format_number(*value);
}

std::string verdict_cell(const Result& result) {
  const std::string words = verdict_words(result);
  return words.substr(0, words.find(" ("));
}

namespace {

std::optional<double> rate_of(const SweepRow& row) {
  return row.result ? rate_of(*row.result) : std::nullopt;
}

std::string time_ratio(const SweepRow& row, const SweepRow& first) {
  const std::optional<double> base = rate_of(first);
  const std::optional<double> own = rate_of(row);
  return base && own ? fmt::format("{:.3f}", *base / *own) : "";
}

std::string workspace_cell(const Result& result) {
  const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
  std::string text =
      workspace.largest_bytes ? format_bytes(*workspace.largest_bytes) : std::string(kMissing);
  if (!workspace.limit_bytes) return text;
  text +=
      fmt::format(" (limit {}: {})", format_bytes(*workspace.limit_bytes), limit_words(workspace));
  return limit_of(workspace) == WorkspaceLimit::kExceeded ? fmt::format("**{}**", text) : text;
}

bool is(const SweepRow& row, ExitCode code) {
  return row.exit_code == static_cast<int>(code);
}

std::string verdict_of(const SweepRow& row) {
  if (!row.possible) return "not possible";
  if (!row.exit_code) return "not started";
  if (row.result && is(row, ExitCode::kPass)) return verdict_cell(*row.result);
  const std::string words = row.result                        ? verdict_cell(*row.result)
                            : is(row, ExitCode::kOutOfMemory) ? "OUT OF MEMORY"
                                                              : "no result";
  return fmt::format("{}, exit code {}", words, *row.exit_code);
}

std::vector<std::string> cells_of(const SweepRow& row, const SweepRow& first) {
  std::vector<std::string> cells = row.values;
  cells.push_back(verdict_of(row));
  for (const MetricRow& metric : metric_table()) {
    if (!metric.in_sweeps) continue;
    cells.push_back(row.result ? metric_cell(*row.result, metric) : std::string(kMissing));
    if (metric.name == kRateMetric) cells.push_back(time_ratio(row, first));
  }
  cells.push_back(row.result ? workspace_cell(*row.result) : std::string(kMissing));
  return cells;
}

std::string table_of(const Sweep& sweep) {
  std::vector<MarkdownTable::Column> columns;
  for (const std::string& key : sweep.keys) columns.push_back({key});
  columns.push_back({"verdict"});
  for (const MetricRow& metric : metric_table()) {
    if (!metric.in_sweeps) continue;
    columns.push_back({std::string(metric.column), Align::kRight});
    if (metric.name == kRateMetric) columns.push_back({"time / first row", Align::kRight});
  }
  columns.push_back({"convolution workspace", Align::kRight});
  MarkdownTable table(columns);
  const auto first =
      std::find_if(sweep.rows.begin(), sweep.rows.end(), std::mem_fn(&SweepRow::possible));
  const SweepRow& base = first == sweep.rows.end() ? sweep.rows.front() : *first;
  for (const SweepRow& row : sweep.rows) table.add_row(cells_of(row, base));
  return table.text();
}

/// The gates of its definition did not apply, so it is counted apart, as in report.md.
bool is_custom(const SweepRow& row) {
  return row.result && row.result->exit.is_custom();
}

std::string headline(const Sweep& sweep) {
  const auto count = [&](const auto& holds) {
    return std::count_if(sweep.rows.begin(), sweep.rows.end(), holds);
  };
  const auto custom = count(is_custom);
  const auto impossible = std::ssize(sweep.rows) - count(std::mem_fn(&SweepRow::possible));
  const auto ended = count([](const SweepRow& row) { return is(row, ExitCode::kPass); });
  const auto passed = ended - custom;
  const auto full = count([](const SweepRow& row) { return is(row, ExitCode::kOutOfMemory); });
  const auto cells = std::ssize(sweep.rows) - impossible;
  const auto waiting = count([](const SweepRow& row) { return row.possible && !row.exit_code; });
  const auto failed = cells - passed - custom - full - waiting;
  std::string text = ended_words(passed, custom, cells, "cells");
  if (full > 0) text += fmt::format(", {} ran out of memory", full);
  if (failed > 0) text += fmt::format(", {} did not pass", failed);
  if (waiting > 0) text += fmt::format(", {} not started", waiting);
  if (impossible > 0) text += fmt::format(", {} not possible", impossible);
  return text + custom_addition(custom) + ".";
}

std::string reasons(const Sweep& sweep) {
  std::string text;
  for (const SweepRow& row : sweep.rows) {
    if (!row.words.empty()) text += fmt::format("- {}: {}\n", code(row.name), plain(row.words));
    if (!row.result) continue;
    for (const std::string& reason : row.result->exit.reasons) {
      text += fmt::format("- {}: {}\n", code(row.name), plain(reason));
    }
  }
  return text.empty() ? "" : "\n" + text;
}

/// The reason why there is no workspace, which most rows share.
std::string missing_workspace(const Sweep& sweep) {
  std::set<std::string> all;
  for (const SweepRow& row : sweep.rows) {
    if (!row.result) continue;
    const MemorySection& memory = row.result->memory;
    const std::string& why =
        memory.measured ? memory.convolution_workspace.missing_reason : memory.missing_reason;
    if (!memory.convolution_workspace.largest_bytes && !why.empty()) all.insert(why);
  }
  return all.empty() ? ""
                     : fmt::format("No convolution workspace: {}.\n",
                                   plain(fmt::format("{}", fmt::join(all, "; "))));
}

}  // namespace

std::string sweep_markdown(const Sweep& sweep) {
  return finished_page(fmt::format(
      "# Sweep of {}\n\n{}\n\n{}\nThe time is that of an image. The peak is the most memory in one "
      "training step; saved for backward is what the forward pass leaves for the backward pass. "
      "The convolution workspace is the scratch memory that one call of cuDNN took. A run is not "
      "steady where no end of its warm-up was found.\n{}{}{}{}",
      plain(sweep.title), headline(sweep), table_of(sweep), missing_workspace(sweep),
      reasons(sweep), scaling_table(sweep), kGlossaryLine));
}

namespace {

std::string mib_or_none(const std::optional<int64_t>& bytes) {
  return bytes ? format_mib(*bytes) : std::string(kMissing);
}

std::string measured_rate(const Result& result) {
  const std::optional<double> rate = metric_value(result, kRateMetric);
  return rate ? format_per_s(*rate) : std::string(kMissing);
}

bool has_any(const Result& result) {
  const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
  return workspace.largest_bytes || workspace.limit_bytes;
}

}  // namespace

WorkspaceLimit limit_of(const ConvolutionWorkspace& workspace) {
  if (!workspace.limit_bytes) return WorkspaceLimit::kNone;
  if (!workspace.largest_bytes) return WorkspaceLimit::kUnknown;
  return *workspace.largest_bytes <= *workspace.limit_bytes ? WorkspaceLimit::kKept
                                                            : WorkspaceLimit::kExceeded;
}

std::string limit_words(const ConvolutionWorkspace& workspace) {
  switch (limit_of(workspace)) {
    case WorkspaceLimit::kNone:
      return "none";
    case WorkspaceLimit::kUnknown:
      return "not known";
    case WorkspaceLimit::kKept:
      return "kept to";
    case WorkspaceLimit::kExceeded:
      return "no effect";
  }
  return "";
}

std::string workspace_table(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"cuDNN times algorithms"},
                       {"deterministic"},
                       {"images/s", Align::kRight},
                       {"limit (MiB)", Align::kRight},
                       {"largest (MiB)", Align::kRight},
                       {"all at most (MiB)", Align::kRight},
                       {"limit was"}});
  for (const NamedResult& named : results) {
    const Result& result = named.result;
    if (!has_any(result)) continue;
    const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
    const std::string limit = limit_words(workspace);
    table.add_row({named.name, text_of(result.environment, "torch_cudnn_benchmark", "not known"),
                   text_of(result.environment, "torch_deterministic_cudnn", "not known"),
                   measured_rate(result), mib_or_none(workspace.limit_bytes),
                   mib_or_none(workspace.largest_bytes), mib_or_none(workspace.peak_bytes),
                   limit_of(workspace) == WorkspaceLimit::kExceeded ? "**" + limit + "**" : limit});
  }
  if (table.empty()) return "";
  return table.text() +
         "\nThe largest is the scratch memory that one call of cuDNN took for a convolution in one "
         "training step. All is the most of category workspace at one instant. "
         "CUDNN_CONV_WSCAP_DBG sets the limit.\n";
}

namespace sections {

std::string convolution_workspace(const MemorySection& memory) {
  const ConvolutionWorkspace& workspace = memory.convolution_workspace;
  std::string text;
  if (workspace.largest_bytes) {
    text = fmt::format(
        "\n**Scratch memory of convolutions:** one call of cuDNN took at most {}; all operators, "
        "with what cuBLAS keeps, had at most {} at one instant.\n",
        format_bytes(*workspace.largest_bytes), format_bytes(workspace.peak_bytes.value_or(0)));
  } else if (!workspace.missing_reason.empty()) {
    text = "\n**Scratch memory of convolutions:** " + not_measured(workspace.missing_reason);
  }
  if (!workspace.limit_bytes) return text;
  const std::string limit = format_bytes(*workspace.limit_bytes);
  switch (limit_of(workspace)) {
    case WorkspaceLimit::kExceeded:
      return text + fmt::format(
                        "**The limit of {} (CUDNN_CONV_WSCAP_DBG) had no effect: a "
                        "convolution took more.**\n",
                        limit);
    case WorkspaceLimit::kKept:
      return text + fmt::format("The limit of {} (CUDNN_CONV_WSCAP_DBG) was kept to.\n", limit);
    default:
      return text +
             fmt::format(
                 "Whether the limit of {} (CUDNN_CONV_WSCAP_DBG) took effect is not known.\n",
                 limit);
  }
}

}  // namespace sections

}  // namespace noisemark::reports
