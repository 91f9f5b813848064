#include "suite/ab/measure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "reports/base/error.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::AbRecord;
using reports::AbSide;

/// Six short pairs of the real program beside itself.
AbRequest twins() {
  const std::string binary = test::noisemark_command({}).front();
  AbRequest request;
  request.a = {"a", binary};
  request.b = {"b", binary};
  request.pace = {"gmm16-ho@cpu", "--device=cpu", "--threads=1", "--set=train.batch=1"};
  request.pairs = 6;
  request.seconds = 6;
  return request;
}

/// A program that speaks the protocol, for what no real build can be made to do: `prelude` are
/// commands of sh at its start, `in_turn` before each answer; a step takes $step seconds.
std::string speaker(const fs::path& folder, const std::string& name,
                    const std::string& prelude = "", const std::string& in_turn = "") {
  const fs::path path = folder / name;
  std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && echo noisemark 0 && exit 0\ncd "
                      << folder << "\nstep=0.01; version=1\n"
                      << prelude << R"sh(
echo '{"ready": true, "benchmark": "x", "variant": "v", "batch": 1, "parameters": 1,' \
  '"identity": {"cell": "x", "version": "'$version'"}, "about": {}}'
while read verb count; do
  [ $verb = quit ] && exit 0
)sh" << in_turn << R"sh(
  steps=$step; loss=1; i=1
  while [ $i -lt $count ]; do steps="$steps,$step"; loss="$loss,1"; i=$((i + 1)); done
  echo "{\"step_s\": [$steps], \"loss\": [$loss]}"
done
)sh";
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

AbRequest speakers(const std::string& a, const std::string& b) {
  AbRequest request;
  request.a = {"a", a};
  request.b = {"b", b};
  request.pace = {"x"};
  request.pairs = 6;
  request.seconds = 1;
  return request;
}

TEST(MeasureAb, makes_pairs_of_real_processes_in_swapped_order_and_swapped_turns) {
  int told = 0;
  const AbRecord record = measure_ab(twins(), {[&](const AbRecord&) { ++told; }, {}});
  ASSERT_GE(record.pairs.size(), 6U);
  EXPECT_EQ(told, static_cast<int>(record.pairs.size()));
  EXPECT_EQ(record.ended, "");
  EXPECT_EQ(record.a.benchmark, "gmm16-ho@cpu");
  for (size_t i = 0; i < record.pairs.size(); ++i) {
    const reports::AbPair& pair = record.pairs[i];
    EXPECT_EQ(pair.first, i % 2 == 0 ? AbSide::kA : AbSide::kB);
    ASSERT_EQ(pair.turns.size(), static_cast<size_t>(4 * record.plan.blocks));
    EXPECT_EQ(pair.turns[0].side, pair.first);
    EXPECT_EQ(pair.turns[1].side, other_side(pair.first));
    EXPECT_EQ(pair.turns[2].side, other_side(pair.first));
    EXPECT_EQ(pair.turns[3].side, pair.first);
    for (const reports::AbTurn& turn : pair.turns) {
      EXPECT_EQ(static_cast<int64_t>(turn.step_s.size()), record.plan.turn_steps);
    }
  }
  // Whatever the times say on a busy machine: the losses of one program are equal bit for bit.
  for (const reports::ExactRow& row : judge_ab(record).comparison.exact) {
    EXPECT_EQ(row.verdict, reports::CompareVerdict::kEquivalent) << row.metric << row.words;
  }
}

TEST(MeasureAb, a_slow_down_put_into_a_real_process_is_caught) {
  AbRequest request = twins();
  request.slow_down_frac = 0.5;
  const AbRecord record = measure_ab(request);
  EXPECT_EQ(judge_ab(record).comparison.verdict, reports::CompareVerdict::kRegression);
}

TEST(MeasureAb, gives_both_sides_of_a_control_arguments_of_one_length) {
  const test::TemporaryFolder folder;
  AbRequest request = speakers(speaker(folder.path(), "one", "echo $3 > one.argument"),
                               speaker(folder.path(), "other", "echo $3 > other.argument"));
  request.slow_down_frac = 0.05;
  (void)measure_ab(request);
  const auto argument = [&](const char* name) {
    std::string text;
    std::getline(std::ifstream(folder.path() / name), text);
    return text;
  };
  EXPECT_EQ(argument("one.argument"), "--slow-down=0.000000");
  EXPECT_EQ(argument("other.argument"), "--slow-down=0.050000");
}

TEST(MeasureAb, extends_what_is_inconclusive_once) {
  const test::TemporaryFolder folder;
  const std::string steady = speaker(folder.path(), "steady");
  // Faster and slower by 5 % from process to process: never decided.
  const std::string noisy =
      speaker(folder.path(), "noisy",
              "if [ -e odd ]; then rm odd; step=0.0105; else touch odd; step=0.0095; fi");
  EXPECT_EQ(measure_ab(speakers(steady, noisy)).pairs.size(), 12U);
  EXPECT_EQ(measure_ab(speakers(steady, steady)).pairs.size(), 6U);
}

TEST(MeasureAb, builds_that_would_do_other_work_are_not_run) {
  const test::TemporaryFolder folder;
  const AbRecord record =
      measure_ab(speakers(speaker(folder.path(), "a"), speaker(folder.path(), "b", "version=2")));
  EXPECT_TRUE(record.pairs.empty());
  EXPECT_EQ(record.ended, "the builds would not do the same work");
  EXPECT_EQ(judge_ab(record).comparison.verdict, reports::CompareVerdict::kNotComparable);
}

TEST(MeasureAb, a_process_that_dies_is_named_and_what_was_made_is_kept) {
  const test::TemporaryFolder folder;
  AbRecord kept;
  const AbWatch watch = {[&](const AbRecord& record) {
                           kept = record;
                           if (record.pairs.size() == 2) std::ofstream(folder.path() / "now") << "";
                         },
                         {}};
  try {
    const std::string dies = speaker(folder.path(), "b", "", "[ -e now ] && exit 70");
    (void)measure_ab(speakers(speaker(folder.path(), "a"), dies), watch);
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_STREQ(error.what(), "B (b): ended with exit code 70");
  }
  EXPECT_EQ(kept.pairs.size(), 3U);
  EXPECT_EQ(kept.ended, "B (b): ended with exit code 70");
}

TEST(MeasureAb, keeps_what_held_the_clocks_down_after_each_pair) {
  const test::TemporaryFolder folder;
  const std::string steady = speaker(folder.path(), "steady");
  int asked = 0;
  AbWatch watch;
  watch.clock_reasons = [&] { return ++asked == 2 ? "thermal slow-down" : "power cap"; };
  const AbRecord record = measure_ab(speakers(steady, steady), watch);
  ASSERT_EQ(record.pairs.size(), 6U);
  EXPECT_EQ(record.pairs[0].clock_reasons, "power cap");
  EXPECT_EQ(record.pairs[1].clock_reasons, "thermal slow-down");
  EXPECT_EQ(judge_ab(record).comparison.verdict, reports::CompareVerdict::kInvalidClocks);
}

TEST(MeasureAb, stops_when_it_is_told_to) {
  const test::TemporaryFolder folder;
  const std::string steady = speaker(folder.path(), "steady");
  int asked = 0;
  const AbRecord record = measure_ab(speakers(steady, steady), {{}, [&] { return ++asked > 20; }});
  EXPECT_EQ(record.ended, kInterruptedWord);
  EXPECT_LT(record.pairs.size(), 6U);
}

TEST(MeasureAb, too_few_pairs_are_refused_before_anything_is_started) {
  AbRequest request = speakers("/nonexistent", "/nonexistent");
  request.pairs = 5;
  EXPECT_THROW((void)measure_ab(request), Error);
}

TEST(PlanTurns, turns_take_no_longer_than_asked_for_and_a_block_always_fits) {
  const reports::AbPlan usual = plan_turns(5, 1.6, 0.1, 0.5);
  EXPECT_EQ(usual.blocks, 2);      // 3.4 s in blocks of at most 2 s
  EXPECT_EQ(usual.turn_steps, 4);  // a step took 0.425 s
  const reports::AbPlan hurried = plan_turns(1, 2, 0.01, 0.2);
  EXPECT_EQ(hurried.blocks, 1);
  EXPECT_EQ(hurried.turn_steps, 20);
  const reports::AbPlan long_steps = plan_turns(60, 10, 7, 0.2);
  EXPECT_EQ(long_steps.turn_steps, 1);
  EXPECT_EQ(long_steps.blocks, 1);  // 50 s hold one block of 28 s
}

}  // namespace
}  // namespace noisemark::suite
