#include "suite/cli/commands.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "baselines/baseline.h"
#include "memopt/modes/mode.h"
#include "memopt/modes/mode_grammar.h"
#include "reports/base/fields.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/json_writer.h"
#include "suite/cli/arguments.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/environment/doctor.h"
#include "suite/environment/environment.h"
#include "suite/run/run.h"
#include "suite/selftest/selftest.h"

namespace noisemark::suite {

/// The document that `list --json` prints.
struct Listing {
  struct SuiteRow {
    std::string name;
    std::string summary;
    std::vector<std::string> runs;
  };
  struct ScaleRow {
    reports::json::Tree definition;
    std::string definition_sha256;
    bool locked = false;
    std::vector<std::string> modes;
  };
  struct BenchmarkRow {
    std::string id;
    std::string title;
    std::string why;
    std::map<std::string, ScaleRow> scales;
  };
  struct ModeRow {
    std::string name;
    std::string summary;
    bool lossless = false;
  };
  struct BaselineRow {
    std::string name;
    std::string summary;
  };
  std::vector<SuiteRow> suites;
  std::vector<BenchmarkRow> benchmarks;
  std::vector<ModeRow> modes;
  std::vector<BaselineRow> baselines;
};

}  // namespace noisemark::suite

namespace noisemark::reports::json {

constexpr Document kListDocument{"noisemark.list", "Everything that can be run.", false,
                                 "noisemark list --json"};

template <>
struct Fields<suite::Listing::SuiteRow> {
  using T = suite::Listing::SuiteRow;
  static constexpr About kAbout{"Suite", "Several benchmarks that run one after another."};
  static constexpr std::tuple kAll{field("name", &T::name, "what `run` takes"),
                                   field("summary", &T::summary, "what it is for"),
                                   field("runs", &T::runs, "its benchmarks with their scale")};
};

template <>
struct Fields<suite::Listing::ScaleRow> {
  using T = suite::Listing::ScaleRow;
  static constexpr About kAbout{"Scale", "A benchmark at one of its two sizes."};
  static constexpr std::tuple kAll{
      field("definition", &T::definition,
            "resolved definition; suite/benchmarks/README.md explains its keys"),
      field("definition_sha256", &T::definition_sha256, "SHA-256 of its canonical text"),
      field("locked", &T::locked, "LOCK has this definition; else a run of it is custom"),
      field("modes", &T::modes, "memory modes under which suites run it")};
};

template <>
struct Fields<suite::Listing::BenchmarkRow> {
  using T = suite::Listing::BenchmarkRow;
  static constexpr About kAbout{"Benchmark", "A shipped definition."};
  static constexpr std::tuple kAll{field("id", &T::id, "what commands take"),
                                   field("title", &T::title, "heading of reports"),
                                   field("why", &T::why, "what it is for"),
                                   field("scales", &T::scales, "by \"cpu\" and \"gpu\"")};
};

template <>
struct Fields<suite::Listing::ModeRow> {
  using T = suite::Listing::ModeRow;
  static constexpr About kAbout{"Mode", "A memory mode, or a word of which modes are made."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "what --mode takes"), field("summary", &T::summary, "what it does"),
      field("lossless", &T::lossless, "gradients have the bits that they have under none")};
};

template <>
struct Fields<suite::Listing::BaselineRow> {
  using T = suite::Listing::BaselineRow;
  static constexpr About kAbout{"Baseline", "A way in which operators are executed."};
  static constexpr std::tuple kAll{field("name", &T::name, "what --baseline takes"),
                                   field("summary", &T::summary, "what it does")};
};

template <>
struct Fields<suite::Listing> {
  using T = suite::Listing;
  static constexpr About kAbout{"Listing", ""};
  static constexpr std::tuple kAll{field("suites", &T::suites, "in the order of their size"),
                                   field("benchmarks", &T::benchmarks, "in the order of suites"),
                                   field("modes", &T::modes, "one part of a mode each"),
                                   field("baselines", &T::baselines, "joined by + in this order")};
};

}  // namespace noisemark::reports::json

namespace noisemark::suite {
namespace {

void require_fraction(double noise_floor_frac) {
  if (noise_floor_frac < 1) return;
  throw bad_input("--noise-floor", "", fmt::format("{}", noise_floor_frac),
                  "a fraction below 1: 0.01");
}

}  // namespace

Answer show_environment(const CommandLine& line) {
  const Machine machine = capture_machine(parse_device(line.options.run.device));
  return {line.options.json ? machine_json(machine) : machine_text(machine)};
}

Answer examine_machine(const CommandLine& line) {
  // The machine comes first: it starts CUDA, without which CUPTI, which is asked next, crashes.
  const Machine machine = capture_machine(default_device());
  const auto diagnoses = diagnose(machine, look_around(/*sampling=*/true));
  return {line.options.json ? doctor_json(diagnoses) : doctor_text(diagnoses)};
}

Answer test_itself(const CommandLine& line) {
  SelfTestTrials trials = shipped_self_test();
  trials.run.argv = line.argv;
  trials.run.force = line.options.run.force;
  if (const auto floor = line.options.noise_floor_frac) {
    require_fraction(*floor);
    trials.judging.noise["images_per_s"].floor_frac = *floor;
  }
  std::optional<reports::ScratchFolder> scratch;
  std::filesystem::path folder = line.options.run.out;
  if (folder.empty()) folder = scratch.emplace("selftest").path();
  const reports::FolderLock lock(folder);
  const auto outcomes = run_self_test(trials, folder);
  Answer answer;
  answer.text = trials_markdown(outcomes);
  answer.code = exit_code_of(outcomes);
  reports::write_file_atomically(folder / "selftest.md", answer.text);
  return answer;
}

namespace {

template <class Items, class Format>
std::string words_of(const Items& items, Format format) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(std::string(format(item)));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string scale_line(const Lock& lock, const Definition& d) {
  return fmt::format(
      "@{}: {} steps of {} images{}, {} validation images{}", d.scale, d.train.steps, d.train.batch,
      d.train.accumulation > 1 ? fmt::format(" in {} micro-batches", d.train.accumulation) : "",
      d.eval.samples, is_locked(lock, d) ? "" : "; custom: " + unlocked_words(d));
}

std::string gate_line(const Definition& d, const GateConfig& gate) {
  return fmt::format(
      "gate {} @{}: {} {} {}{}", gate.name, d.scale, gate.metric, gate.relation, gate.bound,
      gate.precisions.empty() ? "" : fmt::format(", in {}", fmt::join(gate.precisions, " or ")));
}

std::string benchmark_text(const Lock& lock, std::string_view id) {
  const Definition cpu = load_definition(id, "cpu");
  const Definition gpu = load_definition(id, "gpu");
  const ModelConfig& model = cpu.model;
  std::string text = fmt::format("  {}\n    {}\n", id, cpu.why);
  text += fmt::format("    {} {}x{}x{} on {}, objective {}\n", model.name, model.channels,
                      model.resolution, model.resolution, cpu.data.name, cpu.diffusion.objective);
  for (const Definition* d : {&cpu, &gpu}) {
    text += fmt::format("    {}\n", scale_line(lock, *d));
    for (const GateConfig& gate : d->gates) text += fmt::format("    {}\n", gate_line(*d, gate));
  }
  return text;
}

std::string modes_text() {
  std::string text = "\nmodes (--mode)\n";
  for (const memopt::ModeEntry& mode : memopt::modes()) {
    text += fmt::format("  {:<24}{}{}\n", mode.name, mode.summary, mode.lossless ? "" : " (lossy)");
  }
  text += "  joined by + in this order, at most one of each line:\n";
  for (const auto& words : memopt::mode_alternatives()) {
    text += fmt::format("    {}\n", fmt::join(words, " "));
  }
  return text;
}

Listing::ScaleRow scale_row(const Lock& lock, std::string_view id, std::string_view scale) {
  const Definition definition = load_definition(id, scale);
  return {{canonical_json(definition)},
          definition_sha256(definition),
          is_locked(lock, definition),
          memopt::modes_meant_by(definition.modes)};
}

Listing::BenchmarkRow benchmark_row(const Lock& lock, std::string_view id) {
  const Definition definition = load_definition(id, "cpu");
  Listing::BenchmarkRow row{std::string(id), definition.title, definition.why, {}};
  for (const std::string_view scale : kScales) {
    row.scales[std::string(scale)] = scale_row(lock, id, scale);
  }
  return row;
}

}  // namespace

std::string list_text(const Lock& lock) {
  std::string text = "suites\n";
  for (const Suite& suite : suites()) {
    text += fmt::format("  {:<18}{}\n", suite.name, suite.summary);
    text += fmt::format("  {:<18}{}\n", "",
                        words_of(suite.entries, [](const auto& entry) { return entry.benchmark; }));
  }
  text += "\nbenchmarks (ID, or ID@cpu, ID@gpu)\n";
  for (const BenchmarkFile& file : benchmark_files()) text += benchmark_text(lock, file.id);
  text += modes_text();
  text += "\nbaselines (--baseline, joined by +)\n";
  for (const baselines::BaselineEntry& baseline : baselines::baselines()) {
    text += fmt::format("  {:<18}{}\n", baseline.name, baseline.summary);
  }
  return text;
}

std::string list_json(const Lock& lock) {
  Listing all;
  for (const Suite& suite : suites()) {
    all.suites.push_back({std::string(suite.name), std::string(suite.summary), {}});
    for (const SuiteEntry& entry : suite.entries) {
      all.suites.back().runs.emplace_back(entry.benchmark);
    }
  }
  for (const BenchmarkFile& file : benchmark_files()) {
    all.benchmarks.push_back(benchmark_row(lock, file.id));
  }
  for (const memopt::ModeEntry& mode : memopt::modes()) {
    all.modes.push_back({std::string(mode.name), std::string(mode.summary), mode.lossless});
  }
  for (const baselines::BaselineEntry& baseline : baselines::baselines()) {
    all.baselines.push_back({std::string(baseline.name), std::string(baseline.summary)});
  }
  return reports::json::printed(all);
}

std::vector<reports::json::Published> printed_documents() {
  return {{reports::json::kListDocument, reports::json::shape_of<Listing>()},
          machine_document(),
          doctor_document()};
}

}  // namespace noisemark::suite
