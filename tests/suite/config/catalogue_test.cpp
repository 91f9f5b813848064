#include "suite/config/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/result/warmup.h"
#include "suite/config/lock.h"
#include "tests/suite/config/definition_text.h"

namespace noisemark::suite {
namespace {

std::string loading_error(const std::string& id, const std::vector<std::string>& sets) {
  try {
    (void)load_definition(id, "cpu", sets);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string set_error(const std::string& assignment) {
  return loading_error("gmm16-ho", {assignment});
}

std::string write_user_file(const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / "noisemark_own.toml";
  std::ofstream(path) << text;
  return path.string();
}

TEST(Catalogue, ships_every_file_of_the_folder_at_both_scales) {
  std::set<std::string> in_the_folder, shipped, hashes;
  for (const auto& entry :
       std::filesystem::directory_iterator(NOISEMARK_SOURCE "/suite/benchmarks/v1")) {
    if (entry.path().extension() == ".toml") in_the_folder.insert(entry.path().stem());
  }
  for (const BenchmarkFile& file : benchmark_files()) {
    for (const char* scale : {"cpu", "gpu"}) {
      const Definition d = load_definition(file.id, scale);
      EXPECT_EQ(d.id, file.id);
      EXPECT_EQ(d.scale, scale);
      EXPECT_FALSE(d.why.empty());
      EXPECT_FALSE(d.custom);
      hashes.insert(definition_sha256(d));
    }
    shipped.emplace(file.id);
  }
  EXPECT_EQ(shipped, in_the_folder);
  EXPECT_EQ(hashes.size(), 2 * shipped.size());
}

TEST(Catalogue, lists_the_files_by_their_order_and_then_by_their_id) {
  std::vector<std::pair<int64_t, std::string_view>> listed;
  for (const BenchmarkFile& file : benchmark_files()) {
    listed.emplace_back(load_definition(file.id, "cpu").order, file.id);
  }
  EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end())) << testing::PrintToString(listed);
}

TEST(Catalogue, keeps_the_batch_of_the_gpu_scale) {
  for (const BenchmarkFile& file : benchmark_files()) {
    EXPECT_EQ(load_definition(file.id, "gpu").train.batch, 128) << file.id;
  }
}

TEST(Catalogue, keeps_the_batch_of_the_cpu_scale) {
  for (const BenchmarkFile& file : benchmark_files()) {
    // The smoke suite runs these two under every mode, within minutes.
    const bool every_mode = file.id == "gmm16-ho" || file.id == "gmm16-ho-relu";
    EXPECT_EQ(load_definition(file.id, "cpu").train.batch, every_mode ? 4 : 16) << file.id;
  }
}

TEST(Catalogue, trains_long_enough_to_tell_where_the_warm_up_ends) {
  for (const BenchmarkFile& file : benchmark_files()) {
    for (const char* scale : {"cpu", "gpu"}) {
      const int64_t steps = load_definition(file.id, scale).train.steps;
      EXPECT_TRUE(std::cmp_greater_equal(steps, reports::kFewestStepsToTell)) << file.id;
    }
  }
}

TEST(Catalogue, takes_the_scale_from_the_id_before_the_device) {
  EXPECT_EQ(load_definition("ho-cifar10@gpu", "cpu").scale, "gpu");
  EXPECT_EQ(load_definition("ho-cifar10", "cpu").train.batch, 16);
  EXPECT_EQ(loading_error("ho-cifar10@tpu", {}),
            "ho-cifar10@tpu: unknown scale \"tpu\" (nearest \"cpu\"; one of: cpu, gpu)");
  EXPECT_EQ(loading_error("ho-cifar10@cup", {}),
            "ho-cifar10@cup: unknown scale \"cup\" (nearest \"cpu\"; one of: cpu, gpu)");
  EXPECT_EQ(loading_error("ho-cifar10@gup", {}),
            "ho-cifar10@gup: unknown scale \"gup\" (nearest \"gpu\"; one of: cpu, gpu)");
  EXPECT_EQ(loading_error("ho-cifar10@mobile", {}),
            "ho-cifar10@mobile: unknown scale \"mobile\" (one of: cpu, gpu)");
}

TEST(Catalogue, names_the_nearest_benchmark) {
  std::string names;
  for (const BenchmarkFile& file : benchmark_files()) names += std::string(file.id) + ", ";
  EXPECT_EQ(loading_error("ho-cifar", {}),
            "\"ho-cifar\": unknown benchmark or suite (nearest \"ho-cifar10\"; one of: " + names +
                "smoke, cpu, gpu)");
}

TEST(Catalogue, suites_name_only_benchmarks_with_their_scale) {
  for (const Suite& suite : suites()) {
    for (const SuiteEntry& entry : suite.entries) {
      EXPECT_NE(entry.benchmark.find('@'), std::string_view::npos) << entry.benchmark;
      EXPECT_NO_THROW((void)load_definition(entry.benchmark, "cpu")) << entry.benchmark;
    }
  }
  EXPECT_NE(find_suite("smoke"), nullptr);
  EXPECT_EQ(find_suite("gmm16"), nullptr);
}

TEST(Catalogue, reads_a_users_own_file_as_custom) {
  const std::string path = write_user_file(test::kDefinition);
  const Definition d = load_definition(path, "gpu");
  EXPECT_EQ(d.id, "tiny");
  EXPECT_TRUE(d.custom);
  EXPECT_EQ(d.source, path);
  EXPECT_EQ(load_definition(path + "@cpu", "gpu").train.batch, 8);
  EXPECT_EQ(loading_error("nowhere.toml", {}),
            "nowhere.toml: cannot be read: No such file or directory");
}

TEST(Set, changes_a_key_of_each_type_and_makes_the_run_custom) {
  const Definition d = load_definition(
      "gmm16-ho", "cpu",
      {"train.steps=7", "optimizer.lr=1e-3", "data.train_samples=64", "diffusion.min_snr=true",
       "diffusion.min_snr_gamma=3", "model.dim_mults=1,2,2", "model.attention_resolutions=[8, 4]",
       "model.activation=relu", "eval.every=0"});
  EXPECT_TRUE(d.custom);
  EXPECT_EQ(d.overrides.size(), 9U);
  EXPECT_EQ(d.train.steps, 7);
  EXPECT_EQ(d.optimizer.lr, 1e-3);
  EXPECT_TRUE(d.diffusion.min_snr);
  EXPECT_EQ(d.diffusion.min_snr_gamma, 3.0);
  EXPECT_EQ(d.model.dim_mults, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(d.model.attention_resolutions, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(d.model.activation, "relu");
}

TEST(Set, accepts_an_empty_list) {
  const Definition d = load_definition("gmm16-ho", "cpu", {"model.attention_resolutions=[]"});
  EXPECT_TRUE(d.model.attention_resolutions.empty());
}

TEST(Set, gives_the_same_errors_as_a_file) {
  EXPECT_EQ(set_error("trian.steps=5"), "--set: trian.steps: unknown key (nearest: train.steps)");
  EXPECT_EQ(set_error("steps=5"), "--set: steps: unknown key (nearest: train.steps)");
  EXPECT_EQ(set_error("train.steps=0"), "--set: train.steps: 0 (an integer from 1 to 1000000000)");
  EXPECT_EQ(set_error("train.steps=5x"),
            "--set: train.steps: 5x (an integer from 1 to 1000000000)");
  EXPECT_EQ(set_error("train.steps="),
            "--set: train.steps: nothing (an integer from 1 to 1000000000)");
  EXPECT_EQ(set_error("train.steps"), "--set: train.steps: no value (key=value)");
  EXPECT_EQ(set_error("data.flip=yes"), "--set: data.flip: yes (true or false)");
  EXPECT_EQ(set_error("model.activation=rleu"),
            "--set: model.activation: \"rleu\" (nearest \"relu\"; one of: \"silu\", \"relu\")");
  const std::string finite = " (a finite number above 0.0)";
  EXPECT_EQ(set_error("optimizer.lr=inf"), "--set: optimizer.lr: inf" + finite);
  EXPECT_EQ(set_error("optimizer.lr=nan"), "--set: optimizer.lr: nan" + finite);
  for (const std::string number : {"1e999", "1e-999"}) {
    EXPECT_EQ(set_error("optimizer.lr=" + number),
              "--set: optimizer.lr: " + number + ", which no double holds" + finite);
  }
  EXPECT_EQ(set_error("model.attn_heads=2"),
            "--set: model.attn_heads: does not apply (only when model.name is \"lucid-unet\", here "
            "it is \"ho-unet\")");
  EXPECT_EQ(set_error("train.accumulation=3"),
            "--set: train.accumulation: 3 (a divisor of train.batch, 4)");
}

TEST(Set, refuses_what_is_not_the_definitions) {
  EXPECT_EQ(set_error("out=/tmp/x"), "--set: out: not part of a definition (use --out)");
  EXPECT_EQ(set_error("precision=bf16"),
            "--set: precision: not part of a definition (use --precision)");
  EXPECT_EQ(set_error("benchmark.seed=3"),
            "--set: benchmark.seed: not part of a definition (use --seed)");
  EXPECT_EQ(set_error("benchmark.id=x").substr(0, 27), "--set: benchmark.id: locked");
  EXPECT_EQ(set_error("gate.excess_loss.max=9").substr(0, 35),
            "--set: gate.excess_loss.max: locked");
  EXPECT_EQ(set_error("scale.cpu.train.steps=9").substr(0, 36),
            "--set: scale.cpu.train.steps: locked");
}

TEST(Set, takes_the_rule_for_the_learning_rate_which_is_no_scale_of_the_benchmark) {
  const Definition d =
      load_definition("gmm16-ho", "cpu", {"scale.rule=linear", "scale.base_batch=16"});
  EXPECT_EQ(d.scaling.rule, "linear");
  EXPECT_EQ(d.scaling.base_batch, 16);
  EXPECT_EQ(set_error("scale.rul=linear"), "--set: scale.rul: unknown key (nearest: scale.rule)");
}

TEST(Set, lets_keys_of_the_file_lapse_when_the_model_changes) {
  const Definition d = load_definition(
      "gmm16-ho", "cpu", {"model.name=lucid-unet", "model.attn_heads=2", "ema.kind=none"});
  const std::string json = canonical_json(d);
  EXPECT_NE(json.find("\"attn_heads\":2"), std::string::npos);
  EXPECT_EQ(json.find("groups"), std::string::npos);
  EXPECT_EQ(json.find("decay"), std::string::npos);
}

TEST(Set, applies_in_order_whatever_the_order_of_dependent_keys) {
  EXPECT_NO_THROW(
      (void)load_definition("gmm16-ho", "cpu", {"model.attn_heads=2", "model.name=lucid-unet"}));
  EXPECT_EQ(load_definition("gmm16-ho", "cpu", {"train.steps=30", "train.steps=40"}).train.steps,
            40);
}

}  // namespace
}  // namespace noisemark::suite
