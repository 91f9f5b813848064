#include "reports/result/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "reports/base/file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::full_result;
using test::minimal_result;

const GateRule kLoss{"val_loss", "val_loss", "at most", 0.12};

Gate gate_named(const std::vector<Gate>& gates, const std::string& name) {
  for (const Gate& gate : gates) {
    if (gate.name == name) return gate;
  }
  ADD_FAILURE() << "no gate " << name;
  return {};
}

Verdict verdict_of(const Result& result, const std::string& name,
                   const Finiteness& finiteness = {}) {
  return gate_named(evaluate_gates(result, {kLoss}, finiteness), name).verdict;
}

TEST(Gate, all_pass_on_a_good_result) {
  const auto gates = evaluate_gates(full_result(), {kLoss}, {});
  ASSERT_EQ(gates.size(), 5U);
  for (const Gate& gate : gates) EXPECT_EQ(gate.verdict, Verdict::kPass) << gate.words;
  const Exit exit = exit_of(gates, false);
  EXPECT_EQ(exit.code, 0);
  EXPECT_EQ(exit.status, "pass");
  EXPECT_TRUE(exit.reasons.empty());
}

/// Returns the first cells of the table in the README's section on gates.
std::vector<std::string> gates_of_the_readme() {
  std::istringstream lines(read_file(std::filesystem::path(NOISEMARK_RESULT_ROOM) / "README.md"));
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) inside = line == "## Gates";
    if (inside && line.starts_with("| `")) names.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  return names;
}

TEST(Gate, every_gate_of_the_program_has_a_row_in_the_readme) {
  Result result = test::result_of_two_ranks();
  result.identity.mode = "budget:SIZE,error=0.01";
  result.memory_mode.budget.figure = "peak_bytes";
  result.memory_mode.budget.bytes = 1;
  result.memory_mode.budget.error_frac = 0.01;
  std::vector<std::string> names;
  for (const Gate& gate : evaluate_gates(result, {gradient_error_rule(0.1)}, {})) {
    names.push_back(gate.name);
  }
  EXPECT_EQ(gates_of_the_readme(), names);
}

TEST(Gate, certificate_judges_runs_under_a_memory_mode_only) {
  const auto without = evaluate_gates(full_result(), {}, {});
  EXPECT_TRUE(std::none_of(without.begin(), without.end(),
                           [](const Gate& gate) { return gate.name == "certificate"; }));
  const Gate gate = gate_named(evaluate_gates(test::result_under_echo(), {}, {}), "certificate");
  EXPECT_EQ(gate.verdict, Verdict::kPass) << gate.words;
  EXPECT_EQ(gate.value, 0.0);
}

TEST(Gate, certificate_turns_red_and_counts_the_steps_that_differ) {
  Result result = test::result_under_echo();
  Certificate& proof = result.memory_mode.certificate;
  proof.verdict = Verdict::kFail;
  proof.sha256[1] = proof.sha256[2] = proof.sha256[0];
  proof.words = "Differs from mode none after step 2, first in gradient.conv.weight.";
  const auto gates = evaluate_gates(result, {}, {});
  const Gate gate = gate_named(gates, "certificate");
  EXPECT_EQ(gate.verdict, Verdict::kFail);
  EXPECT_EQ(gate.value, 2.0);
  EXPECT_NE(gate.words.find("gradient.conv.weight"), std::string::npos);
  EXPECT_EQ(exit_of(gates, false).code, 1);
}

TEST(Gate, certificate_that_was_left_out_is_not_a_pass) {
  Result result = test::result_under_echo();
  result.memory_mode.certificate = {};
  result.memory_mode.certificate.words = "Not applied: left out (--no-certificate).";
  const Gate gate = gate_named(evaluate_gates(result, {}, {}), "certificate");
  EXPECT_EQ(gate.verdict, Verdict::kNotApplied);
  EXPECT_FALSE(gate.value);
}

TEST(Gate, certificate_that_proves_nothing_is_red) {
  Result result = test::result_under_echo();
  Certificate& proof = result.memory_mode.certificate;
  ASSERT_EQ(proof.sha256, proof.reference_sha256) << "what keeps everything is equal anyway";
  proof.verdict = Verdict::kUnavailable;
  for (const char* why : {"compared step 1 did not follow a plan.", "none differs from itself."}) {
    proof.words = std::string("Nothing is proven: ") + why;
    const auto gates = evaluate_gates(result, {}, {});
    const Gate gate = gate_named(gates, "certificate");
    EXPECT_EQ(gate.verdict, Verdict::kFail);
    EXPECT_FALSE(gate.value);
    EXPECT_EQ(gate.words, proof.words);
    EXPECT_EQ(exit_of(gates, false).code, 1);
  }
}

/// A result under rounding, whose certificate pass has a gradient error.
Result result_under_rounding() {
  Result result = test::result_under_echo();
  result.identity.mode = "dpr8";
  MemoryMode& mode = result.memory_mode;
  mode.lossless = false;
  mode.certificate = {};
  mode.certificate.words = "Not applied: the mode is not lossless.";
  mode.gradient_error.error_frac = 0.03;
  return result;
}

TEST(Gate, plan_passes_where_every_pass_had_one) {
  for (const Result& result : {test::result_under_echo(), result_under_rounding()}) {
    const Gate gate = gate_named(evaluate_gates(result, {}, {}), "plan");
    EXPECT_EQ(gate.verdict, Verdict::kPass) << gate.words;
    EXPECT_EQ(gate.value, 0.0);
    EXPECT_NE(gate.words.find("memory, certificate, training"), std::string::npos) << gate.words;
  }
  const auto none = evaluate_gates(full_result(), {}, {});
  EXPECT_TRUE(
      std::none_of(none.begin(), none.end(), [](const Gate& gate) { return gate.name == "plan"; }));
}

TEST(Gate, plan_turns_red_in_any_pass_in_which_the_mode_gave_up) {
  for (size_t pass = 0; pass < 3; ++pass) {
    for (Result result : {test::result_under_echo(), result_under_rounding()}) {
      PassFallbacks& without = result.memory_mode.fallbacks.at(pass);
      without.plan_missing_reason = "an operator failed";
      const auto gates = evaluate_gates(result, {}, {});
      const Gate gate = gate_named(gates, "plan");
      EXPECT_EQ(gate.verdict, Verdict::kFail);
      EXPECT_EQ(gate.value, 1.0);
      EXPECT_NE(gate.words.find(without.pass + " (an operator failed)"), std::string::npos)
          << gate.words;
      EXPECT_EQ(exit_of(gates, /*custom=*/true).code, 1) << "also where the definition was changed";
    }
  }
}

TEST(Gate, plan_turns_red_where_a_lossy_mode_has_no_gradient_error) {
  Result result = result_under_rounding();
  result.memory_mode.gradient_error = {{}, "the step did not follow a plan", {}};
  const Gate gate = gate_named(evaluate_gates(result, {}, {}), "plan");
  EXPECT_EQ(gate.verdict, Verdict::kFail);
  EXPECT_NE(gate.words.find("certificate (the gradient error is missing: the step did not follow"),
            std::string::npos)
      << gate.words;
  result.memory_mode.fallbacks[1].missing_reason = "left out (--no-certificate)";
  EXPECT_EQ(verdict_of(result, "plan"), Verdict::kPass) << "nobody asked for an error";
}

TEST(Gate, plan_judges_no_pass_that_was_not_made) {
  Result result = result_under_rounding();
  for (PassFallbacks& pass : result.memory_mode.fallbacks) pass.missing_reason = "left out";
  EXPECT_EQ(verdict_of(result, "plan"), Verdict::kNotApplied);
}

/// A run under a budget that it just meets.
Result result_under_budget(const std::string& figure) {
  Result result = test::result_under_echo();
  result.identity.mode = "budget:SIZE";
  const MemorySection& memory = result.memory;
  const bool all = figure == "peak_bytes";
  result.memory_mode.budget.figure = figure;
  result.memory_mode.budget.bytes = all ? memory.peak_bytes : memory.peak_saved_bytes;
  return result;
}

TEST(Gate, budget_turns_red_one_byte_above_what_was_asked_for) {
  for (const char* figure : {"peak_bytes", "peak_saved_bytes"}) {
    Result result = result_under_budget(figure);
    const Gate met = gate_named(evaluate_gates(result, {}, {}), "budget");
    EXPECT_EQ(met.verdict, Verdict::kPass) << met.words;
    EXPECT_EQ(met.metric, figure);
    --*result.memory_mode.budget.bytes;
    const auto gates = evaluate_gates(result, {}, {});
    const Gate missed = gate_named(gates, "budget");
    EXPECT_EQ(missed.verdict, Verdict::kFail);
    EXPECT_NE(missed.words.find("above the budget"), std::string::npos) << missed.words;
    EXPECT_EQ(exit_of(gates, /*custom=*/true).code, 1) << "also where the definition was changed";
  }
}

TEST(Gate, budget_of_several_ranks_is_kept_by_each_and_names_the_one_that_held_the_most) {
  for (const char* figure : {"peak_bytes", "peak_saved_bytes"}) {
    Result result = result_under_budget(figure);
    result.ranks.resize(2);
    result.ranks[1].rank = 1;
    const Gate met = gate_named(evaluate_gates(result, {}, {}), "budget");
    EXPECT_EQ(met.verdict, Verdict::kPass) << met.words;
    EXPECT_NE(met.words.find("on rank 0, the most of 2, within"), std::string::npos) << met.words;
    const int64_t above = *result.memory_mode.budget.bytes + 1;
    (met.metric == "peak_bytes" ? result.ranks[1].peak.allocator_bytes
                                : result.ranks[1].peak_saved_bytes.emplace()) = above;
    const Gate missed = gate_named(evaluate_gates(result, {}, {}), "budget");
    EXPECT_EQ(missed.verdict, Verdict::kFail);
    EXPECT_NE(missed.words.find("on rank 1, the most of 2, above"), std::string::npos)
        << missed.words;
  }
}

TEST(Gate, budget_judges_no_run_whose_memory_was_not_measured) {
  Result result = result_under_budget("peak_bytes");
  result.memory = {};
  result.memory.missing_reason = "not asked for";
  EXPECT_EQ(verdict_of(result, "budget"), Verdict::kNotApplied);
}

TEST(Gate, budget_steps_turns_red_where_a_step_of_any_pass_exceeded_the_budget) {
  Result result = result_under_budget("peak_saved_bytes");
  std::vector<PassFallbacks>& passes = result.memory_mode.fallbacks;
  EXPECT_EQ(verdict_of(result, "budget_steps"), Verdict::kNotApplied) << "nothing was counted";
  passes[0].budget = BudgetSteps{2, 0, "", 0, ""};
  passes[2].budget = BudgetSteps{5, 0, "", 3, "the gradient is small"};
  EXPECT_EQ(verdict_of(result, "budget_steps"), Verdict::kPass);
  passes[2].budget->exceeded = 1;
  passes[2].budget->exceeded_reason = "a graph was retained";
  const auto gates = evaluate_gates(result, {}, {});
  const Gate missed = gate_named(gates, "budget_steps");
  EXPECT_EQ(missed.verdict, Verdict::kFail);
  EXPECT_NE(missed.words.find("1 of 5 in the training pass (a graph was retained)"),
            std::string::npos)
      << missed.words;
  EXPECT_EQ(exit_of(gates, /*custom=*/true).code, 1) << "also where the definition was changed";
}

TEST(Gate, budget_is_not_there_under_another_mode) {
  const auto gates = evaluate_gates(test::result_under_echo(), {}, {});
  EXPECT_TRUE(std::none_of(gates.begin(), gates.end(),
                           [](const Gate& gate) { return gate.name.starts_with("budget"); }));
}

TEST(Gate, budget_error_turns_red_where_a_step_beside_none_is_above_the_error_asked_for) {
  Result result = result_under_budget("peak_bytes");
  result.memory_mode.lossless = false;
  result.memory_mode.budget.error_frac = 0.01;
  // The planner's own measurement is within the bound whatever came of it.
  result.memory_mode.budget.measured_error_frac = 0.009;
  result.memory_mode.gradient_error.error_frac = 0.01;
  const Gate met = gate_named(evaluate_gates(result, {}, {}), "budget_error");
  EXPECT_EQ(met.verdict, Verdict::kPass) << met.words;
  EXPECT_EQ(met.metric, "gradient_error");
  result.memory_mode.gradient_error.error_frac = std::nextafter(0.01, 1.0);
  const auto gates = evaluate_gates(result, {}, {});
  const Gate missed = gate_named(gates, "budget_error");
  EXPECT_EQ(missed.verdict, Verdict::kFail);
  EXPECT_NE(missed.words.find("above the error of 0.01"), std::string::npos) << missed.words;
  EXPECT_EQ(exit_of(gates, /*custom=*/true).code, 1) << "also where the definition was changed";
}

TEST(Gate, budget_error_judges_no_run_without_a_certificate_pass) {
  Result result = result_under_budget("peak_bytes");
  result.memory_mode.budget.error_frac = 0.01;
  result.memory_mode.budget.measured_error_frac = 0.009;
  result.memory_mode.gradient_error = {{}, "it was not trained beside none", {}};
  const Gate gate = gate_named(evaluate_gates(result, {}, {}), "budget_error");
  EXPECT_EQ(gate.verdict, Verdict::kNotApplied);
  EXPECT_NE(gate.words.find("it was not trained beside none"), std::string::npos) << gate.words;
}

TEST(Gate, finite_loss_turns_red_and_names_the_first_tensor) {
  const auto gates = evaluate_gates(full_result(), {}, {false, "loss at step 12"});
  const Gate gate = gate_named(gates, "finite_loss");
  EXPECT_EQ(gate.verdict, Verdict::kFail);
  EXPECT_NE(gate.words.find("loss at step 12"), std::string::npos);
  EXPECT_EQ(exit_of(gates, false).code, 1);
}

TEST(Gate, finite_loss_says_how_many_steps_loss_scaling_skipped) {
  Result result = full_result();
  const auto words = [&] {
    return gate_named(evaluate_gates(result, {}, {}), "finite_loss").words;
  };
  EXPECT_EQ(words(), "Every training loss and gradient norm was finite.");
  Metric skipped;
  skipped.name = "skipped_steps";
  skipped.value = 2;
  result.metrics.push_back(skipped);
  EXPECT_EQ(words(),
            "Every training loss and gradient norm was finite, but for the steps that loss scaling "
            "skipped (2).");
}

TEST(Gate, closure_at_a_boundary_turns_red_on_one_byte_either_way) {
  for (const int64_t off : {1, -1}) {
    Result result = full_result();
    result.memory.boundaries[1].unattributed_bytes = off;
    const Gate gate = gate_named(evaluate_gates(result, {}, {}), "closure_boundaries");
    EXPECT_EQ(gate.verdict, Verdict::kFail);
    EXPECT_NE(gate.words.find("forward_end"), std::string::npos) << gate.words;
  }
}

TEST(Gate, closure_without_any_boundary_is_no_pass) {
  Result result = full_result();
  result.memory.boundaries.clear();
  EXPECT_EQ(verdict_of(result, "closure_boundaries"), Verdict::kFail);
}

TEST(Gate, closure_at_the_peak_turns_red_above_one_percent) {
  Result result = full_result();
  result.memory.peak.allocator_bytes = 1000;
  result.memory.peak.unattributed_bytes = 10;
  EXPECT_EQ(verdict_of(result, "closure_peak"), Verdict::kPass);
  result.memory.peak.unattributed_bytes = 11;
  EXPECT_EQ(verdict_of(result, "closure_peak"), Verdict::kFail);
  result.memory.peak.unattributed_bytes = -11;
  EXPECT_EQ(verdict_of(result, "closure_peak"), Verdict::kFail);
  result.memory.peak.allocator_bytes = 0;
  EXPECT_EQ(verdict_of(result, "closure_peak"), Verdict::kFail);
}

TEST(Gate, leak_turns_red_on_one_byte_either_way) {
  for (const int64_t leaked : {1, -1}) {
    Result result = full_result();
    result.memory.leaked_bytes = leaked;
    EXPECT_EQ(verdict_of(result, "leak"), Verdict::kFail);
  }
}

TEST(Gate, memory_gates_are_not_applied_without_a_memory_pass) {
  const Result result = minimal_result();
  for (const char* name : {"closure_boundaries", "closure_peak", "leak"}) {
    const Gate gate = gate_named(evaluate_gates(result, {}, {}), name);
    EXPECT_EQ(gate.verdict, Verdict::kNotApplied);
    EXPECT_NE(gate.words.find("not asked for"), std::string::npos);
  }
}

TEST(Gate, a_rule_turns_red_beyond_its_bound_in_both_relations) {
  Result result = full_result();
  result.metrics[1].value = 0.12;
  EXPECT_EQ(verdict_of(result, "val_loss"), Verdict::kPass);
  result.metrics[1].value = std::nextafter(0.12, 1.0);
  EXPECT_EQ(verdict_of(result, "val_loss"), Verdict::kFail);
  const GateRule fast{"fast", "images_per_s", "at least", 1e9};
  EXPECT_EQ(evaluate_gates(result, {fast}, {}).back().verdict, Verdict::kFail);
}

TEST(Gate, a_missing_metric_fails_and_says_why) {
  Result result = full_result();
  const GateRule absent{"fid", "fid", "at most", 4};
  EXPECT_EQ(evaluate_gates(result, {absent}, {}).back().words,
            "fid is missing: the run has no such metric.");
  const GateRule empty{"energy", "energy_j", "at most", 4};
  const Gate gate = evaluate_gates(result, {empty}, {}).back();
  EXPECT_EQ(gate.verdict, Verdict::kFail);
  EXPECT_EQ(gate.words, "energy_j is missing: no counter on this machine.");
}

TEST(Gate, a_metric_that_is_not_a_number_fails) {
  Result result = full_result();
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    result.metrics[1].value = value;
    EXPECT_EQ(verdict_of(result, "val_loss"), Verdict::kFail);
  }
}

TEST(Gate, a_custom_run_lists_the_rules_and_keeps_the_built_in_gates) {
  Result result = full_result();
  result.identity.custom = true;
  result.metrics[1].value = 100;
  auto gates = evaluate_gates(result, {kLoss}, {});
  EXPECT_EQ(gates.back().verdict, Verdict::kNotApplied);
  EXPECT_EQ(exit_of(gates, true).code, 0);
  EXPECT_EQ(exit_of(gates, true).status, "custom");
  result.memory.leaked_bytes = 64;
  gates = evaluate_gates(result, {kLoss}, {});
  EXPECT_EQ(exit_of(gates, true).code, 1);
  EXPECT_EQ(exit_of(gates, true).status, "failed");
}

TEST(Gate, a_rule_judges_only_the_precisions_that_it_was_calibrated_for) {
  GateRule rule = kLoss;
  rule.precisions = {"fp32", "tf32"};
  Result result = full_result();
  result.metrics[1].value = 100;
  EXPECT_EQ(evaluate_gates(result, {rule}, {}).back().verdict, Verdict::kFail);
  result.identity.precision = "bf16";
  const auto gates = evaluate_gates(result, {rule}, {});
  EXPECT_EQ(gates.back().verdict, Verdict::kNotApplied);
  EXPECT_EQ(gates.back().words, "Not applied: calibrated for fp32 and tf32 only.");
  EXPECT_EQ(gates.back().value, 100) << "the value is shown all the same";
  EXPECT_EQ(exit_of(gates, false).status, "pass");
}

TEST(Gate, of_several_ranks_wants_their_own_noise_the_same_weights_and_an_owner_of_every_byte) {
  const std::vector<std::string> names{"rank_noise", "rank_weights", "rank_closure"};
  for (const std::string& name : names) {
    EXPECT_EQ(verdict_of(test::result_of_two_ranks(), name), Verdict::kPass) << name;
  }
  Result result = test::result_of_two_ranks();
  result.ranks[1].noise_sha256 = result.ranks[0].noise_sha256;
  EXPECT_EQ(verdict_of(result, "rank_noise"), Verdict::kFail);
  Result ended = result;
  ended.protocol.resumed_at_step = ended.protocol.steps = 12;
  EXPECT_EQ(verdict_of(ended, "rank_noise"), Verdict::kNotApplied) << "no step was left";
  result.ranks[1].determinism.weights_sha256 = std::string(64, 'f');
  EXPECT_EQ(verdict_of(result, "rank_weights"), Verdict::kFail);
  result.ranks[1].boundaries.back().unattributed_bytes = 64;
  EXPECT_EQ(verdict_of(result, "rank_closure"), Verdict::kFail);
  result.ranks.pop_back();
  for (const std::string& name : names) {
    EXPECT_EQ(verdict_of(result, name), Verdict::kFail) << name << " of one rank alone";
  }
}

TEST(Gate, an_unknown_relation_is_a_programming_error) {
  EXPECT_THROW((void)evaluate_gates(minimal_result(), {{"a", "b", "near", 0}}, {}),
               std::logic_error);
}

TEST(Gate, gives_one_reason_per_failed_gate) {
  Result result = full_result();
  result.memory.leaked_bytes = 64;
  result.metrics[1].value = 1;
  const Exit exit = exit_of(evaluate_gates(result, {kLoss}, {}), false);
  ASSERT_EQ(exit.reasons.size(), 2U);
  EXPECT_EQ(exit.reasons[0], "leak: After the step 64 B more are live than before it.");
  EXPECT_EQ(exit.reasons[1], "val_loss: val_loss is 1, which it must not be (at most 0.12).");
}

}  // namespace
}  // namespace noisemark::reports
