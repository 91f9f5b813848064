#include "suite/selftest/selftest.h"

#include <fmt/format.h>

#include <utility>

#include "reports/compare/compare.h"
#include "reports/compare/comparison_json.h"
#include "reports/compare/comparison_markdown.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/quantity.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"
#include "suite/selftest/altered_sides.h"

namespace noisemark::suite {
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
  SelfTest(const SelfTestPlan& plan, fs::path out) : plan_(plan), out_(std::move(out)) {}

  std::vector<TrialOutcome> run() {
    for (const RecordedTrial& trial : plan_.recorded) judge(trial);
    if (plan_.real.empty()) return std::move(outcomes_);
    const reports::Side base = real_run("base", {});
    for (const RealTrial& trial : plan_.real) judge(base, trial);
    return std::move(outcomes_);
  }

 private:
  void judge(const RecordedTrial& trial) {
    const double frac = trial.slower_frac;
    const std::string percent = reports::format_percent(frac);
    const std::string name = frac == 0 ? "recorded-twin" : fmt::format("slower-{:g}", 100 * frac);
    const reports::Side candidate = slowed(plan_.rounds.candidate, frac);
    keep(name, answer({frac == 0 ? "none" : "every step " + percent + " longer", "recorded rounds",
                       frac == 0 ? "" : "images_per_s"},
                      reports::compare(plan_.rounds.base, candidate, plan_.judging)));
  }

  void judge(const reports::Side& base, const RealTrial& trial) {
    const reports::Side candidate = real_run(trial.name, trial.fault);
    const std::string words = fault_words(trial.fault);
    reports::StochasticOptions judging = plan_.judging;
    judging.gates = false;  // one run of each proves nothing about noise
    keep(trial.name, answer({words.empty() ? "none" : words, "a real run", trial.judge},
                            reports::compare(base, candidate, judging)));
  }

  reports::Side real_run(const std::string& name, const Fault& fault) {
    const PlannedRun plan = plan_runs(plan_.run).front();
    const fs::path folder = out_ / name;
    const ExitCode code = run_single(plan_.run, plan, folder, fault);
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

  const SelfTestPlan& plan_;
  const fs::path out_;
  std::vector<TrialOutcome> outcomes_;
};

}  // namespace

SelfTestPlan shipped_self_test() {
  SelfTestPlan plan;
  plan.rounds = recorded_rounds();
  plan.recorded = {{0}, {0.05}, {0.10}};
  plan.run = real_run_options();
  Fault leak;
  leak.leaked_bytes = kLeakedBytes;
  Fault bias;
  bias.loss_factor = 1.01;
  Fault lost;
  lost.lost_bytes = 1;
  plan.real = {{"real-twin", {}, ""},
               {"leak", leak, "leaked_bytes"},
               {"loss-bias", bias, "loss trace"},
               {"lost-byte", lost, "peak: without an owner"}};
  return plan;
}

std::vector<TrialOutcome> run_self_test(const SelfTestPlan& plan, const fs::path& out) {
  return SelfTest(plan, out).run();
}

}  // namespace noisemark::suite
