// The protocol, spoken with the real `noisemark pace`, and with programs that break it.

#include "suite/ab/pace_process.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "reports/error.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

using Words = std::vector<std::string>;

Words pace_command(Words more = {}) {
  Words words = test::noisemark_command(
      {"pace", "gmm16-ho@cpu", "--device=cpu", "--threads=1", "--set=train.batch=1"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A process that does what this shell script says.
PaceProcess shell(const std::string& script,
                  std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  return {"B (broken)", {"/bin/sh", "-c", script}, patience};
}

struct Said {
  ExitCode code = ExitCode::kPass;
  std::string words;
};

template <typename Action>
Said error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

const std::string kReady =
    R"(echo '{"ready": true, "benchmark": "b", "variant": "v", "batch": 1, "parameters": 1, )"
    R"("identity": {}, "about": {}}'; )";

TEST(PaceProcess, of_the_real_program_says_what_it_is_and_takes_turns) {
  PaceProcess process("A (noisemark)", pace_command());
  const reports::AbBuild build = process.await_ready();
  EXPECT_EQ(build.benchmark, "gmm16-ho@cpu");
  EXPECT_EQ(build.variant, "none-plain-fp32");
  EXPECT_EQ(build.batch, 1);
  EXPECT_EQ(build.parameters, 701345);
  EXPECT_EQ(build.identity.at("identity.threads"), "1");
  EXPECT_EQ(build.identity.at("identity.overrides"), "train.batch=1");
  EXPECT_EQ(build.identity.at("provenance.init_weights_sha256").size(), 64U);
  EXPECT_EQ(build.about.at("binary_sha256").size(), 64U);
  const reports::AbTurn first = process.run(3);
  const reports::AbTurn second = process.run(2);
  EXPECT_EQ(first.step_s.size(), 3U);
  EXPECT_EQ(second.loss.size(), 2U);
  EXPECT_NE(first.loss[0], second.loss[0]);
  process.quit();
}

TEST(PaceProcess, of_the_real_program_repeats_its_losses_and_can_be_slowed_down) {
  PaceProcess plain("A (noisemark)", pace_command());
  PaceProcess slow("B (noisemark)", pace_command({"--slow-down=3"}));
  EXPECT_EQ(plain.await_ready().identity, slow.await_ready().identity);
  const reports::AbTurn fast_turn = plain.run(6);
  const reports::AbTurn slow_turn = slow.run(6);
  EXPECT_EQ(fast_turn.loss, slow_turn.loss);
  // Four times as long; half of that leaves room for a busy machine, which only ever adds to a
  // step.
  EXPECT_GT(*std::ranges::min_element(slow_turn.step_s),
            2 * *std::ranges::min_element(fast_turn.step_s));
}

TEST(PaceProcess, that_is_no_program_is_named) {
  const Said said =
      error_of([] { PaceProcess("A (/nonexistent/noisemark)", {"/nonexistent/noisemark"}); });
  EXPECT_EQ(said.code, ExitCode::kBadInput);
  EXPECT_EQ(said.words,
            "A (/nonexistent/noisemark): /nonexistent/noisemark: No such file or directory (a "
            "program: noisemark)");
}

TEST(PaceProcess, that_refuses_its_input_passes_its_code_on) {
  PaceProcess process("A (noisemark)", test::noisemark_command({"pace", "nonexistent"}));
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_EQ(said.code, ExitCode::kBadInput);
  EXPECT_EQ(said.words, "A (noisemark): ended with exit code 2");
}

TEST(PaceProcess, that_dies_in_a_turn_is_named_with_its_signal) {
  PaceProcess process = shell(kReady + "read line; kill -SEGV $$");
  (void)process.await_ready();
  const Said said = error_of([&] { (void)process.run(1); });
  EXPECT_EQ(said.code, ExitCode::kInternal);
  EXPECT_EQ(said.words, "B (broken): ended by signal " + std::to_string(SIGSEGV));
}

TEST(PaceProcess, that_ended_before_its_turn_is_no_broken_pipe) {
  PaceProcess process = shell(kReady + "exit 71");
  (void)process.await_ready();
  usleep(100000);
  const Said said = error_of([&] { (void)process.run(1); });
  EXPECT_EQ(said.code, ExitCode::kOutOfMemory);
}

TEST(PaceProcess, that_ends_well_in_the_middle_has_failed_too) {
  PaceProcess process = shell(kReady + "exit 0");
  (void)process.await_ready();
  EXPECT_EQ(error_of([&] { (void)process.run(1); }).code, ExitCode::kInternal);
}

TEST(PaceProcess, that_answers_nonsense_is_quoted) {
  PaceProcess talker = shell("echo hello; read line");
  const Said said = error_of([&] { (void)talker.await_ready(); });
  EXPECT_EQ(said.code, ExitCode::kInternal);
  EXPECT_NE(said.words.find("B (broken): not the first answer of noisemark pace: "),
            std::string::npos);
  EXPECT_NE(said.words.find("hello"), std::string::npos);

  for (const char* answer :
       {"{}", R"({"step_s": [1], "loss": [1]})", R"({"step_s": [1, 2], "loss": [1, null]})",
        R"({"step_s": [1, 0], "loss": [1, 2]})", R"({"step_s": [1, 2], "loss": ["1", "2"]})"}) {
    PaceProcess process = shell(kReady + "read line; echo '" + answer + "'; read line");
    (void)process.await_ready();
    const Said turn = error_of([&] { (void)process.run(2); });
    EXPECT_EQ(turn.code, ExitCode::kInternal) << answer;
    EXPECT_NE(turn.words.find("not the answer to a turn: "), std::string::npos) << turn.words;
  }
}

TEST(PaceProcess, of_an_earlier_version_that_does_not_say_what_it_trains_is_refused) {
  PaceProcess process =
      shell(R"(echo '{"ready": true, "benchmark": "b", "variant": "v", "batch": 1}'; read line)");
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_NE(said.words.find("parameters: missing"), std::string::npos) << said.words;
}

TEST(PaceProcess, that_never_answers_is_waited_for_only_so_long) {
  PaceProcess process = shell("sleep 60", std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  const Said said = error_of([&] { (void)process.await_ready(); });
  EXPECT_EQ(said.words, "B (broken): no answer in 0.2 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace noisemark::suite
