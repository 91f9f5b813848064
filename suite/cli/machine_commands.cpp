#include "suite/cli/commands.h"

#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "suite/cli/arguments.h"
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

}  // namespace noisemark::suite
