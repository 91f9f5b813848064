#include "suite/cli/arguments.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "reports/base/error.h"
#include "reports/result/json_io.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

class FlagFile : public testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const std::string path = (folder_.path() / "mine.toml").string();
    std::ofstream(path) << text;
    return path;
  }

  Texts words(const std::string& text, const Texts& typed = {"gmm16"}) const {
    Texts all = typed;
    all.insert(all.begin(), {"--flags", write(text)});
    const Command& command = find_command("run");
    std::map<std::string, std::string> places;
    return with_flag_file(command, all, places);
  }

  /// Returns the refusal without the file's name, with which every one begins.
  std::string refusal(const std::string& text) const {
    try {
      (void)words(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      const std::string words = error.what();
      const std::string file = (folder_.path() / "mine.toml").string() + ":";
      EXPECT_TRUE(words.starts_with(file)) << words;
      return words.substr(std::min(words.size(), file.size()));
    }
    ADD_FAILURE() << "not refused";
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(FlagFile, says_in_the_order_of_its_lines_what_would_have_been_typed) {
  EXPECT_EQ(words("seed = 7\nmode = [\"none\", \"echo\"]\nforce = true\nresume = false\n"),
            (Texts{"gmm16", "--seed=7", "--mode=none", "--mode=echo", "--force"}));
}

TEST_F(FlagFile, gives_way_to_what_is_typed) {
  EXPECT_EQ(words("seed = 7\nprecision = \"bf16\"\n", {"gmm16", "--seed", "8"}),
            (Texts{"gmm16", "--seed", "8", "--precision=bf16"}));
}

TEST_F(FlagFile, is_refused_with_the_place_of_what_is_wrong) {
  EXPECT_EQ(refusal("presicion = \"bf16\"\n").find("1:1: presicion: unknown option"), 0U);
  EXPECT_NE(refusal("presicion = \"bf16\"\n").find("precision"), std::string::npos);
  EXPECT_EQ(refusal("\nforce = \"yes\"\n"), "2:9: force: \"yes\" (true or false)");
  EXPECT_EQ(refusal("seed = true\n"), "1:8: seed: true (N)");
  EXPECT_EQ(refusal("seed = [1, 2]\n"), "1:8: seed: [1, 2] (N)");
  EXPECT_EQ(refusal("force = true\nseed = -1\n"), "2:8: --seed: -1 (an integer of at least 0)");
  EXPECT_EQ(refusal("[run]\nseed = 1\n").find("1:1: run: a table (text, a number"), 0U);
  EXPECT_EQ(refusal("flags = \"other.toml\"\n").find("1:1: flags: unknown option"), 0U);
  EXPECT_FALSE(refusal("seed = \n").empty());
}

/// Only planning knows these values to be wrong.
TEST_F(FlagFile, is_named_with_the_line_of_what_the_command_itself_refuses) {
  const auto refused = [&](const std::string& text, const Texts& typed = {}) {
    Texts all{"run", "gmm16@cpu", "--flags", write(text)};
    all.insert(all.end(), typed.begin(), typed.end());
    const test::Finished run = test::run_noisemark(all);
    EXPECT_EQ(run.code, 2) << run.both();
    return run.err;
  };
  const auto has = [&](const std::string& words, const std::string& part) {
    return words.find((folder_.path() / "mine.toml").string() + ":" + part) != std::string::npos;
  };
  const std::string mode = refused("seed = 7\nmode = [\"none\", \"ecko\"]\n");
  EXPECT_TRUE(has(mode, "2:8: --mode: \"ecko\" (nearest: \"echo\"; accepted: none, or ")) << mode;
  const std::string key = refused("set = [\"train.stps=3\"]\n");
  EXPECT_TRUE(has(key, "1:7: --set: train.stps: unknown key")) << key;
  EXPECT_EQ(refused("mode = \"echo\"\n", {"--mode", "ecko"}).find("mine.toml"), std::string::npos)
      << "it was typed";
}

TEST_F(FlagFile, that_is_missing_is_bad_input) {
  const Command& command = find_command("run");
  const Texts all{"gmm16", "--flags", (folder_.path() / "none.toml").string()};
  std::map<std::string, std::string> places;
  try {
    (void)with_flag_file(command, all, places);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
  }
}

/// The file may be gone by the time that somebody repeats the run.
TEST_F(FlagFile, is_not_needed_to_repeat_the_run) {
  const std::string file = write(
      "set = [\"train.steps=1\", \"train.batch=4\", \"eval.samples=8\"]\n"
      "device = \"cpu\"\nno-memory = true\nno-profile = true\nseed = 5\n");
  const auto out = folder_.path() / "out";
  const test::Finished run =
      test::run_noisemark({"run", "gmm16@cpu", "--flags=" + file, "--out", out.string()});
  ASSERT_EQ(run.code, 0) << run.both();
  const std::string repeat = reports::read_result(out / "result.json").repeat_command;
  EXPECT_EQ(repeat.find("--flags"), std::string::npos) << repeat;
  for (const char* word : {"--seed=5", "--set=train.steps=1", "--no-memory", "gmm16@cpu"}) {
    EXPECT_NE(repeat.find(word), std::string::npos) << repeat;
  }
}

}  // namespace
}  // namespace noisemark::suite
