#include "suite/lock/compute.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "baselines/ops.h"
#include "reports/compare/compare.h"
#include "reports/result/metrics.h"
#include "reports/result/warmup.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"

namespace noisemark::suite {
namespace {

Definition with(const std::vector<std::string>& sets, const std::string& id = "gmm16-ho@cpu") {
  return load_definition(id, "cpu", sets);
}

/// Returns what LOCK would say about a definition whose own hash is left out of the comparison: the
/// words for a change of code that computes something else.
std::string verdict(const Definition& changed) {
  LockEntry locked = LockComputer().compute(with({}));
  LockEntry found = LockComputer().compute(changed);
  found.definition_sha256 = locked.definition_sha256;
  std::string all;
  for (const std::string& words : lock_differences(locked, found)) all += words + "\n";
  return all;
}

/// Plain operators that take the scale of a block for its shift.
class SwappedOps final : public baselines::Ops {
 public:
  at::Tensor group_norm_act(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps,
                            baselines::Activation act) const override {
    return plain_.group_norm_act(x, groups, weight, bias, eps, act);
  }
  at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                        const at::Tensor& bias, double eps) const override {
    return plain_.group_norm(x, groups, weight, bias, eps);
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& g) const override {
    return plain_.rms_norm(x, g);
  }
  at::Tensor rms_norm_film_silu(const at::Tensor& x, const at::Tensor& g, const at::Tensor& scale,
                                const at::Tensor& shift) const override {
    return plain_.rms_norm_film_silu(x, g, shift, scale);
  }

 private:
  const baselines::Ops& plain_ = baselines::plain_ops();
};

/// Returns what LOCK would say of losses and evaluation of a network with these operators.
std::vector<std::string> words_about(const baselines::Ops& ops) {
  const Definition definition = with({}, "gmm16@cpu");
  LockEntry locked;
  LockEntry found;
  const SemanticTrace sound = semantic_trace(definition);
  const SemanticTrace trace = semantic_trace(definition, ops);
  locked.losses = sound.losses;
  locked.evaluation = sound.evaluation;
  found.losses = trace.losses;
  found.evaluation = trace.evaluation;
  return lock_differences(locked, found);
}

TEST(Semantics, swapped_scale_and_shift_turn_every_loss_red) {
  EXPECT_TRUE(words_about(baselines::plain_ops()).empty());
  const std::vector<std::string> words = words_about(SwappedOps());
  ASSERT_FALSE(words.empty());
  EXPECT_NE(words.front().find("loss of step 0"), std::string::npos) << words.front();
}

TEST(Semantics, are_the_same_twice) {
  EXPECT_EQ(verdict(with({})), "");
}

TEST(Semantics, another_model_turns_parameters_red) {
  const std::string words = verdict(with({"model.res_blocks=2"}));
  EXPECT_NE(words.find("parameters_sha256"), std::string::npos) << words;
  EXPECT_NE(words.find("loss of step 0"), std::string::npos) << words;
  EXPECT_EQ(words.find("order_sha256"), std::string::npos) << words;
}

TEST(Semantics, another_schedule_turns_the_schedule_red) {
  const std::string words = verdict(with({"diffusion.schedule=cosine"}));
  EXPECT_NE(words.find("schedule_sha256"), std::string::npos) << words;
  EXPECT_EQ(words.find("parameters_sha256"), std::string::npos) << words;
}

TEST(Semantics, other_loss_weights_turn_the_schedule_red) {
  EXPECT_NE(schedule_sha256(with({"diffusion.min_snr=true"}).diffusion),
            schedule_sha256(with({}).diffusion));
}

TEST(Semantics, another_seed_turns_the_order_red) {
  Definition seeded = with({});
  seeded.seed = 1;
  EXPECT_NE(order_sha256(seeded), order_sha256(with({})));
}

TEST(Semantics, the_order_does_not_depend_on_the_batch) {
  EXPECT_EQ(order_sha256(with({"train.batch=48"})), order_sha256(with({})))
      << "48 does not divide an epoch";
}

TEST(Semantics, other_pictures_turn_the_data_red) {
  EXPECT_NE(data_sha256(with({"data.seed=1"})), data_sha256(with({})));
  EXPECT_NE(data_sha256(with({}, "lucid-128")), data_sha256(with({"data.seed=1"}, "lucid-128")));
}

TEST(Semantics, other_test_pictures_turn_the_data_of_the_evaluation_red) {
  for (const std::string id : {"gmm16-ho@cpu", "lucid-128@cpu", "ho-cifar10@cpu"}) {
    EXPECT_NE(test_data_sha256(with({}, id)), data_sha256(with({}, id))) << id;
  }
  for (const std::string id : {"gmm16-ho@cpu", "lucid-128@cpu"}) {
    EXPECT_NE(test_data_sha256(with({}, id)), test_data_sha256(with({"data.seed=1"}, id))) << id;
  }
}

LockEntry trace_only(const Definition& definition) {
  LockEntry entry;
  entry.losses = semantic_trace(definition).losses;
  return entry;
}

/// Returns the trace of the unchanged benchmark, made once because it takes seconds.
const LockEntry& locked_trace() {
  static const LockEntry kLocked = trace_only(with({}));
  return kLocked;
}

TEST(Semantics, a_remembered_trace_is_not_taken_for_another) {
  LockComputer computer;
  const LockEntry cpu = computer.compute(with({}));
  EXPECT_EQ(computer.compute(with({}, "gmm16-ho@gpu")).losses, cpu.losses) << "differs in batch";
  EXPECT_NE(computer.compute(with({"optimizer.lr=1e-3"})).losses, cpu.losses);
}

TEST(Semantics, the_evaluation_is_of_the_definitions_own_test_pictures_and_timesteps) {
  const std::vector<double> locked = semantic_trace(with({})).evaluation;
  ASSERT_EQ(locked.size(), kEvaluated.size()) << "on the mixture the optimum is known";
  const auto changes = [&](const std::string& set) {
    LockEntry before;
    LockEntry after;
    before.evaluation = locked;
    after.evaluation = semantic_trace(with({set})).evaluation;
    return !lock_differences(before, after).empty();
  };
  EXPECT_TRUE(changes("data.seed=1"));
  EXPECT_TRUE(changes("diffusion.timesteps=999"));
  EXPECT_TRUE(changes("diffusion.objective=v"));
  EXPECT_FALSE(changes("optimizer.lr=1e-3")) << "of the weights before the first step";
  EXPECT_FALSE(changes("model.dropout=0.2")) << "nothing is dropped";
}

class Trace : public testing::TestWithParam<std::string> {};

// Each of these leaves every name, shape and buffer alone.
TEST_P(Trace, turns_red_when_the_computation_changes) {
  const LockEntry& locked = locked_trace();
  const LockEntry found = trace_only(with({GetParam()}));
  const auto words = lock_differences(locked, found);
  ASSERT_EQ(words.size(), 1U) << GetParam();
  EXPECT_NE(words.front().find("the model, the diffusion process or the optimizer changed"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Keys, Trace,
                         testing::Values("model.activation=relu", "model.dropout=0.2",
                                         "diffusion.objective=v", "optimizer.lr=2.1e-4",
                                         "optimizer.beta1=0.89", "optimizer.beta2=0.99",
                                         "optimizer.clip_norm=0.9", "optimizer.warmup_steps=6"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(Semantics, accumulation_does_not_change_the_losses_beyond_rounding) {
  // Dropout draws per micro-batch. Without it the same mean gradient is summed in two parts.
  const LockEntry whole = trace_only(with({"model.dropout=0"}));
  const LockEntry split = trace_only(with({"model.dropout=0", "train.accumulation=2"}));
  EXPECT_TRUE(lock_differences(whole, split).empty());
}

TEST(Judging, names_every_gated_metric_with_its_margin) {
  const std::string text = judging_text();
  for (const reports::MetricRow& gated : reports::gated_metrics()) {
    std::ostringstream line;
    line << "\n" << gated.name << ": margin " << gated.gate_margin_frac << "\n";
    EXPECT_NE(text.find(line.str()), std::string::npos) << line.str();
  }
}

TEST(Judging, asks_the_warm_up_rule_about_all_that_it_tells_apart) {
  std::map<std::string, int> answers;
  const std::string text = judging_text();
  const std::regex line("warm-up of (\\d+) steps, [^:]*: (\\d+) (stable|not stable)\n");
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    const bool short_run = std::stoul((*at)[1]) < reports::kFewestStepsToTell;
    const bool none = (*at)[2] == "0";
    ++answers[short_run ? "too few" : (*at)[3].str() + (none ? " from the start" : " later")];
  }
  EXPECT_GT(answers["too few"], 0);
  EXPECT_GT(answers["stable from the start"], 0);
  EXPECT_GT(answers["stable later"], 0);
  EXPECT_GT(answers["not stable later"], 0) << "half of the run is dropped";
}

TEST(Judging, is_what_every_benchmark_was_locked_with) {
  ASSERT_FALSE(shipped_lock().empty());
  for (const auto& [name, entry] : shipped_lock()) {
    EXPECT_EQ(entry.judging_sha256, judging_sha256())
        << name << ": the warm-up rule or a margin changed";
  }
}

}  // namespace
}  // namespace noisemark::suite
