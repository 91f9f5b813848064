#include "suite/run/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "reports/base/statistics.h"
#include "suite/ab/build.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

constexpr double kTurn_s = 0.1;
constexpr double kBlocks_s = 4;  ///< time for all blocks of a cell, where the fewest take less
constexpr int64_t kMostBlocks = 40;
constexpr int64_t kWarmupSteps = 3;

std::vector<std::string> words_of(const SweepCell& cell, const PlannedRun& plan) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(), "pace",
                                 plan.given};
  for (const SpelledOption& option : spell_run_options(cell.options, command::kPace)) {
    words.push_back(option.flag);
    if (!option.value.empty()) words.push_back(option.value);
  }
  return words;
}

/// A cell's live training, past its warm-up.
class LiveCell {
 public:
  explicit LiveCell(const SweepCell& cell) : LiveCell(cell, plan_runs(cell.options).front()) {}

  void take_turn(std::vector<double>& step_s) {
    const std::vector<double> taken = process_.run(turn_steps_).step_s;
    step_s.insert(step_s.end(), taken.begin(), taken.end());
  }
  [[nodiscard]] double turn_s() const { return turn_s_; }
  void quit() { process_.quit(); }

 private:
  LiveCell(const SweepCell& cell, const PlannedRun& plan)
      : process_(cell.name, words_of(cell, plan)) {
    (void)process_.await_ready();
    (void)process_.run(kWarmupSteps + plan.spec.mode.forwards_until_steady);
    const double step_s = reports::median(process_.run(kWarmupSteps).step_s);
    turn_steps_ = std::max<int64_t>(1, std::llround(kTurn_s / step_s));
    turn_s_ = static_cast<double>(turn_steps_) * step_s;
  }

  PaceProcess process_;
  int64_t turn_steps_ = 1;
  double turn_s_ = 0;
};

reports::TurnBlock pass_block(LiveCell& cell, LiveCell& reference) {
  reports::TurnBlock block;
  reference.take_turn(block.reference_s);
  cell.take_turn(block.step_s);
  cell.take_turn(block.step_s);
  reference.take_turn(block.reference_s);
  return block;
}

int64_t blocks_of(const LiveCell& cell, const LiveCell& reference) {
  const double block_s = 2 * (cell.turn_s() + reference.turn_s());
  const auto wanted = static_cast<int64_t>(kBlocks_s / block_s);
  return std::clamp(wanted, reports::kFewestBlocks, kMostBlocks);
}

}  // namespace

std::vector<reports::StepTime> time_in_turns(const std::vector<SweepCell>& cells) {
  const InterruptGuard interrupt;
  Progress line("predict", 0, 0);
  LiveCell reference(cells.front());
  std::vector<double> reference_s;
  std::vector<std::vector<reports::TurnBlock>> all;
  for (size_t i = 1; i < cells.size(); ++i) {
    const auto say = [&](const std::string& doing) {
      line.say(fmt::format("{} of {}, {}, {}", i, cells.size() - 1, cells[i].name, doing));
    };
    say("warm-up");
    LiveCell cell(cells[i]);
    std::vector<reports::TurnBlock>& blocks = all.emplace_back();
    const int64_t count = blocks_of(cell, reference);
    for (int64_t block = 1; block <= count; ++block) {
      if (interrupt.requested()) {
        throw Error(ExitCode::kInterrupted, cells[i].name + ": interrupted in its turns");
      }
      say(fmt::format("turns {} of {}", block, count));
      blocks.push_back(pass_block(cell, reference));
      const std::vector<double>& taken = blocks.back().reference_s;
      reference_s.insert(reference_s.end(), taken.begin(), taken.end());
    }
    cell.quit();
  }
  reference.quit();
  const double median_s = reports::median(reference_s);
  std::vector<reports::StepTime> times{{median_s, reports::median_interval(reference_s).value()}};
  for (const auto& blocks : all) times.push_back(reports::step_in_turns(blocks, median_s));
  return times;
}

}  // namespace noisemark::suite
