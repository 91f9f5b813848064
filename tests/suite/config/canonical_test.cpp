#include "suite/config/canonical.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/file.h"
#include "suite/config/draft.h"
#include "suite/config/keys.h"
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

/// So that the hashes of definitions that were locked before there was such a key stay what they
/// are.
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

/// What distances must be made with is part of the work where it is said, and nowhere else.
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

}  // namespace
}  // namespace noisemark::suite
