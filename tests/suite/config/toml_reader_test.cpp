#include <gtest/gtest.h>

#include "reports/base/error.h"
#include "suite/config/lock.h"
#include "suite/config/toml_reader.h"
#include "tests/suite/config/definition_text.h"

namespace noisemark::suite {
namespace {

using test::kDefinition;
using test::replaced;

std::string reading_error(const std::string& text, const std::string& scale = "cpu") {
  try {
    (void)read_toml(text, "tiny.toml", scale);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string error_with(const std::string& old, const std::string& with) {
  return reading_error(replaced(kDefinition, old, with));
}

TEST(TomlReader, reads_every_kind_of_value) {
  const Definition d = read_toml(kDefinition, "tiny.toml", "cpu").definition;
  EXPECT_EQ(d.id, "tiny");
  EXPECT_EQ(d.source, "tiny.toml");
  EXPECT_EQ(d.model.dim_mults, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(d.modes, std::vector<std::string>{"none"});
  EXPECT_FALSE(d.data.flip);
  EXPECT_EQ(d.ema.decay, 0.995);
  EXPECT_EQ(d.ema.power, EmaConfig{}.power) << "left at its default";
}

TEST(TomlReader, overrides_any_section_by_scale) {
  const Definition cpu = read_toml(kDefinition, "tiny.toml", "cpu").definition;
  const Definition gpu = read_toml(kDefinition, "tiny.toml", "gpu").definition;
  EXPECT_EQ(cpu.scale, "cpu");
  EXPECT_EQ(cpu.train.batch, 8);
  EXPECT_EQ(gpu.train.batch, 16);
  ASSERT_EQ(cpu.gates.size(), 1U);
  EXPECT_EQ(cpu.gates[0].bound, 0.5);
  EXPECT_EQ(gpu.gates[0].bound, 0.25);
  EXPECT_EQ(gpu.gates[0].metric, "final_loss");
  EXPECT_EQ(gpu.gates[0].relation, "at most");
}

TEST(TomlReader, keeps_the_place_of_every_key) {
  const Draft draft = read_toml(kDefinition, "tiny.toml", "cpu");
  EXPECT_EQ(draft.place("model.dim"), "tiny.toml:11:7");
  EXPECT_EQ(draft.place("train.batch"), "tiny.toml:37:9");
  EXPECT_EQ(draft.place("optimizer.lr"), "tiny.toml");
}

TEST(TomlReader, names_the_nearest_key_of_an_unknown_one) {
  EXPECT_EQ(error_with("dim = 32", "dmi = 32"),
            "tiny.toml:11:1: model.dmi: unknown key (nearest: model.dim)");
  EXPECT_EQ(error_with("[train]", "[trian]"),
            "tiny.toml:25:2: trian: unknown section (nearest \"train\"; one of: benchmark, model, "
            "data, diffusion, optimizer, ema, train, scale, eval, measure, sample, quality, gate)");
  EXPECT_EQ(error_with("[scale.cpu.train]", "[scale.cup.train]"),
            "tiny.toml:36:8: scale.cup: unknown section (nearest \"cpu\"; one of: cpu, gpu)");
}

TEST(TomlReader, takes_the_rule_of_the_learning_rate_beside_the_scales) {
  const auto rule_of = [](const std::string& with, const std::string& scale) {
    return read_toml(replaced(kDefinition, "[scale.cpu.train]", with + "\n[scale.cpu.train]"),
                     "tiny.toml", scale)
        .definition.scaling.rule;
  };
  EXPECT_EQ(rule_of("[scale]\nrule = \"sqrt\"", "gpu"), "sqrt");
  EXPECT_EQ(rule_of("[scale.cpu.scale]\nrule = \"linear\"", "cpu"), "linear");
  EXPECT_EQ(rule_of("[scale.cpu.scale]\nrule = \"linear\"", "gpu"), "none");
  EXPECT_EQ(error_with("[scale.cpu.train]", "[scale]\nrul = \"sqrt\"\n[scale.cpu.train]"),
            "tiny.toml:37:1: scale.rul: unknown key (nearest: scale.rule)");
}

TEST(TomlReader, takes_modes_by_scale_and_no_other_key_of_the_benchmark) {
  const auto with = [](const std::string& line) {
    return replaced(kDefinition, "[scale.cpu.train]",
                    "[scale.cpu.benchmark]\n" + line + "\n[scale.cpu.train]");
  };
  const std::string text = with("modes = [\"none\", \"budget:20MiB\"]");
  EXPECT_EQ(read_toml(text, "tiny.toml", "cpu").definition.modes,
            (std::vector<std::string>{"none", "budget:20MiB"}));
  EXPECT_EQ(read_toml(text, "tiny.toml", "gpu").definition.modes, std::vector<std::string>{"none"});
  for (const std::string line :
       {"id = \"other\"", "title = \"Other\"", "version = 2", "seed = 3"}) {
    const std::string key = line.substr(0, line.find(' '));
    EXPECT_EQ(reading_error(with(line)),
              "tiny.toml:37:1: scale.cpu.benchmark." + key +
                  ": the same at both scales (of this section only modes)");
    EXPECT_EQ(reading_error(with(line), "gpu"), reading_error(with(line))) << "whichever is wanted";
  }
  EXPECT_EQ(reading_error(with("mode = \"none\"")),
            "tiny.toml:37:1: benchmark.mode: unknown key (nearest: benchmark.modes)");
  EXPECT_EQ(reading_error(with("modes = []")),
            "tiny.toml:37:9: benchmark.modes: [] (a list of strings, at least one)");
}

TEST(TomlReader, keeps_the_hash_where_only_modes_differ) {
  const std::string text = replaced(kDefinition, "[scale.cpu.train]",
                                    "[scale.cpu.benchmark]\nmodes = [\"echo\"]\n[scale.cpu.train]");
  EXPECT_EQ(definition_sha256(read_toml(text, "tiny.toml", "cpu").definition),
            definition_sha256(read_toml(kDefinition, "tiny.toml", "cpu").definition));
}

TEST(TomlReader, lists_the_keys_of_the_section_when_none_is_near) {
  EXPECT_EQ(error_with("steps = 20", "pictures_of_cats = 20"),
            "tiny.toml:27:1: train.pictures_of_cats: unknown key (one of: train.batch, "
            "train.accumulation, train.steps)");
}

TEST(TomlReader, refuses_wrong_types) {
  EXPECT_EQ(error_with("dim = 32", "dim = \"32\""),
            "tiny.toml:11:7: model.dim: \"32\" (an integer from 4 to 4096)");
  EXPECT_EQ(error_with("dim = 32", "dim = 32.0"),
            "tiny.toml:11:7: model.dim: 32.0 (an integer from 4 to 4096)");
  EXPECT_EQ(error_with("flip = false", "flip = 0"), "tiny.toml:18:8: data.flip: 0 (true or false)");
  EXPECT_EQ(error_with("dim_mults = [1, 2]", "dim_mults = [1, \"2\"]"),
            "tiny.toml:12:13: model.dim_mults: a list of mixed or nested values (a list of "
            "integers from 1 to 64, at least one)");
  EXPECT_EQ(error_with("name = \"gmm16\"", "name = 1979-05-27"),
            "tiny.toml:17:8: data.name: 1979-05-27 (one of: \"gmm16\", \"cifar10\", \"folder\", "
            "\"synthetic\")");
  EXPECT_EQ(error_with("[gate.loss]", "[gate]\nother = 3\n[gate.loss]"),
            "tiny.toml:33:9: gate.other: 3 (a table)");
}

TEST(TomlReader, refuses_values_out_of_range) {
  EXPECT_EQ(error_with("decay = 0.995", "decay = 1"),
            "tiny.toml:23:9: ema.decay: 1 (a number of at least 0.0 and below 1.0)");
  EXPECT_EQ(error_with("decay = 0.995", "decay = nan"),
            "tiny.toml:23:9: ema.decay: nan (a number of at least 0.0 and below 1.0)");
  EXPECT_EQ(error_with("dim_mults = [1, 2]", "dim_mults = []"),
            "tiny.toml:12:13: model.dim_mults: [] (a list of integers from 1 to 64, at least one)");
  EXPECT_EQ(error_with("dim_mults = [1, 2]", "dim_mults = [0, 2]"),
            "tiny.toml:12:13: model.dim_mults: [0, 2] (a list of integers from 1 to 64, at least "
            "one)");
  EXPECT_EQ(error_with("name = \"ho-unet\"", "name = \"ho\""),
            "tiny.toml:8:8: model.name: \"ho\" (one of: \"lucid-unet\", \"ho-unet\")");
}

TEST(TomlReader, names_the_nearest_choice_of_a_word_that_is_none) {
  EXPECT_EQ(error_with("name = \"gmm16\"", "name = \"cifar-10\""),
            "tiny.toml:17:8: data.name: \"cifar-10\" (nearest \"cifar10\"; one of: \"gmm16\", "
            "\"cifar10\", \"folder\", \"synthetic\")");
}

TEST(TomlReader, accepts_an_integer_where_a_number_is_wanted) {
  const std::string text = replaced(kDefinition, "decay = 0.995", "decay = 0");
  EXPECT_EQ(read_toml(text, "tiny.toml", "cpu").definition.ema.decay, 0.0);
}

TEST(TomlReader, refuses_a_key_that_means_nothing_here) {
  EXPECT_EQ(error_with("groups = 8", "attn_heads = 8"),
            "tiny.toml:13:1: model.attn_heads: does not apply (only when model.name is "
            "\"lucid-unet\", here it is \"ho-unet\")");
  EXPECT_EQ(error_with("kind = \"power\"", "kind = \"none\""),
            "tiny.toml:23:1: ema.decay: does not apply (only when ema.kind is \"constant\" or "
            "\"power\", here it is \"none\")");
  EXPECT_EQ(error_with("[ema]", "[diffusion]\nmin_snr_gamma = 5.0\n[ema]"),
            "tiny.toml:22:1: diffusion.min_snr_gamma: does not apply (only when diffusion.min_snr "
            "is true, here it is false)");
}

TEST(TomlReader, refuses_a_missing_key) {
  EXPECT_EQ(error_with("version = 1\n", ""),
            "tiny.toml: benchmark.version: missing (an integer from 1 to 1000)");
}

TEST(TomlReader, refuses_malformed_gates) {
  EXPECT_EQ(error_with("max = 0.5", "maximum = 0.5").substr(0, 50),
            "tiny.toml:34:1: gate.loss.maximum: unknown key (on");
  EXPECT_EQ(error_with("max = 0.5", "max = \"0.5\""),
            "tiny.toml:34:7: gate.loss.max: \"0.5\" (a number)");
  EXPECT_EQ(error_with("max = 0.5", "max = 0.5\nmin = 0.1"),
            "tiny.toml:32:7: gate.loss: max and min (one of them)");
  EXPECT_EQ(error_with("metric = \"final_loss\"\n", ""),
            "tiny.toml:32:7: gate.loss.metric: missing (the name of a metric)");
  EXPECT_EQ(error_with("max = 0.5\n", ""),
            "tiny.toml:32:7: gate.loss: no bound (max or min, a number)");
}

TEST(TomlReader, reads_the_precisions_that_a_gate_was_calibrated_for) {
  const auto precisions = [](const std::string& text) {
    return read_toml(text, "tiny.toml", "cpu").definition.gates.at(0).precisions;
  };
  EXPECT_TRUE(precisions(kDefinition).empty());
  EXPECT_EQ(precisions(replaced(kDefinition, "max = 0.5", "max = 0.5\nprecisions = [\"fp32\"]")),
            std::vector<std::string>{"fp32"});
}

TEST(TomlReader, refuses_malformed_precisions_of_a_gate) {
  const auto error_of_precisions = [](const std::string& value) {
    return error_with("max = 0.5", "max = 0.5\nprecisions = " + value);
  };
  EXPECT_EQ(error_of_precisions("\"fp32\""),
            "tiny.toml:35:14: gate.loss.precisions: \"fp32\" (a list of precisions, at least one)");
  EXPECT_EQ(error_of_precisions("[]"),
            "tiny.toml:35:14: gate.loss.precisions: an empty list (a list of precisions, at least "
            "one)");
  EXPECT_EQ(
      error_of_precisions("[\"fp32\", \"fp31\"]"),
      "tiny.toml:35:23: gate.loss.precisions: \"fp31\" (one of: fp32, tf32, bf16, fp16, fp64)");
  EXPECT_EQ(error_of_precisions("[\"fp32\", \"fp32\"]"),
            "tiny.toml:35:23: gate.loss.precisions: fp32 twice (each once)");
}

TEST(TomlReader, gives_a_gate_of_one_scale_to_that_scale_alone) {
  std::string text = replaced(kDefinition, "[gate.loss]", "[scale.cpu.gate.loss]");
  text = replaced(text, "[scale.gpu.gate.loss]\nmax = 0.25\n", "");
  EXPECT_EQ(read_toml(text, "tiny.toml", "cpu").definition.gates.size(), 1U);
  EXPECT_EQ(read_toml(text, "tiny.toml", "gpu").definition.gates.size(), 0U);
}

TEST(TomlReader, places_a_syntax_error) {
  EXPECT_EQ(error_with("dim = 32", "dim = = 32").substr(0, 15), "tiny.toml:11:7:");
  EXPECT_EQ(error_with("dim = 32", "dim = 32\ndim = 33").substr(0, 12), "tiny.toml:12");
}

TEST(TomlReader, refuses_a_key_of_parts_without_end_and_takes_dots_elsewhere) {
  std::string endless;
  for (int i = 0; i < 100'000; ++i) endless += "a.";
  const std::string expected = "tiny.toml:2: a key of a hundred parts or more (SECTION.KEY)";
  EXPECT_EQ(reading_error("# ours\n" + endless + "b = 1\n"), expected);
  EXPECT_EQ(reading_error("\n[" + endless + "b]\n"), expected);
  EXPECT_EQ(reading_error("\nc = { " + endless + "b = 1 }\n"), expected);
  const std::string dots(200, '.');
  EXPECT_EQ(reading_error(std::string(kDefinition) + "# it's " + dots + "\n"), "accepted");
  EXPECT_EQ(error_with("\"tiny\"", "\"tiny" + dots + "\"").find("a hundred parts"),
            std::string::npos);
}

TEST(TomlReader, checks_the_scale_that_is_not_wanted_too) {
  const std::string text = replaced(kDefinition, "[scale.cpu.train]", "[scale.gpu.train]");
  EXPECT_EQ(reading_error(replaced(text, "batch = 8", "batch = 0"), "cpu"),
            "tiny.toml:37:9: train.batch: 0 (an integer from 1 to 1048576)");
}

TEST(TomlReader, checks_keys_against_each_other) {
  EXPECT_EQ(error_with("steps = 20", "steps = 20\naccumulation = 3"),
            "tiny.toml:28:16: train.accumulation: 3 (a divisor of train.batch, 8)");
  EXPECT_EQ(error_with("samples = 64", "samples = 60"),
            "tiny.toml:30:11: eval.samples: 60 (a multiple of 8, the number of timesteps)");
  EXPECT_EQ(error_with("attention_resolutions = [8]", "attention_resolutions = [4]"),
            "tiny.toml:14:25: model.attention_resolutions: [4] (resolutions of the stages, each "
            "once: 16, 8)");
  EXPECT_EQ(error_with("groups = 8", "groups = 12"),
            "tiny.toml:13:10: model.groups: 12 (a divisor of every stage's channels; 32 is not "
            "divisible)");
  EXPECT_EQ(error_with("channels = 1", "channels = 3"),
            "tiny.toml:9:12: model.channels: 3 (1, for data.name \"gmm16\")");
  EXPECT_EQ(error_with("flip = false", "flip = true").substr(0, 36),
            "tiny.toml:18:8: data.flip: true (fal");
  EXPECT_EQ(error_with("train_samples = 1000", "train_samples = 4"),
            "tiny.toml:19:17: data.train_samples: 4 (0, or at least train.batch, 8)");
}

TEST(TomlReader, wants_an_average_when_it_is_evaluated) {
  const std::string none =
      replaced(kDefinition, "kind = \"power\"\ndecay = 0.995", "kind = \"none\"");
  EXPECT_EQ(reading_error(replaced(none, "samples = 64", "samples = 64\nweights = \"ema\"")),
            "tiny.toml:30:11: eval.weights: \"ema\" (\"model\", because ema.kind is \"none\")");
}

TEST(TomlReader, wants_the_resolution_to_survive_every_halving) {
  const std::string lucid =
      replaced(replaced(kDefinition, "groups = 8\nattention_resolutions = [8]\n", ""), "ho-unet",
               "lucid-unet");
  EXPECT_EQ(reading_error(replaced(lucid, "dim_mults = [1, 2]", "dim_mults = [1, 2, 2, 2, 2, 2]")),
            "tiny.toml:10:14: model.resolution: 16 (divisible by 32, for 6 stages)");
}

}  // namespace
}  // namespace noisemark::suite
