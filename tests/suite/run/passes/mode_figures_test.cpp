#include "suite/run/passes/mode_figures.h"
#include "reports/result/json_io.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/result/gate.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"
#include "suite/run/single_run.h"
#include "suite/run/spec/plan.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

namespace noisemark::suite {
namespace {

/// Ho's topology with dropout, four images a step.
RunOptions options_under(const std::string& mode) {
  RunOptions options;
  options.id = "gmm16-ho@cpu";
  options.device = "cpu";
  options.modes = {mode};
  options.sets = {"train.batch=4", "eval.samples=8"};
  return options;
}

SideBySide trained_with(const RunOptions& options, const Fault& fault = {}) {
  const PlannedRun plan = plan_runs(options).front();
  SessionOptions session = session_options(options, plan);
  session.fault = fault;
  Progress line("", 1, 4);
  const InterruptGuard interrupt;
  return train_side_by_side(session, {line, interrupt});
}

SideBySide trained_under(const std::string& mode) {
  return trained_with(options_under(mode));
}

/// The step from which on no pass is the one that was recorded.
Fault halved_from(int64_t step) {
  Fault fault;
  fault.halved_from = step;
  return fault;
}

/// Steps until a mode that makes values again follows its plan: the first compared one has this
/// number.
constexpr int64_t kFirstCompared = 3;

const SideBySide& under_echo() {
  static const SideBySide kTrained = trained_under("echo");
  return kTrained;
}

const SideBySide& under_dpr8() {
  static const SideBySide kTrained = trained_under("dpr8");
  return kTrained;
}

TEST(Certificate, of_a_mode_that_makes_values_again_passes) {
  const reports::Certificate proof = certificate_of(under_echo(), /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kPass) << proof.words;
  EXPECT_EQ(proof.steps, (std::vector<int64_t>{1, 2, 10}));
  ASSERT_EQ(proof.sha256.size(), 3U);
  EXPECT_EQ(proof.sha256, proof.reference_sha256);
  EXPECT_NE(proof.sha256[0], proof.sha256[1]) << "two steps are not the same step";
}

TEST(Certificate, of_ranks_is_that_of_the_first_which_did_not_pass_with_its_bits) {
  const reports::Certificate own = certificate_of(under_echo(), /*lossless=*/true);
  EXPECT_EQ(certificate_of_ranks({own, own}).words,
            own.words + " The same holds on each of the 2 ranks.");
  reports::Certificate failed = own;
  failed.verdict = reports::Verdict::kFail;
  failed.words = "Differs from mode none after step 2, first in loss.";
  failed.sha256.back() = std::string(64, '0');
  const reports::Certificate told = reports::part_from_json<reports::Certificate>(
      reports::to_json(failed), "what a rank handed over");
  const reports::Certificate all = certificate_of_ranks({own, told});
  EXPECT_EQ(all.verdict, reports::Verdict::kFail);
  EXPECT_EQ(all.words, "On rank 1: Differs from mode none after step 2, first in loss.");
  EXPECT_EQ(all.sha256, failed.sha256) << "the gate counts the bits that differ";
}

TEST(Certificate, is_of_steps_that_followed_a_plan) {
  EXPECT_EQ(under_echo().mode.not_followed, std::vector<std::string>(3));
  const memopt::PlannedModeReport& report = under_echo().mode_report;
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.followed_passes, 10);
  EXPECT_GT(report.plan.recipes, 0);
  EXPECT_GT(report.counters.recipes_run, 0);
}

TEST(Certificate, in_bfloat16_passes_for_a_mode_that_makes_values_again) {
  RunOptions options = options_under("mirror+echo");
  options.precision = "bf16";
  const SideBySide trained = trained_with(options);
  const reports::Certificate proof = certificate_of(trained, /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kPass) << proof.words;
  EXPECT_GT(trained.mode_report.counters.recipes_run, 0);
  EXPECT_NE(trained.mode.digests.front(), under_echo().mode.digests.front())
      << "another precision has other bits";
}

TEST(Certificate, of_a_mode_that_left_its_plan_in_a_compared_step_is_unavailable) {
  const SideBySide trained = trained_with(options_under("echo"), halved_from(kFirstCompared + 1));
  EXPECT_EQ(trained.mode.digests, trained.none.digests) << "what is kept is equal all the same";
  EXPECT_EQ(trained.mode.not_followed.at(0), "");
  EXPECT_EQ(trained.mode_report.counters.departures, 4) << "then the mode watches again";
  const reports::Certificate proof = certificate_of(trained, /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kUnavailable) << proof.words;
  EXPECT_NE(proof.words.find("compared step 2 did not follow a plan"), std::string::npos)
      << proof.words;
  EXPECT_NE(proof.words.find("another path than was recorded"), std::string::npos) << proof.words;
}

TEST(Certificate, of_a_mode_that_gave_up_is_unavailable_even_where_none_differs_from_itself) {
  SideBySide trained = under_echo();
  trained.mode.not_followed = {"", "", "an operator failed"};
  EXPECT_EQ(certificate_of(trained, /*lossless=*/true).verdict, reports::Verdict::kUnavailable);
  trained.none_again.digests[2].front().second = std::string(64, '0');
  const reports::Certificate proof = certificate_of(trained, /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kUnavailable);
  EXPECT_NE(proof.words.find("an operator failed"), std::string::npos) << proof.words;
}

TEST(Certificate, that_finds_a_difference_fails_whatever_was_followed) {
  SideBySide trained = under_dpr8();
  trained.mode.not_followed = {"an operator failed", "", ""};
  EXPECT_EQ(certificate_of(trained, /*lossless=*/true).verdict, reports::Verdict::kFail);
}

TEST(Certificate, holds_loss_gradients_and_weights) {
  const StepDigests& step = under_echo().mode.digests.front();
  const auto count = [&step](const std::string& prefix) {
    return std::count_if(step.begin(), step.end(),
                         [&prefix](const auto& entry) { return entry.first.starts_with(prefix); });
  };
  EXPECT_EQ(count("loss"), 1);
  EXPECT_GT(count("gradient."), 50);
  EXPECT_EQ(count("weight."), count("gradient.")) << "every parameter has a gradient";
}

TEST(Certificate, of_rounding_that_calls_itself_lossless_fails_and_names_a_gradient) {
  const reports::Certificate proof = certificate_of(under_dpr8(), /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kFail);
  EXPECT_NE(proof.words.find("after step 1, first in gradient."), std::string::npos)
      << "the loss of that step is still exact: " << proof.words;
}

TEST(Certificate, does_not_apply_to_a_lossy_mode) {
  EXPECT_EQ(certificate_of(under_dpr8(), /*lossless=*/false).verdict,
            reports::Verdict::kNotApplied);
}

TEST(Certificate, is_unavailable_where_none_differs_from_itself) {
  SideBySide trained = under_echo();
  trained.none_again.digests[2].front().second = std::string(64, '0');
  const reports::Certificate proof = certificate_of(trained, /*lossless=*/true);
  EXPECT_EQ(proof.verdict, reports::Verdict::kUnavailable);
  EXPECT_NE(proof.words.find("none differs from itself after step 10"), std::string::npos)
      << proof.words;
}

TEST(Certificate, starts_from_perturbed_weights) {
  const NamedTensors& gradients = under_echo().none.gradients;
  const auto zero = std::find_if(gradients.begin(), gradients.end(), [](const auto& entry) {
    return entry.second.count_nonzero().template item<int64_t>() == 0;
  });
  EXPECT_EQ(zero, gradients.end()) << "a layer that starts at 0 hides all before it: "
                                   << (zero == gradients.end() ? "" : zero->first);
}

TEST(GradientError, is_zero_for_a_lossless_mode_and_not_for_rounding) {
  EXPECT_EQ(gradient_error_of({differences_of(under_echo())}).error_frac, 0.0);
  const reports::GradientError error = gradient_error_of({differences_of(under_dpr8())});
  ASSERT_TRUE(error.error_frac);
  EXPECT_GT(*error.error_frac, 1e-4);
  // 1-4-3 rounds each saved value by at most 1/16 of it, and more below its smallest normal.
  EXPECT_LT(*error.error_frac, 0.25);
  EXPECT_EQ(error.tensors.size(), under_dpr8().mode.gradients.size());
}

TEST(GradientError, in_bfloat16_is_that_of_rounding_alone) {
  RunOptions options = options_under("echo+dpr8");
  options.precision = "bf16";
  const SideBySide trained = trained_with(options);
  EXPECT_NE(trained.none.digests.front(), under_dpr8().none.digests.front())
      << "beside none in bfloat16";
  const reports::GradientError error = gradient_error_of({differences_of(trained)});
  ASSERT_TRUE(error.error_frac) << error.missing_reason;
  EXPECT_GT(*error.error_frac, 1e-4);
  // The bound of float32: bfloat16's own rounding, to 1/512, is in the reference too.
  EXPECT_LT(*error.error_frac, 0.25);
  EXPECT_EQ(error.tensors.size(), trained.mode.gradients.size());
}

TEST(GradientError, of_a_step_that_followed_no_plan_is_missing) {
  SideBySide trained = under_dpr8();
  trained.mode.not_followed.front() = "an operator failed";
  const reports::GradientError error = gradient_error_of({differences_of(trained)});
  EXPECT_FALSE(error.error_frac);
  EXPECT_NE(error.missing_reason.find("an operator failed"), std::string::npos);
}

TEST(GradientError, is_relative_to_the_exact_gradient_by_tensor_and_whole) {
  SideBySide trained;
  trained.none.gradients = {{"a", at::full({4}, 3.0)}, {"b", at::full({4}, 4.0)}};
  trained.mode.gradients = {{"a", at::full({4}, 3.0)}, {"b", at::full({4}, 5.0)}};
  const reports::GradientError error = gradient_error_of({differences_of(trained)});
  EXPECT_DOUBLE_EQ(error.tensors.at(0).error_frac, 0);
  EXPECT_DOUBLE_EQ(error.tensors.at(1).error_frac, 0.25);
  EXPECT_DOUBLE_EQ(error.error_frac.value_or(-1), 0.2) << "2 of sqrt(36 + 64)";
}

TEST(GradientError, of_stages_is_that_of_the_whole_network_and_missing_where_one_lacks_it) {
  GradientDifferences first{{{"a", 0, 36}}, ""};
  GradientDifferences second{{{"b", 4, 64}}, ""};
  const auto joined = [&] {
    return gradient_error_of(differences_from({text_of(first), text_of(second)}));
  };
  EXPECT_DOUBLE_EQ(joined().error_frac.value_or(-1), 0.2) << "2 of sqrt(36 + 64)";
  EXPECT_EQ(joined().tensors.at(1).name, "b");
  second.missing_reason = "an operator failed:\nat c10::Error";
  EXPECT_EQ(joined().missing_reason, "on rank 1: an operator failed: at c10::Error");
  EXPECT_FALSE(joined().error_frac);
  second = {{{"b", std::numeric_limits<double>::infinity(), 64}}, ""};
  EXPECT_EQ(joined().missing_reason, "a gradient was not finite");
}

TEST(Fallbacks, of_ranks_are_counted_together_and_name_the_rank_that_had_no_plan) {
  reports::RankRecord none;
  none.fallbacks.resize(2);
  none.fallbacks[0].pass = "memory";
  none.fallbacks[1].pass = "training";
  none.fallbacks[1].departures = 2;
  none.fallbacks[1].budget.emplace().steps = 5;
  reports::RankRecord other = none;
  other.fallbacks[0].plan_missing_reason = "an operator failed";
  other.fallbacks[1].budget->exceeded = 1;
  other.fallbacks[1].budget->exceeded_reason = "more was saved";
  other.fallbacks[1].budget->uncertain = 4;
  other.fallbacks[1].budget->uncertain_reason = "it is small";
  const auto all = fallbacks_of_ranks({none, other, none});
  EXPECT_EQ(all.at(0).plan_missing_reason, "on rank 1: an operator failed");
  EXPECT_EQ(all.at(1).departures, 6);
  ASSERT_TRUE(all.at(1).budget);
  EXPECT_EQ(all.at(1).budget->steps, 15);
  EXPECT_EQ(all.at(1).budget->exceeded, 1);
  EXPECT_EQ(all.at(1).budget->uncertain, 4);
  EXPECT_EQ(all.at(1).budget->uncertain_reason, "on rank 1: it is small");
  EXPECT_EQ(all.at(1).budget->exceeded_reason, "on rank 1: more was saved");
}

TEST(Overhead, is_the_ratio_of_the_times_of_a_round) {
  SideBySide trained;
  trained.none.step_s = {1.0, 2.0, 4.0, 1.0, 2.0, 4.0};
  trained.none_again.step_s = trained.none.step_s;
  for (const double step_s : trained.none.step_s) trained.mode.step_s.push_back(1.5 * step_s);
  const reports::Overhead overhead = overhead_of(trained);
  EXPECT_DOUBLE_EQ(overhead.frac.value_or(-1), 0.5) << "the machine's drift cancels out";
  EXPECT_DOUBLE_EQ(overhead.noise_frac.value_or(-1), 0);
}

TEST(RunUnderAMode, reports_plan_certificate_and_overhead) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const test::Finished run =
      test::run_noisemark({"run", "gmm16-ho@cpu", "--device", "cpu", "--mode", "echo", "--set",
                           "train.batch=4", "--set", "train.steps=4", "--set", "eval.samples=8",
                           "--set", "eval.every=0", "--no-profile", "--out", out.string()});
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = test::result_in(out);
  const reports::MemoryMode& mode = result.memory_mode;
  ASSERT_TRUE(mode.measured) << mode.missing_reason;
  EXPECT_EQ(mode.plan_missing_reason, "");
  EXPECT_EQ(mode.reference, "none-plain-fp32");
  EXPECT_GT(mode.recipes, 0);
  ASSERT_EQ(mode.fallbacks.size(), 3U);
  for (const reports::PassFallbacks& one : mode.fallbacks) {
    EXPECT_EQ(one.missing_reason + one.plan_missing_reason, "") << one.pass;
    EXPECT_EQ(one.departures + one.codec_fallbacks, 0) << one.pass;
  }
  ASSERT_TRUE(mode.irreplaceable_bytes);
  EXPECT_GT(*mode.irreplaceable_bytes, 0);
  EXPECT_LE(*mode.irreplaceable_bytes, mode.held_bytes + mode.encoded_from_bytes);
  ASSERT_TRUE(mode.plain.saved_bytes && mode.predicted.saved_bytes && mode.predicted.peak_bytes);
  EXPECT_GT(*mode.plain.saved_bytes, result.memory.saved_bytes);
  // The bounds of the planner's own issue: predicted within 3 % of what was measured.
  EXPECT_NEAR(static_cast<double>(*mode.predicted.saved_bytes),
              static_cast<double>(result.memory.saved_bytes),
              0.03 * static_cast<double>(result.memory.saved_bytes));
  EXPECT_NEAR(static_cast<double>(*mode.predicted.peak_bytes),
              static_cast<double>(result.memory.peak_bytes),
              0.03 * static_cast<double>(result.memory.peak_bytes));
  EXPECT_EQ(mode.certificate.verdict, reports::Verdict::kPass) << mode.certificate.words;
  EXPECT_TRUE(mode.overhead.frac);
  const auto gate = std::find_if(result.gates.begin(), result.gates.end(),
                                 [](const auto& one) { return one.name == "certificate"; });
  ASSERT_NE(gate, result.gates.end());
  EXPECT_EQ(gate->verdict, reports::Verdict::kPass);
  const test::Finished check = test::run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

TEST(RunUnderAMode, goes_on_and_says_so_where_host_memory_is_full) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const test::Finished run = test::run_noisemark(
      {"run", "gmm16-ho@cpu", "--device", "cpu", "--mode", "echo+offload:all,host=256KiB", "--set",
       "train.batch=4", "--set", "train.steps=4", "--set", "eval.samples=8", "--set",
       "eval.every=0", "--no-profile", "--out", out.string()});
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = test::result_in(out);
  const reports::MemoryMode& mode = result.memory_mode;
  EXPECT_EQ(mode.certificate.verdict, reports::Verdict::kPass) << mode.certificate.words;
  EXPECT_EQ(mode.host_memory.capacity_bytes, 256 << 10);
  EXPECT_GT(mode.host_memory.refused_tensors, 0);
  EXPECT_GT(mode.host_memory.refused_bytes, 0);
  const std::string report = reports::read_file(out / "report.md");
  EXPECT_NE(report.find(reports::finished_page("Host memory: 256.00 KiB; ")), std::string::npos)
      << report;
  EXPECT_NE(report.find("found no room there"), std::string::npos);
  EXPECT_NE(report.find("no room in host memory"), std::string::npos) << "why it is held";
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

/// The size that is named for those who ask for too little.
std::string smallest_budget(const std::vector<std::string>& small) {
  const test::Finished refused =
      test::run_noisemark(test::with({"plan", "gmm16-ho", "--budget", "1KiB"}, small));
  EXPECT_EQ(refused.code, 2) << refused.both();
  const std::string words = " bytes, ";
  const size_t begin = refused.err.find(words) + words.size();
  return refused.err.substr(begin,
                            refused.err.find_first_not_of("0123456789.KMGiB", begin) - begin);
}

const reports::Gate* gate_named(const reports::Result& result, const std::string& name) {
  const auto found = std::find_if(result.gates.begin(), result.gates.end(),
                                  [&](const reports::Gate& gate) { return gate.name == name; });
  return found == result.gates.end() ? nullptr : &*found;
}

TEST(RunUnderAMode, of_the_smallest_budget_that_a_plan_names_passes_the_gate_of_budgets) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const std::vector<std::string> small = {"--device", "cpu", "--set", "train.batch=8"};
  // Beside the trainings of the certificate pass a step holds more than a budget of all bytes.
  const std::string mode = "budget:" + smallest_budget(small) + ",strict";
  const test::Finished run = test::run_noisemark(
      test::with({"run", "gmm16-ho", "--mode", mode, "--no-profile", "--set", "train.steps=6",
                  "--set", "eval.every=0", "--out", out.string()},
                 small));
  ASSERT_EQ(run.code, 0) << mode << '\n' << run.both();
  const reports::Result result = test::result_in(out);
  const std::vector<reports::PassFallbacks>& passes = result.memory_mode.fallbacks;
  ASSERT_EQ(passes.size(), 3U);
  EXPECT_FALSE(passes[1].budget) << passes[1].pass;
  ASSERT_TRUE(passes[2].budget);
  EXPECT_GT(passes[2].budget->steps, 0);
  EXPECT_EQ(passes[2].budget->exceeded, 0) << passes[2].budget->exceeded_reason;
  const reports::Gate* steps = gate_named(result, "budget_steps");
  ASSERT_NE(steps, nullptr);
  EXPECT_EQ(steps->verdict, reports::Verdict::kPass) << steps->words;
  const reports::Gate* gate = gate_named(result, "budget");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->verdict, reports::Verdict::kPass) << gate->words;
  EXPECT_EQ(gate->bound, static_cast<double>(result.memory_mode.budget.bytes.value_or(0)));
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

TEST(RunUnderAMode, says_that_the_certificate_was_left_out) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const test::Finished run = test::run_noisemark(
      test::with(test::timed_only(out, 1), {"--mode", "echo", "--no-certificate"}));
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = test::result_in(out);
  EXPECT_NE(result.memory_mode.certificate.words.find("--no-certificate"), std::string::npos);
  const std::vector<reports::PassFallbacks>& passes = result.memory_mode.fallbacks;
  ASSERT_EQ(passes.size(), 3U);
  EXPECT_NE(passes[1].missing_reason.find("--no-certificate"), std::string::npos);
  EXPECT_NE(passes[2].missing_reason.find("too few forward passes for a plan: 1"),
            std::string::npos)
      << "a training too short for a plan is not red: " << passes[2].missing_reason;
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

TEST(Fallbacks, of_a_training_without_a_plan_are_of_a_pass_that_was_long_enough_for_one) {
  const ModeSpec mode = resolve_mode("dpr8");
  const int64_t enough = mode.forwards_until_steady;
  memopt::PlannedModeReport gave_up;
  gave_up.missing_reason = "an operator failed";
  const reports::PassFallbacks judged = training_fallbacks(mode, gave_up, enough);
  EXPECT_EQ(judged.missing_reason, "");
  EXPECT_EQ(judged.plan_missing_reason, "an operator failed");
  const reports::PassFallbacks cut_short = training_fallbacks(mode, gave_up, enough - 1);
  EXPECT_NE(cut_short.missing_reason.find("an operator failed"), std::string::npos);
  EXPECT_EQ(cut_short.plan_missing_reason, "");
  EXPECT_EQ(training_fallbacks(mode, {}, enough - 1).missing_reason, "") << "it had one in time";
}

TEST(RunUnderAMode, without_the_memory_pass_says_that_its_plan_was_not_measured) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const test::Finished run = test::run_noisemark(
      test::with(test::timed_only(out, 5), {"--mode", "echo", "--no-certificate"}));
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::MemoryMode mode = test::result_in(out).memory_mode;
  const std::string reason = "the memory pass was left out (--no-memory)";
  EXPECT_EQ(mode.plan_missing_reason, reason);
  ASSERT_EQ(mode.fallbacks.size(), 3U);
  EXPECT_EQ(mode.fallbacks[0].missing_reason, reason);
  EXPECT_EQ(mode.fallbacks[2].missing_reason, "") << "training was made";
  EXPECT_EQ(mode.fallbacks[2].plan_missing_reason, "") << "and had a plan";
  const std::string report = reports::read_file(out / "report.md");
  EXPECT_NE(report.find("**Plan:** This was not measured: " + reason), std::string::npos) << report;
  EXPECT_EQ(report.find(reports::finished_page("autograd saves 0 B")), std::string::npos) << report;
}

TEST(RunUnderAMode, counts_fallbacks_in_each_of_its_passes_apart) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  RunOptions options = options_under("echo");
  options.sets.insert(options.sets.end(), {"train.steps=20", "eval.every=0"});
  // Memory that other tests of this process keep has no owner in a memory pass.
  options.profile = options.memory = options.verdict = false;
  // The certificate pass has 13 steps, and training 20.
  const ExitCode code =
      run_single(options, plan_runs(options).front(), out, halved_from(kFirstCompared + 13));
  EXPECT_EQ(code, ExitCode::kPass);
  const reports::Result result = test::result_in(out);
  const std::vector<reports::PassFallbacks>& passes = result.memory_mode.fallbacks;
  ASSERT_EQ(passes.size(), 3U);
  EXPECT_NE(passes[0].missing_reason, "");
  for (const size_t made : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(passes[made].missing_reason, "") << passes[made].pass;
    EXPECT_EQ(passes[made].plan_missing_reason, "") << passes[made].pass;
  }
  EXPECT_EQ(passes[1].departures, 0);
  EXPECT_EQ(passes[2].departures, 4);
  EXPECT_EQ(result.memory_mode.certificate.verdict, reports::Verdict::kPass);
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

TEST(RunUnderAMode, whose_training_did_not_keep_its_budget_is_red) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  RunOptions options = options_under("budget:saved=3MiB");
  options.sets.insert(options.sets.end(), {"train.steps=6", "eval.every=0"});
  options.profile = options.memory = options.certificate = options.verdict = false;
  const ExitCode code =
      run_single(options, plan_runs(options).front(), out, halved_from(kFirstCompared + 1));
  EXPECT_EQ(code, ExitCode::kFailed);
  const reports::Result result = test::result_in(out);
  const std::optional<reports::BudgetSteps>& kept = result.memory_mode.fallbacks.back().budget;
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->steps, 3) << "the first three are recorded and compared";
  EXPECT_EQ(kept->exceeded, 2);
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(result.exit.reasons.front().starts_with("budget_steps: ")) << result.exit.reasons[0];
  const std::string report = reports::read_file(out / "report.md");
  EXPECT_NE(report.find("**not kept** in 2 of 3 steps of the training pass"), std::string::npos)
      << report;
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

TEST(RunUnderAMode, whose_plan_was_not_followed_in_compared_steps_is_red) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  RunOptions options = options_under("echo");
  options.sets.insert(options.sets.end(), {"train.steps=2", "eval.every=0"});
  options.profile = options.memory = options.verdict = false;
  const ExitCode code =
      run_single(options, plan_runs(options).front(), out, halved_from(kFirstCompared));
  EXPECT_EQ(code, ExitCode::kFailed);
  const reports::Result result = test::result_in(out);
  EXPECT_EQ(result.memory_mode.certificate.verdict, reports::Verdict::kUnavailable);
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(result.exit.reasons.front().starts_with("certificate: Nothing is proven"))
      << result.exit.reasons.front();
  EXPECT_EQ(result.memory_mode.gradient_error.error_frac, std::nullopt);
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

TEST(RunUnderAMode, that_rounds_and_left_its_plan_in_the_compared_step_is_red) {
  const test::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  RunOptions options = options_under("dpr8");
  options.sets.insert(options.sets.end(), {"train.steps=2", "eval.every=0"});
  options.profile = options.memory = options.verdict = false;
  const ExitCode code =
      run_single(options, plan_runs(options).front(), out, halved_from(kFirstCompared));
  EXPECT_EQ(code, ExitCode::kFailed);
  const reports::Result result = test::result_in(out);
  EXPECT_EQ(result.memory_mode.certificate.verdict, reports::Verdict::kNotApplied);
  ASSERT_EQ(result.exit.reasons.size(), 1U);
  EXPECT_TRUE(result.exit.reasons.front().starts_with("plan: Without a plan"))
      << result.exit.reasons.front();
  EXPECT_EQ(test::run_noisemark({"check", out.string()}).code, 0);
}

}  // namespace

}  // namespace noisemark::suite
