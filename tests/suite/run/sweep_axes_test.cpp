#include "suite/run/sweep_axes.h"

#include <gtest/gtest.h>

#include "reports/error.h"
#include "suite/probes/convolution_workspace.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

/// The error's words; empty where it is accepted.
std::string refusal(const Texts& texts, const RunOptions& base = {}) {
  try {
    (void)sweep_cells(base, parse_axes(texts));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
    return error.what();
  }
}

bool starts(const std::string& text, const std::string& beginning) {
  return text.starts_with(beginning);
}

Texts names(const Texts& texts) {
  Texts all;
  for (const SweepCell& cell : sweep_cells({}, parse_axes(texts))) all.push_back(cell.name);
  return all;
}

TEST(SweepAxes, make_every_combination_in_the_order_given) {
  EXPECT_EQ(names({"batch=16,32", "mode=none,echo"}),
            (Texts{"batch=16,mode=none", "batch=16,mode=echo", "batch=32,mode=none",
                   "batch=32,mode=echo"}));
  EXPECT_EQ(names({"seed=3"}), Texts{"seed=3"});
  EXPECT_EQ(names({"seed=2,1", "threads=1,2", "precision=fp32"}).size(), 4U);
}

TEST(SweepAxes, give_each_cell_the_options_of_its_values_beside_those_of_all) {
  RunOptions base;
  base.id = "gmm16";
  base.sets = {"train.steps=4"};
  const auto cells =
      sweep_cells(base, parse_axes({"mode=echo", "baseline=fused+channels-last", "precision=bf16",
                                    "threads=2", "seed=7", "batch=8", "optimizer.lr=0.001"}));
  ASSERT_EQ(cells.size(), 1U);
  const RunOptions& options = cells.front().options;
  EXPECT_EQ(options.id, "gmm16");
  EXPECT_EQ(options.modes, Texts{"echo"});
  EXPECT_EQ(options.baselines, Texts{"fused+channels-last"});
  EXPECT_EQ(options.precision, "bf16");
  EXPECT_EQ(options.threads, 2);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.sets, (Texts{"train.steps=4", "train.batch=8", "optimizer.lr=0.001"}));
  EXPECT_TRUE(cells.front().environment.empty());
  EXPECT_EQ(cells.front().values.size(), 7U);
}

TEST(SweepAxes, give_the_limit_of_scratch_memory_to_the_cells_process) {
  const auto cells = sweep_cells({}, parse_axes({"cudnn.workspace_mib=0,64"}));
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].environment, (Variables{{kWorkspaceLimitVariable, "0"}}));
  EXPECT_EQ(cells[1].environment, (Variables{{kWorkspaceLimitVariable, "64"}}));
  EXPECT_EQ(cells[1].name, "cudnn.workspace_mib=64");
  EXPECT_TRUE(cells[1].options.sets.empty());
}

TEST(SweepAxes, leave_a_mode_and_a_list_their_commas) {
  EXPECT_EQ(names({"mode=none,budget:1GiB,error=0.01,echo"}),
            (Texts{"mode=none", "mode=budget:1GiB,error=0.01", "mode=echo"}));
  EXPECT_EQ(names({"mode=budget:saved=14MiB,error=0.02,budget:saved=16MiB"}),
            (Texts{"mode=budget:saved=14MiB,error=0.02", "mode=budget:saved=16MiB"}));
  EXPECT_EQ(names({"model.dim_mults=[1,2],[1,2,4]"}),
            (Texts{"model.dim_mults=[1,2]", "model.dim_mults=[1,2,4]"}));
}

TEST(SweepAxes, name_a_mode_as_results_do) {
  EXPECT_EQ(names({"mode=budget:1024MiB"}), Texts{"mode=budget:1GiB"});
  EXPECT_EQ(refusal({"mode=budget:1GiB,budget:1024MiB"}),
            "--axis: mode: budget:1GiB: given twice (each once)");
}

TEST(SweepAxes, that_nobody_knows_are_told_the_nearest) {
  EXPECT_TRUE(starts(refusal({"bacth=1"}),
                     "--axis: bacth: unknown key (nearest \"batch\"; one of: "
                     "mode, baseline, precision, threads, seed, "
                     "cudnn.workspace_mib, batch, "))
      << refusal({"bacth=1"});
  EXPECT_TRUE(starts(refusal({"train.stpes=1"}),
                     "--axis: train.stpes: unknown key (nearest \"train.steps\"; "));
  EXPECT_TRUE(starts(refusal({"cudnn.workspace=1"}), "--axis: cudnn.workspace: unknown key (near"));
  EXPECT_TRUE(starts(refusal({"device=cpu"}), "--axis: device: unknown key ("));
  EXPECT_TRUE(starts(refusal({"benchmark.id=x"}), "--axis: benchmark.id: unknown key ("))
      << "--set refuses it too";
}

TEST(SweepAxes, need_a_key_and_values) {
  EXPECT_EQ(refusal({}), "--axis: nothing given (KEY=V1,V2,...)");
  EXPECT_EQ(refusal({"batch"}), "--axis: batch (KEY=V1,V2,...)");
  EXPECT_EQ(refusal({"=1"}), "--axis: =1 (KEY=V1,V2,...)");
  for (const char* text : {"batch=", "batch=1,", "batch=,1", "batch=1,,2", "mode="}) {
    EXPECT_NE(refusal({text}).find("an empty value (KEY=V1,V2,...)"), std::string::npos) << text;
  }
}

TEST(SweepAxes, have_each_key_and_each_value_once) {
  EXPECT_EQ(refusal({"batch=1,2,1"}), "--axis: batch: 1: given twice (each once)");
  EXPECT_EQ(refusal({"seed=1", "seed=2"}), "--axis: seed: given twice (each once)");
  EXPECT_EQ(refusal({"batch=1", "train.batch=2"}), "--axis: train.batch: given twice (each once)");
}

TEST(SweepAxes, say_nothing_that_the_command_line_says_too) {
  RunOptions base;
  base.modes = {"echo"};
  base.sets = {"train.batch=4", "train.batches=1"};
  base.seed = 3;
  EXPECT_EQ(refusal({"mode=none"}, base), "--axis: mode: given with --mode (one of them)");
  EXPECT_EQ(refusal({"seed=1"}, base), "--axis: seed: given with --seed (one of them)");
  EXPECT_EQ(refusal({"batch=1"}, base),
            "--axis: batch: given with --set train.batch (one of them)");
  EXPECT_EQ(refusal({"baseline=plain", "train.steps=1"}, base), "");
}

TEST(SweepAxes, refuse_values_that_no_cell_could_take) {
  EXPECT_TRUE(starts(refusal({"mode=ecoh"}), "--axis: mode: \"ecoh\" (nearest valid: \"echo\")"));
  EXPECT_TRUE(starts(refusal({"baseline=fusde"}), "--axis: baseline: \"fusde\" (nearest: "));
  EXPECT_NE(refusal({"precision=fp23"}), "");
  EXPECT_EQ(refusal({"precision=fp32,tf32,fp16"}), "") << "a GPU has them all";
  EXPECT_EQ(refusal({"threads=0"}), "--axis: threads: 0 (an integer of at least 1)");
  EXPECT_EQ(refusal({"seed=-1"}), "--axis: seed: -1 (an integer of at least 0)");
  EXPECT_EQ(refusal({"cudnn.workspace_mib=64MiB"}),
            "--axis: cudnn.workspace_mib: 64MiB (an integer of at least 0)");
  EXPECT_EQ(refusal({"model.name=a/b"}),
            "--axis: model.name: a/b (a value without a slash: it names a folder)");
}

}  // namespace
}  // namespace noisemark::suite
