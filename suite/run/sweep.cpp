#include "suite/run/sweep.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/streams.h"
#include "reports/html/page.h"
#include "reports/render/run_folder.h"
#include "reports/render/table.h"
#include "reports/result/json_io.h"
#include "suite/config/keys.h"
#include "suite/probes/convolutions.h"
#include "suite/run/folder/output_folder.h"
#include "suite/run/ranks.h"
#include "suite/run/run.h"
#include "suite/run/spec/plan.h"
#include "suite/run/spec/run_spec.h"
#include "suite/train/pipeline.h"
#include "suite/train/precision.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

const std::string kAxis = "--axis";
constexpr std::string_view kForm = "KEY=V1,V2,...";
constexpr std::string_view kBatch = "batch";
constexpr std::string_view kBatchKey = "train.batch";

int64_t integer_of(const std::string& value, int64_t minimum, const std::string& key) {
  int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc{} || stop != end || number < minimum) {
    throw bad_input(kAxis, key, value, fmt::format("an integer of at least {}", minimum));
  }
  return number;
}

/// An axis that is no key of a definition: whether the command line says the same, and what a value
/// of it does.
struct NamedAxis {
  std::string_view key;
  bool (*given)(const RunOptions&);
  void (*apply)(const std::string& value, SweepCell& cell);
};

const std::array kNamedAxes{
    NamedAxis{"mode", [](const RunOptions& o) { return !o.modes.empty(); },
              [](const std::string& v, SweepCell& c) { c.options.modes = {v}; }},
    NamedAxis{"baseline", [](const RunOptions& o) { return !o.baselines.empty(); },
              [](const std::string& v, SweepCell& c) { c.options.baselines = {v}; }},
    NamedAxis{"precision", [](const RunOptions& o) { return !o.precision.empty(); },
              [](const std::string& v, SweepCell& c) { c.options.precision = v; }},
    NamedAxis{"threads", [](const RunOptions& o) { return o.threads.has_value(); },
              [](const std::string& v, SweepCell& c) {
                c.options.threads = integer_of(v, 1, "threads");
              }},
    NamedAxis{
        "ranks", [](const RunOptions& o) { return o.ranks > 1; },
        [](const std::string& v, SweepCell& c) { c.options.ranks = integer_of(v, 1, "ranks"); }},
    NamedAxis{"pipeline", [](const RunOptions& o) { return o.pipeline != "none"; },
              [](const std::string& v, SweepCell& c) {
                const Texts accepted = pipeline_schedules();
                if (std::find(accepted.begin(), accepted.end(), v) == accepted.end()) {
                  throw bad_input(kAxis, "pipeline", v,
                                  fmt::format("one of: {}", fmt::join(accepted, ", ")));
                }
                c.options.pipeline = v;
              }},
    NamedAxis{"micro-batches", [](const RunOptions& o) { return o.micro_batches.has_value(); },
              [](const std::string& v, SweepCell& c) {
                c.options.micro_batches = integer_of(v, 1, "micro-batches");
              }},
    NamedAxis{"seed", [](const RunOptions& o) { return o.seed.has_value(); },
              [](const std::string& v, SweepCell& c) {
                c.options.seed = static_cast<uint64_t>(integer_of(v, 0, "seed"));
              }},
    NamedAxis{"cudnn.workspace_mib", [](const RunOptions& /*o*/) { return false; },
              [](const std::string& v, SweepCell& c) {
                c.environment[kWorkspaceLimitVariable] =
                    std::to_string(integer_of(v, 0, "cudnn.workspace_mib"));
              }}};

const NamedAxis* find_named(const std::string& key) {
  const auto* found = std::find_if(kNamedAxes.begin(), kNamedAxes.end(),
                                   [&](const NamedAxis& axis) { return axis.key == key; });
  return found == kNamedAxes.end() ? nullptr : found;
}

bool is_settable(const Key& key) {
  return key.standing == Standing::kLocked;
}

/// The key of a definition that an axis moves; empty for a named axis.
std::string definition_key(const std::string& key) {
  if (find_named(key) != nullptr) return "";
  return key == kBatch ? std::string(kBatchKey) : key;
}

void require_key(const std::string& key) {
  if (find_named(key) != nullptr) return;
  const Key* found = find_key(definition_key(key));
  if (found != nullptr && is_settable(*found)) return;
  Texts valid;
  for (const NamedAxis& axis : kNamedAxes) valid.emplace_back(axis.key);
  valid.emplace_back(kBatch);
  for (const Key& one : keys()) {
    if (is_settable(one)) valid.push_back(key_path(one));
  }
  throw bad_input(kAxis, key, "unknown key", reports::accepted_names(key, valid));
}

/// Splits at every comma outside of brackets.
Texts divided(const std::string& text) {
  Texts parts{""};
  int brackets = 0;
  for (const char c : text) {
    if (c == '[') ++brackets;
    if (c == ']') --brackets;
    if (c == ',' && brackets == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// «error=0.01» is a part of the mode before it; «budget:saved=1GiB» is a mode.
bool continues_a_mode(const std::string& part) {
  const size_t equals = part.find('=');
  return equals != std::string::npos && part.find(':') > equals;
}

Texts modes_of(const Texts& parts) {
  Texts modes;
  for (const std::string& part : parts) {
    if (!modes.empty() && continues_a_mode(part)) {
      modes.back() += "," + part;
    } else {
      modes.push_back(part);
    }
  }
  return modes;
}

/// The value as the axis has it. Throws where no cell could take it.
std::string checked(const std::string& key, const std::string& value) {
  if (value.empty()) throw bad_input(kAxis, key, "an empty value", std::string(kForm));
  if (value.find('/') != std::string::npos) {
    throw bad_input(kAxis, key, value, "a value without a slash: it names a folder");
  }
  try {
    if (key == "mode") return resolve_mode(value).name;
    if (key == "baseline") (void)resolve_baseline(value);
  } catch (const std::invalid_argument& error) {
    throw bad_input(kAxis, key, error.what(), "");
  }
  // Each cell finds out whether the device has it.
  if (key == "precision") (void)parse_precision(value, at::Device(at::kCUDA));
  if (const NamedAxis* named = find_named(key)) {
    SweepCell nobody;
    named->apply(value, nobody);
  }
  return value;
}

SweepAxis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw bad_input(kAxis, "", text, std::string(kForm));
  }
  SweepAxis axis;
  axis.key = text.substr(0, equals);
  require_key(axis.key);
  const Texts parts = divided(text.substr(equals + 1));
  std::set<std::string> seen;
  for (const std::string& value : axis.key == "mode" ? modes_of(parts) : parts) {
    axis.values.push_back(checked(axis.key, value));
    if (seen.insert(axis.values.back()).second) continue;
    throw bad_input(kAxis, axis.key, axis.values.back() + ": given twice", "each once");
  }
  return axis;
}

/// The name under which two spellings of a key are one.
std::string identity_of(const std::string& key) {
  const std::string path = definition_key(key);
  return path.empty() ? key : path;
}

void require_said_once(const RunOptions& base, const SweepAxis& axis) {
  const NamedAxis* named = find_named(axis.key);
  const std::string set = definition_key(axis.key) + "=";
  const bool given =
      named != nullptr ? named->given(base)
                       : std::any_of(base.sets.begin(), base.sets.end(),
                                     [&](const std::string& one) { return one.starts_with(set); });
  if (!given) return;
  const std::string option =
      named != nullptr ? "--" + axis.key : "--set " + set.substr(0, set.size() - 1);
  throw bad_input(kAxis, axis.key, "given with " + option, "one of them");
}

void apply(const SweepAxis& axis, const std::string& value, SweepCell& cell) {
  cell.values.push_back(value);
  if (!cell.name.empty()) cell.name += ',';
  cell.name += reports::portable_name(axis.key + "=" + value);
  if (const NamedAxis* named = find_named(axis.key)) {
    named->apply(value, cell);
  } else {
    cell.options.sets.push_back(definition_key(axis.key) + "=" + value);
  }
}

}  // namespace

std::vector<SweepAxis> parse_axes(const Texts& texts) {
  if (texts.empty()) throw bad_input(kAxis, "", "nothing given", std::string(kForm));
  std::vector<SweepAxis> axes;
  std::set<std::string> seen;
  for (const std::string& text : texts) {
    axes.push_back(parse_axis(text));
    const std::string& key = axes.back().key;
    if (!seen.insert(identity_of(key)).second) {
      throw bad_input(kAxis, key, "given twice", "each once");
    }
  }
  return axes;
}

std::vector<SweepCell> sweep_cells(const RunOptions& base, const std::vector<SweepAxis>& axes) {
  std::vector<SweepCell> cells{{"", {}, base, {}}};
  for (const SweepAxis& axis : axes) {
    require_said_once(base, axis);
    std::vector<SweepCell> more;
    for (const SweepCell& cell : cells) {
      for (const std::string& value : axis.values) {
        more.push_back(cell);
        apply(axis, value, more.back());
      }
    }
    cells = std::move(more);
  }
  return cells;
}

namespace {

namespace fs = std::filesystem;

/// A cell, and what can be said of it before it is run.
struct PlannedCell {
  SweepCell cell;
  SeriesRun run;
  bool possible;
};

bool is_axis(const std::vector<SweepAxis>& axes, std::string_view key) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const SweepAxis& axis) { return axis.key == key; });
}

/// Returns false where the axes combine a stage of a pipeline with nothing to be divided: each
/// value is right beside another one of the other axis.
bool is_possible(const RunOptions& options, const std::vector<SweepAxis>& axes) {
  if (!is_axis(axes, "pipeline")) return true;
  if (options.pipeline == "none") return !options.micro_batches;
  return options.ranks > 1 || !is_axis(axes, "ranks");
}

PlannedCell planned(const SweepCell& cell, const std::vector<SweepAxis>& axes) {
  PlannedCell result{
      cell, {cell.name, cell.options, {}, cell.environment}, is_possible(cell.options, axes)};
  bool is_planned = false;
  try {
    const std::vector<PlannedRun> plans = plan_runs(cell.options);
    is_planned = true;
    if (!result.possible) require_possible(cell.options, plans, {});
    result.run.plan = plans.front();
  } catch (const Error& error) {
    // Another value of the cell may be wrong by itself.
    if (!is_planned && !cell.options.micro_batches) result.possible = true;
    result.run.refused = error.code();
    result.run.refusal = error.what();
  }
  return result;
}

std::vector<PlannedCell> planned_cells(const RunOptions& options,
                                       const std::vector<SweepAxis>& axes) {
  std::vector<PlannedCell> cells;
  for (const SweepCell& cell : sweep_cells(options, axes)) cells.push_back(planned(cell, axes));
  const bool any = std::any_of(cells.begin(), cells.end(),
                               [](const PlannedCell& cell) { return cell.run.plan.has_value(); });
  if (!any) throw Error(cells.front().run.refused, cells.front().run.refusal);
  return cells;
}

const PlannedRun& first_plan(const std::vector<PlannedCell>& cells) {
  const auto first = std::find_if(cells.begin(), cells.end(), [](const PlannedCell& cell) {
    return cell.run.plan.has_value();
  });
  return *first->run.plan;
}

SeriesEnd run_cells(const std::string& title, const std::vector<PlannedCell>& cells,
                    const fs::path& out, bool resume) {
  std::vector<SeriesRun> runs;
  for (const PlannedCell& cell : cells) {
    if (cell.possible) runs.push_back(cell.run);
  }
  return run_series({title}, runs, out, resume);
}

/// A result counts where the folder's suite.json says that it is the cell's own.
reports::Sweep sweep_of(const std::string& title, const std::vector<SweepAxis>& axes,
                        const std::vector<PlannedCell>& cells, const SeriesEnd& end,
                        const fs::path& out) {
  reports::Sweep sweep;
  sweep.title = title;
  for (const SweepAxis& axis : axes) sweep.keys.push_back(axis.key);
  const auto runs = reports::suite_runs(out, reports::read_suite(out).value());
  size_t i = 0;
  for (const auto& [cell, run, possible] : cells) {
    reports::SweepRow row;
    row.name = cell.name;
    row.values = cell.values;
    row.words = run.refusal;
    row.possible = possible;
    if (possible) {
      if (end.codes[i]) row.exit_code = static_cast<int>(*end.codes[i]);
      const std::string& lost = runs[i++].lost;
      if (lost.empty()) row.result = reports::read_result(out / row.name / "result.json");
      if (row.words.empty()) row.words = lost;
    }
    sweep.rows.push_back(std::move(row));
  }
  return sweep;
}

/// Leaves out what a sweep is made to find.
SeriesEnd without_full_memory(SeriesEnd end) {
  for (auto& code : end.codes) {
    if (code == ExitCode::kOutOfMemory) code = ExitCode::kPass;
  }
  return end;
}

/// The page of the cells; an interrupt of what the page itself measures names the ways on.
SweepPage page_of(const SweepCommand& command, const reports::Sweep& sweep, const fs::path& out) {
  try {
    return command.page(sweep);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInterrupted) throw;
    throw Error(error.code(), fmt::format("{}; {}", error.what(), ways_on(out)));
  }
}

}  // namespace

ExitCode run_sweep(const RunOptions& options, const std::vector<SweepAxis>& axes,
                   const SweepCommand& command) {
  require_benchmark(command.name, options.id);
  require_one_way_with_what_is_there(options);
  const std::vector<PlannedCell> cells = planned_cells(options, axes);
  const std::string title = first_plan(cells).id;
  tell_of_unused_gpu(options, first_plan(cells).spec.device);
  std::optional<FreshFolder> fresh;
  if (options.out.empty()) {
    fresh.emplace(options.out_parent, fs::path(options.id).stem().string() + "-" + command.name);
  }
  const fs::path out = fresh ? fresh->path() : fs::path(options.out);
  const reports::FolderLock lock(out);
  prepare_suite_folder(out, options.force || options.resume);
  const SeriesEnd end = run_cells(command.name + " of " + title, cells, out, options.resume);
  const SweepPage page = page_of(command, sweep_of(title, axes, cells, end, out), out);
  const fs::path file = out / (command.name + ".md");
  reports::write_file_atomically(file, page.text);
  if (!page.json.empty()) {
    reports::write_file_atomically(out / (command.name + ".json"), page.json);
  }
  if (command.html) (void)reports::write_html_beside(file);
  reports::print_out(page.text);
  if (end.stopped) reports::say_on_stderr("interrupted; " + ways_on(out));
  return worse(worst_of(without_full_memory(end)), page.code);
}

}  // namespace noisemark::suite
