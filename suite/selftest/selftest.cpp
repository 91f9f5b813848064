#include "suite/selftest/selftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/result/gate.h"
#include "reports/result/json_io.h"
#include "suite/run/single_run.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

using reports::CompareVerdict;

constexpr size_t kShownJudges = 2;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A regression, or a worse model.
bool is_failure(CompareVerdict verdict) {
  return reports::exit_code_of(verdict) == ExitCode::kFailed;
}

std::vector<std::string> judges_of(const reports::Comparison& comparison) {
  std::vector<std::string> names;
  for (const reports::ExactRow& row : comparison.exact) {
    if (is_failure(row.verdict)) names.push_back(row.metric);
  }
  for (const reports::StochasticRow& row : comparison.stochastic) {
    if (row.judged() && is_failure(row.verdict)) names.push_back(row.metric);
  }
  return names;
}

/// The one that was to judge, if it did, then the first others.
std::string judges_words(const TrialOutcome& outcome) {
  std::vector<std::string> names = outcome.judged_by;
  if (names.empty()) return "nothing";
  const auto expected = std::find(names.begin(), names.end(), outcome.trial.judge);
  if (expected != names.end()) std::rotate(names.begin(), expected, expected + 1);
  std::string words = names.front();
  for (size_t i = 1; i < std::min(names.size(), kShownJudges); ++i) words += ", " + names[i];
  if (names.size() > kShownJudges) {
    words += fmt::format(" and {} more", names.size() - kShownJudges);
  }
  return words;
}

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string what_is_wrong(const TrialOutcome& outcome) {
  const Trial& trial = outcome.trial;
  std::string words = trial.judge.empty()
                          ? fmt::format("- {} in {}: must pass", trial.fault, trial.into)
                          : fmt::format("- {} in {}: must be a regression of {}", trial.fault,
                                        trial.into, trial.judge);
  if (outcome.comparison.reasons.empty()) return words + ", but the comparison passed\n";
  words += ", but the comparison says:\n";
  for (const std::string& reason : outcome.comparison.reasons) words += "  - " + reason + "\n";
  return words;
}

std::string headline(const std::vector<TrialOutcome>& outcomes) {
  const auto count = [&](bool fault, bool only_expected) {
    return std::count_if(outcomes.begin(), outcomes.end(), [&](const TrialOutcome& outcome) {
      return outcome.trial.judge.empty() != fault && (outcome.as_expected || !only_expected);
    });
  };
  return fmt::format(
      "# {}: self-test of the comparison\n\n{} of {} faults caught, {} of {} "
      "untouched twins passed.\n\n",
      exit_code_of(outcomes) == ExitCode::kPass ? "PASS" : "FAIL", count(true, true),
      count(true, false), count(false, true), count(false, false));
}

}  // namespace

TrialOutcome answer(Trial trial, reports::Comparison comparison) {
  TrialOutcome outcome;
  outcome.judged_by = judges_of(comparison);
  outcome.caught = is_failure(comparison.verdict) &&
                   (trial.judge.empty() || holds(outcome.judged_by, trial.judge));
  const bool passed = reports::exit_code_of(comparison.verdict) == ExitCode::kPass;
  outcome.as_expected = trial.judge.empty() ? passed : outcome.caught;
  outcome.trial = std::move(trial);
  outcome.comparison = std::move(comparison);
  return outcome;
}

ExitCode exit_code_of(const std::vector<TrialOutcome>& outcomes) {
  const bool good =
      !outcomes.empty() && std::all_of(outcomes.begin(), outcomes.end(),
                                       [](const TrialOutcome& each) { return each.as_expected; });
  return good ? ExitCode::kPass : ExitCode::kFailed;
}

std::string trials_markdown(const std::vector<TrialOutcome>& outcomes) {
  reports::MarkdownTable table(
      {{"fault"}, {"put into"}, {"judged by"}, {"verdict"}, {"caught"}, {"as it must be"}});
  std::string wrong;
  for (const TrialOutcome& outcome : outcomes) {
    table.add_row({outcome.trial.fault, outcome.trial.into, judges_words(outcome),
                   std::string(reports::verdict_name(outcome.comparison.verdict)),
                   yes_no(outcome.caught), yes_no(outcome.as_expected)});
    if (!outcome.as_expected) wrong += what_is_wrong(outcome);
  }
  std::string text = headline(outcomes) + table.text();
  if (!wrong.empty()) text += "\n" + wrong;
  return reports::finished_page(text);
}

namespace {

reports::Side side_of(const std::string& name) {
  reports::Side side;
  side.name = "recorded/" + name;
  for (const RecordedFile& file : recorded_files()) {
    if (!file.name.starts_with(name + "/")) continue;
    const std::string where = "suite/selftest/recorded/" + std::string(file.name) + "/result.json";
    side.runs.push_back({std::string(file.name), reports::from_json(file.text, where)});
  }
  return side;
}

}  // namespace

RecordedRounds recorded_rounds() {
  return {side_of("base"), side_of("new")};
}

namespace {

void derive_again(reports::Result& result) {
  // Those that no section of a result holds are as they were.
  std::vector<reports::Metric> derived = reports::derive_metrics(result, result.metrics);
  // A metric that is newer than the recording has no counterpart there.
  std::erase_if(derived, [&](const reports::Metric& metric) {
    return reports::find_metric(result, metric.name) == nullptr;
  });
  // The way in which a figure was made is worded by the program that recorded it.
  for (reports::Metric& metric : derived) {
    const reports::Metric* recorded = reports::find_metric(result, metric.name);
    if (recorded != nullptr && recorded->value && metric.value) metric.method = recorded->method;
  }
  result.metrics = std::move(derived);
}

}  // namespace

reports::Side slowed(reports::Side side, double frac) {
  for (reports::NamedResult& run : side.runs) {
    reports::Samples& samples = run.result.samples;
    const auto slow_down = [frac](std::vector<double>& seconds) {
      for (double& value : seconds) value *= 1 + frac;
    };
    slow_down(samples.step_s);
    for (const reports::SamplePhase& phase : reports::kSamplePhases) {
      slow_down(samples.*phase.seconds);
    }
    derive_again(run.result);
  }
  return side;
}

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLeakedBytes = int64_t{16} << 20;

/// Long enough for a steady step in the memory pass and for a trace of losses.
RunOptions real_run_options() {
  RunOptions options;
  options.id = "gmm16-ho@cpu";
  options.device = "cpu";
  options.threads = 1;  // a model this small gains nothing from more, and they wait for each other
  options.sets = {"train.steps=4", "eval.samples=16", "eval.every=0"};
  options.deterministic = true;
  options.profile = false;
  options.verdict = false;
  return options;
}

class SelfTest {
 public:
  SelfTest(const SelfTestTrials& trials, fs::path out) : trials_(trials), out_(std::move(out)) {}

  std::vector<TrialOutcome> run() {
    for (const RecordedTrial& trial : trials_.recorded) judge(trial);
    if (trials_.real.empty()) return std::move(outcomes_);
    const reports::Side base = real_run("base", {});
    for (const RealTrial& trial : trials_.real) judge(base, trial);
    return std::move(outcomes_);
  }

 private:
  void judge(const RecordedTrial& trial) {
    const double frac = trial.slower_frac;
    const std::string percent = reports::format_percent(frac);
    const std::string name = frac == 0 ? "recorded-twin" : fmt::format("slower-{:g}", 100 * frac);
    const reports::Side candidate = slowed(trials_.rounds.candidate, frac);
    keep(name, answer({frac == 0 ? "none" : "every step " + percent + " longer", "recorded rounds",
                       frac == 0 ? "" : "images_per_s"},
                      reports::compare(trials_.rounds.base, candidate, trials_.judging)));
  }

  void judge(const reports::Side& base, const RealTrial& trial) {
    const reports::Side candidate = real_run(trial.name, trial.fault);
    const std::string words = fault_words(trial.fault);
    reports::StochasticOptions judging = trials_.judging;
    judging.gates = false;  // one run of each proves nothing about noise
    keep(trial.name, answer({words.empty() ? "none" : words, "a real run", trial.judge},
                            reports::compare(base, candidate, judging)));
  }

  reports::Side real_run(const std::string& name, const Fault& fault) {
    const PlannedRun plan = plan_runs(trials_.run).front();
    const fs::path folder = out_ / name;
    const ExitCode code = run_single(trials_.run, plan, folder, fault);
    if (code != ExitCode::kPass && code != ExitCode::kFailed) {
      throw Error(code, fmt::format("selftest: the run \"{}\" ended with {}", name,
                                    static_cast<int>(code)));
    }
    return {name, {{name, reports::read_result(folder / "result.json")}}};
  }

  void keep(const std::string& name, TrialOutcome outcome) {
    const fs::path folder = out_ / "comparisons";
    reports::make_folder(folder);
    reports::write_file_atomically(folder / (name + ".md"),
                                   reports::comparison_markdown(outcome.comparison));
    reports::write_file_atomically(folder / (name + ".json"),
                                   reports::comparison_json(outcome.comparison));
    outcomes_.push_back(std::move(outcome));
  }

  const SelfTestTrials& trials_;
  const fs::path out_;
  std::vector<TrialOutcome> outcomes_;
};

}  // namespace

SelfTestTrials shipped_self_test() {
  SelfTestTrials trials;
  trials.rounds = recorded_rounds();
  trials.recorded = {{0}, {0.05}, {0.10}};
  trials.run = real_run_options();
  Fault leak;
  leak.leaked_bytes = kLeakedBytes;
  Fault bias;
  bias.loss_factor = 1.01;
  Fault lost;
  lost.lost_bytes = 1;
  trials.real = {{"real-twin", {}, ""},
                 {"leak", leak, "leaked_bytes"},
                 {"loss-bias", bias, "loss trace"},
                 {"lost-byte", lost, "peak: without an owner"}};
  return trials;
}

std::vector<TrialOutcome> run_self_test(const SelfTestTrials& trials, const fs::path& out) {
  return SelfTest(trials, out).run();
}

}  // namespace noisemark::suite
