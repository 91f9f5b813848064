#include "suite/cli/commands.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "baselines/baseline.h"
#include "memopt/modes/mode.h"
#include "memopt/modes/mode_grammar.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "suite/cli/arguments.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/environment/doctor.h"
#include "suite/environment/environment.h"
#include "suite/selftest/selftest.h"

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

using Json = nlohmann::ordered_json;

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

Json scale_json(const Lock& lock, std::string_view id, std::string_view scale) {
  const Definition definition = load_definition(id, scale);
  Json json;
  json["definition"] = Json::parse(canonical_json(definition));
  json["definition_sha256"] = definition_sha256(definition);
  json["locked"] = is_locked(lock, definition);
  json["modes"] = memopt::modes_meant_by(definition.modes);
  return json;
}

Json benchmark_json(const Lock& lock, std::string_view id) {
  const Definition definition = load_definition(id, "cpu");
  Json json{{"id", id}, {"title", definition.title}, {"why", definition.why}};
  for (const std::string_view scale : kScales) {
    json["scales"][std::string(scale)] = scale_json(lock, id, scale);
  }
  return json;
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
  Json json;
  json["suites"] = Json::array();
  for (const Suite& suite : suites()) {
    Json runs = Json::array();
    for (const SuiteEntry& entry : suite.entries) runs.push_back(entry.benchmark);
    json["suites"].push_back({{"name", suite.name}, {"summary", suite.summary}, {"runs", runs}});
  }
  json["benchmarks"] = Json::array();
  for (const BenchmarkFile& file : benchmark_files()) {
    json["benchmarks"].push_back(benchmark_json(lock, file.id));
  }
  json["modes"] = Json::array();
  for (const memopt::ModeEntry& mode : memopt::modes()) {
    json["modes"].push_back(
        {{"name", mode.name}, {"summary", mode.summary}, {"lossless", mode.lossless}});
  }
  json["baselines"] = Json::array();
  for (const baselines::BaselineEntry& baseline : baselines::baselines()) {
    json["baselines"].push_back({{"name", baseline.name}, {"summary", baseline.summary}});
  }
  return json.dump(2) + "\n";
}

}  // namespace noisemark::suite
