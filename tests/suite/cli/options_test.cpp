#include "suite/cli/options.h"

#include <gtest/gtest.h>

#include <set>

#include "suite/cli/arguments.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

CommandLine read(const Texts& words) {
  return read_command_line(find_command("run"), words, words);
}

Texts words_of(const RunOptions& options) {
  Texts words{"gmm16"};
  for (const SpelledOption& option : spell_run_options(options, command::kRun)) {
    words.push_back(option.value.empty() ? option.flag : option.flag + "=" + option.value);
  }
  return words;
}

TEST(OptionTable, names_an_option_once_for_every_command_and_says_what_it_is) {
  for (const Command& command : commands()) {
    Options options;
    std::set<std::string_view> names;
    for (const BoundOption& bound : options_of(command.bit, options)) {
      EXPECT_TRUE(names.insert(bound.option->name).second) << command.name << bound.option->name;
      EXPECT_FALSE(bound.option->help.empty()) << command.name << " --" << bound.option->name;
      const bool is_switch = std::holds_alternative<bool*>(bound.member);
      EXPECT_EQ(bound.option->value.empty(), is_switch) << command.name << bound.option->name;
    }
  }
}

TEST(OptionTable, gives_every_command_a_bit_of_its_own) {
  std::set<uint32_t> bits;
  for (const Command& command : commands()) EXPECT_TRUE(bits.insert(command.bit).second);
}

TEST(OptionTable, spells_nothing_of_a_run_that_departs_from_no_default) {
  EXPECT_EQ(words_of({}), Texts{"gmm16"});
}

TEST(OptionTable, reads_what_it_spells_for_a_child_process_back_to_the_same_options) {
  RunOptions options;
  options.modes = {"none", "budget:2GiB,error=0.01"};
  options.baselines = {"fused+bf16"};
  options.precision = "bf16";
  options.seed = 9007199254740993;
  options.seeds = 3;
  options.loader_threads = 2;
  options.out = "a folder";
  options.sets = {"train.steps=2", "data.name=\"folder\""};
  options.checkpoint_every = 5;
  options.resume = true;
  options.memory = false;
  options.certificate = false;
  options.fit_memory_bytes = int64_t{3} << 30;
  const Texts words = words_of(options);
  const RunOptions again = read(words).options.run;
  EXPECT_EQ(words_of(again), words);
  EXPECT_EQ(again.modes, options.modes);
  EXPECT_EQ(again.seed, options.seed);
  EXPECT_EQ(again.sets, options.sets);
  EXPECT_EQ(again.fit_memory_bytes, options.fit_memory_bytes);
  EXPECT_FALSE(again.memory);
  EXPECT_TRUE(again.profile);
  EXPECT_FALSE(again.certificate);
}

TEST(OptionTable, tells_the_default_that_the_member_has) {
  Options defaults;
  const auto meaning = [&](uint32_t command, std::string_view name) -> std::string {
    for (const BoundOption& bound : options_of(command, defaults)) {
      if (bound.option->name == name) return option_meaning(bound);
    }
    return "";
  };
  EXPECT_NE(meaning(command::kAb, "seconds").find("(default: 60)"), std::string::npos);
  EXPECT_NE(meaning(command::kFid, "draws").find(": counter or numpy (default: counter)"),
            std::string::npos);
  EXPECT_EQ(meaning(command::kRun, "force").find("default"), std::string::npos);
}

}  // namespace
}  // namespace noisemark::suite
