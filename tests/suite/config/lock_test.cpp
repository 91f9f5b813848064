#include "suite/config/lock.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "suite/config/catalogue.h"
#include "suite/config/keys.h"
#include "suite/config/toml_reader.h"
#include "tests/suite/config/definition_text.h"

namespace noisemark::suite {
namespace {

Definition tiny(const std::string& old = "", const std::string& with = "") {
  const std::string text =
      old.empty() ? test::kDefinition : test::replaced(test::kDefinition, old, with);
  return read_toml(text, "tiny.toml", "cpu").definition;
}

TEST(Canonical, writes_keys_in_table_order_and_only_those_that_apply) {
  EXPECT_EQ(canonical_json(tiny()),
            "{\"benchmark\":{\"id\":\"tiny\",\"version\":1,\"seed\":0,\"scale\":\"cpu\"},"
            "\"model\":{\"name\":\"ho-unet\",\"channels\":1,\"resolution\":16,\"dim\":32,"
            "\"dim_mults\":[1,2],\"dropout\":0.0,\"res_blocks\":2,\"attention_resolutions\":[8],"
            "\"groups\":8,\"activation\":\"silu\",\"downsample\":\"conv\"},"
            "\"data\":{\"name\":\"gmm16\",\"flip\":false,\"train_samples\":1000,\"seed\":0},"
            "\"diffusion\":{\"timesteps\":1000,\"schedule\":\"linear\",\"objective\":\"eps\","
            "\"min_snr\":false},"
            "\"optimizer\":{\"name\":\"adam\",\"lr\":1e-04,\"beta1\":0.9,\"beta2\":0.999,"
            "\"eps\":1e-08,\"clip_norm\":0.0,\"warmup_steps\":0},"
            "\"ema\":{\"kind\":\"power\",\"decay\":0.995,\"update_every\":1,"
            "\"update_after_step\":100,\"inv_gamma\":1.0,\"power\":0.6666666666666666},"
            "\"train\":{\"batch\":8,\"accumulation\":1,\"steps\":20},"
            "\"eval\":{\"samples\":64,\"every\":0,\"weights\":\"model\",\"target_loss\":0.0},"
            "\"measure\":{\"memory_steps\":3,\"profile_steps\":3},"
            "\"gate\":{\"loss\":{\"metric\":\"final_loss\",\"max\":0.5}}}");
}

/// The hashes of definitions that were locked before there was such a key stay what they are.
TEST(Canonical, leaves_out_a_later_key_while_it_has_its_default) {
  EXPECT_EQ(canonical_json(tiny()).find("\"sample\":"), std::string::npos);
  EXPECT_EQ(definition_sha256(tiny("[gate.loss]", "[sample]\nsampler = \"none\"\n[gate.loss]")),
            definition_sha256(tiny()));
  const Definition drawing =
      tiny("[gate.loss]", "[sample]\nsampler = \"ddim\"\nddim_steps = 10\n[gate.loss]");
  EXPECT_NE(canonical_json(drawing).find(",\"sample\":{\"sampler\":\"ddim\",\"count\":64,"
                                         "\"ddim_steps\":10,\"ddim_eta\":0.0},\"gate\""),
            std::string::npos)
      << canonical_json(drawing);
}

TEST(Canonical, holds_the_rule_of_the_learning_rate_where_a_definition_has_one) {
  EXPECT_EQ(canonical_json(tiny()).find("\"scale\":{"), std::string::npos);
  const Definition scaled = tiny("[gate.loss]", "[scale]\nrule = \"sqrt\"\n[gate.loss]");
  EXPECT_NE(canonical_json(scaled).find(
                ",\"scale\":{\"rule\":\"sqrt\",\"base_batch\":128,\"warmup_steps\":0},\"eval\""),
            std::string::npos)
      << canonical_json(scaled);
}

/// The extractor of distances is part of the work where it is said, and nowhere else.
TEST(Canonical, holds_what_distances_are_made_with_where_a_definition_says_so) {
  EXPECT_EQ(definition_sha256(tiny("[gate.loss]",
                                   "[quality]\nextractor = \"any\"\nreference = \"any\"\n"
                                   "[gate.loss]")),
            definition_sha256(tiny()));
  const Definition inception =
      tiny("[gate.loss]",
           "[quality]\nextractor = \"inception\"\nreference = \"cifar10.npz\"\n[gate.loss]");
  EXPECT_NE(canonical_json(inception).find(",\"quality\":{\"extractor\":\"inception\",\"resize\":"
                                           "\"tf1-bilinear\",\"reference\":\"cifar10.npz\"},"),
            std::string::npos)
      << canonical_json(inception);
  const Definition other = tiny(
      "[gate.loss]", "[quality]\nextractor = \"inception\"\nresize = \"bilinear\"\n[gate.loss]");
  EXPECT_NE(definition_sha256(other), definition_sha256(inception));
  const Definition ours = tiny("[gate.loss]", "[quality]\nextractor = \"cifarnet\"\n[gate.loss]");
  EXPECT_EQ(canonical_json(ours).find("resize"), std::string::npos) << "it resizes nothing";
}

TEST(Canonical, is_strict_json) {
  const auto json = nlohmann::json::parse(canonical_json(tiny()));
  EXPECT_EQ(json["ema"]["power"].get<double>(), 2.0 / 3.0) << "numbers read back exactly";
}

TEST(Canonical, hash_changes_with_every_locked_key_and_with_no_other) {
  const Definition base = tiny();
  for (const Key& key : keys()) {
    if (!applies(key, base)) continue;
    Definition changed = base;
    const Member member = key.member(changed);
    if (auto* const* text = std::get_if<std::string*>(&member)) **text += "x";
    if (auto* const* integer = std::get_if<int64_t*>(&member)) **integer += 1;
    if (auto* const* seed = std::get_if<uint64_t*>(&member)) **seed += 1;
    if (auto* const* number = std::get_if<double*>(&member)) **number += 1e-9;
    if (auto* const* flag = std::get_if<bool*>(&member)) **flag = !**flag;
    if (auto* const* list = std::get_if<std::vector<int64_t>*>(&member)) (*list)->push_back(3);
    if (auto* const* names = std::get_if<std::vector<std::string>*>(&member)) {
      (*names)->emplace_back("x");
    }
    EXPECT_EQ(definition_sha256(changed) == definition_sha256(base),
              key.standing == Standing::kDisplay)
        << key_path(key);
  }
}

TEST(Canonical, hash_changes_with_a_gate_and_with_the_scale) {
  EXPECT_NE(definition_sha256(tiny("max = 0.5", "max = 0.6")), definition_sha256(tiny()));
  EXPECT_NE(definition_sha256(tiny("max = 0.5", "min = 0.5")), definition_sha256(tiny()));
  EXPECT_NE(definition_sha256(tiny("max = 0.5", "max = 0.5\nprecisions = [\"fp32\"]")),
            definition_sha256(tiny()));
  Definition gpu = tiny();
  gpu.scale = "gpu";
  EXPECT_NE(definition_sha256(gpu), definition_sha256(tiny()));
}

TEST(Canonical, hash_does_not_depend_on_the_order_or_spelling_of_the_file) {
  EXPECT_EQ(definition_sha256(
                tiny("dim = 32\ndim_mults = [1, 2]", "dim_mults = [ 1,2 ] # same\ndim = 0x20")),
            definition_sha256(tiny()));
}

TEST(Keys, every_condition_names_a_key_and_a_value_that_exist) {
  for (const Key& key : keys()) {
    if (key.condition.key.empty()) continue;
    const Key* other = find_key(key.condition.key);
    ASSERT_NE(other, nullptr) << key_path(key);
    if (type_text(*other) == "switch") continue;
    for (const std::string_view value : key.condition.values) {
      if (value.empty()) continue;
      const auto& choices = other->accepted.choices;
      EXPECT_NE(std::find(choices.begin(), choices.end(), value), choices.end())
          << key_path(key) << " " << value;
    }
  }
}

TEST(Keys, the_readme_shows_every_key_as_it_is) {
  const std::string path = std::string(NOISEMARK_SOURCE) + "/suite/benchmarks/README.md";
  EXPECT_NE(reports::read_file(path).find(keys_markdown()), std::string::npos)
      << "write the output of `noisemark help --keys` into " << path;
}

TEST(Keys, defaults_are_acceptable) {
  const Definition defaults;
  for (const Key& key : keys()) {
    if (key.required) continue;
    EXPECT_FALSE(key.help.empty()) << key_path(key);
    if (key_path(key) == "benchmark.why") continue;
    Definition copy = defaults;
    const Member member = key.member(copy);
    const auto store_again = [&](const auto* value) {
      using T = std::remove_cvref_t<decltype(*value)>;
      if constexpr (std::is_same_v<T, uint64_t>) {
        assign(key, Value(static_cast<int64_t>(*value)), "here", copy);
      } else {
        assign(key, Value(*value), "here", copy);
      }
    };
    EXPECT_NO_THROW(std::visit(store_again, member)) << key_path(key);
  }
}

LockEntry entry() {
  return {std::string(64, '1'), std::string(64, '2'),  std::string(64, '3'),
          std::string(64, '4'), std::string(64, '5'),  std::string(64, '6'),
          std::string(64, '7'), {1.0, 0.5, 1.0 / 3.0}, {2.5, 1.5, 7.0 / 3.0}};
}

std::string difference(const LockEntry& found) {
  const auto words = lock_differences(entry(), found);
  EXPECT_EQ(words.size(), 1U);
  return words.empty() ? "" : words.front();
}

std::string parse_error(const std::string& text) {
  try {
    (void)parse_lock(text, "LOCK");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Lock, reads_back_what_it_writes_exactly) {
  const Lock lock{{"a@cpu", entry()}, {"b@gpu", entry()}};
  const Lock read = parse_lock(lock_json(lock), "LOCK");
  EXPECT_EQ(lock_json(read), lock_json(lock));
  EXPECT_EQ(read.at("b@gpu").losses, entry().losses);
  EXPECT_EQ(read.at("b@gpu").evaluation, entry().evaluation);
}

TEST(Lock, a_benchmark_twice_is_refused) {
  std::string text = lock_json({{"a@cpu", entry()}, {"b@gpu", entry()}});
  text.replace(text.find("b@gpu"), 5, "a@cpu");
  EXPECT_EQ(parse_error(text), "LOCK: a@cpu: this key twice in one object (every key once)");
}

TEST(Lock, an_equal_entry_has_no_differences) {
  EXPECT_TRUE(lock_differences(entry(), entry()).empty());
}

TEST(Lock, every_hash_turns_red_in_words) {
  LockEntry found = entry();
  found.definition_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the definition changed"), std::string::npos);
  found = entry();
  found.data_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the data changed"), std::string::npos);
  found = entry();
  found.test_data_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the data of the evaluation changed"), std::string::npos);
  found = entry();
  found.parameters_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("parameter names or shapes"), std::string::npos);
  found = entry();
  found.schedule_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the noise schedule"), std::string::npos);
  found = entry();
  found.order_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the order of the data"), std::string::npos);
  found = entry();
  found.judging_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the warm-up rule or a margin changed"), std::string::npos);
}

TEST(Lock, losses_may_differ_by_rounding_and_by_no_more) {
  LockEntry found = entry();
  found.losses[1] *= 1.0 + 0.9e-9;
  EXPECT_TRUE(lock_differences(entry(), found).empty());
  found.losses[1] = entry().losses[1] * (1.0 + 1.1e-9);
  EXPECT_NE(difference(found).find("loss of step 1"), std::string::npos);
  found.losses.pop_back();
  EXPECT_EQ(difference(found), "the loss trace changed: 2 steps, locked are 3");
}

TEST(Lock, an_evaluation_may_differ_by_rounding_and_by_no_more) {
  LockEntry found = entry();
  for (size_t i = 0; i < kEvaluated.size(); ++i) {
    found.evaluation[i] = entry().evaluation[i] * (1.0 + 0.9e-9);
    EXPECT_TRUE(lock_differences(entry(), found).empty());
    found.evaluation[i] = entry().evaluation[i] * (1.0 + 1.1e-9);
    EXPECT_NE(difference(found).find(std::string(kEvaluated[i]) + " is "), std::string::npos);
    found = entry();
  }
  found.evaluation.pop_back();
  EXPECT_EQ(difference(found), "the evaluation changed: 2 figures, locked are 3");
}

TEST(Lock, a_loss_that_is_not_a_number_is_a_difference) {
  LockEntry found = entry();
  found.losses[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(difference(found).find("loss of step 2"), std::string::npos);
}

TEST(Lock, refuses_a_malformed_file) {
  const std::string text = lock_json({{"a@cpu", entry()}});
  EXPECT_EQ(parse_error("[1"), "LOCK: not a JSON object (entries by benchmark)");
  std::string shorter = text;
  shorter.replace(shorter.find(std::string(64, '2')), 64, std::string(63, '2'));
  EXPECT_EQ(parse_error(shorter),
            "LOCK: a@cpu.data_sha256: \"" + std::string(63, '2') + "\" (a SHA-256)");
  std::string renamed = text;
  renamed.replace(renamed.find("losses"), 6, "loses!");
  EXPECT_EQ(parse_error(renamed), "LOCK: a@cpu.losses: missing (a list of numbers)");
  std::string no_number = text;
  no_number.replace(no_number.find("[2.5"), 4, "[true");
  EXPECT_NE(parse_error(no_number).find("LOCK: a@cpu.evaluation: [true"), std::string::npos);
}

TEST(Lock, shipped_definitions_are_the_locked_ones) {
  for (const BenchmarkFile& file : benchmark_files()) {
    for (const std::string scale : {"cpu", "gpu"}) {
      const std::string name = std::string(file.id) + "@" + scale;
      const auto locked = shipped_lock().find(name);
      ASSERT_NE(locked, shipped_lock().end()) << name << " is not in LOCK";
      EXPECT_EQ(locked->second.definition_sha256,
                definition_sha256(load_definition(file.id, scale)))
          << name << ": a change of a locked key needs a new version of the benchmark";
    }
  }
  EXPECT_EQ(shipped_lock().size(), 2 * benchmark_files().size()) << "an entry of no benchmark";
}

TEST(Lock, makes_a_shipped_definition_custom_that_it_does_not_hold) {
  const Definition shipped = load_definition("gmm16", "cpu");
  EXPECT_TRUE(is_locked(shipped_lock(), shipped));
  EXPECT_FALSE(shipped.custom);
  EXPECT_FALSE(shipped.unlocked);

  const auto held_to = [](const Lock& lock, Definition definition) {
    hold_to_lock(lock, definition);
    EXPECT_EQ(definition.custom, definition.unlocked);
    return !definition.unlocked;
  };
  Definition edited = shipped;
  edited.title = "other words for the same work";
  EXPECT_TRUE(held_to(shipped_lock(), edited));
  edited.optimizer.lr *= 2;
  EXPECT_FALSE(held_to(shipped_lock(), edited));
  EXPECT_EQ(unlocked_words(edited), "not the locked definition of gmm16@cpu");

  Lock other = shipped_lock();
  other.at("gmm16@cpu").definition_sha256 = std::string(64, '0');
  EXPECT_FALSE(held_to(other, shipped));
  EXPECT_TRUE(held_to(other, load_definition("gmm16", "gpu")));
  other.erase("gmm16@cpu");
  EXPECT_FALSE(held_to(other, shipped));
}

}  // namespace
}  // namespace noisemark::suite
