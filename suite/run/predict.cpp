#include "suite/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/predict/prediction.h"
#include "reports/profile/limit.h"
#include "reports/result/definition.h"
#include "suite/ab/build.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"
#include "suite/run/sweep.h"

namespace noisemark::suite {
namespace {

using Sizes = std::vector<int64_t>;
constexpr size_t kFewest = 3;

Error not_sizes(const std::string& found, int64_t accumulation) {
  return bad_input("--batches", "", found,
                   fmt::format("at least {} different multiples of {}, joined by commas", kFewest,
                               accumulation));
}

Sizes typed_sizes(const std::string& text, int64_t accumulation) {
  Sizes sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    const bool whole = error == std::errc{} && (stop == end || (*stop == ',' && stop + 1 != end));
    if (!whole || size < 1 || size % accumulation != 0) throw not_sizes(text, accumulation);
    sizes.push_back(size);
    at = stop == end ? end : stop + 1;
  }
  std::sort(sizes.begin(), sizes.end());
  const bool twice = std::adjacent_find(sizes.begin(), sizes.end()) != sizes.end();
  if (twice || sizes.size() < kFewest) throw not_sizes(text, accumulation);
  return sizes;
}

/// A quarter and a half of the definition's batch and all of it, or its multiples if it is small:
/// sizes to check by must fit between them.
Sizes usual_sizes(const TrainConfig& train) {
  const int64_t quarter = train.batch / (4 * train.accumulation) * train.accumulation;
  const int64_t first = quarter >= 2 * train.accumulation ? quarter : 2 * train.accumulation;
  return {first, 2 * first, 4 * first};
}

std::string axis(const std::string& key, const std::vector<std::string>& values) {
  return fmt::format("{}={}", key, fmt::join(values, ","));
}

/// One mode's cells as points; those of `known` are what is predicted from.
class Points {
 public:
  Points(const reports::Sweep& sweep, const Sizes& known) : sweep_(sweep), known_(known) {}

  std::vector<reports::PredictedVariant> variants() const {
    std::vector<reports::PredictedVariant> all;
    for (const reports::SweepRow& row : sweep_.rows) {
      const std::string& mode = row.values.front();
      if (all.empty() || all.back().name != mode) all.push_back({mode, {}, {}, {}});
      add(row, all.back());
    }
    return all;
  }

 private:
  void add(const reports::SweepRow& row, reports::PredictedVariant& to) const {
    reports::BatchPoint point = point_of(row);
    if (to.work.empty()) to.work = reports::work_of(reports::at_any_batch(*row.result));
    const bool is_known = std::find(known_.begin(), known_.end(), point.batch) != known_.end();
    (is_known ? to.points : to.held_out).push_back(std::move(point));
  }

  /// A cell that did not end well tells by its own exit code why it has no figures.
  static reports::BatchPoint point_of(const reports::SweepRow& row) {
    const ExitCode code = end_of(row);
    const auto or_else = [&](ExitCode other) { return code == ExitCode::kPass ? other : code; };
    if (code == ExitCode::kInterrupted) {
      throw Error(code, row.name + ": interrupted");
    }
    if (!row.result) {
      throw Error(or_else(ExitCode::kFailed),
                  row.name + ": " + row.words + ": nothing is predicted without it");
    }
    try {
      return reports::batch_point(*row.result, row.name);
    } catch (const Error& error) {
      throw Error(or_else(error.code()), error.what());
    }
  }

  /// Only an interrupt leaves cells that were not begun.
  static ExitCode end_of(const reports::SweepRow& row) {
    return row.exit_code ? static_cast<ExitCode>(*row.exit_code) : ExitCode::kInterrupted;
  }

  const reports::Sweep& sweep_;
  const Sizes& known_;
};

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

/// Times a step of each cell's training, in live processes of `noisemark pace`: each takes turns
/// with the first cell, ABBA, so that a machine that slows down meets both alike. Two processes
/// live at once. The times are those of a machine that makes a step of the first cell in its median
/// time over all turns. Throws Error: interrupted (exit code 130), or as PaceProcess does.
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

/// Gives every point its time, taken in turns.
void put_times(const std::vector<SweepCell>& cells,
               std::vector<reports::PredictedVariant>& variants) {
  const std::vector<reports::StepTime> times = time_in_turns(cells);
  std::map<std::pair<std::string, std::string>, reports::StepTime> by_cell;
  for (size_t i = 0; i < cells.size(); ++i) {
    by_cell[{cells[i].values.front(), cells[i].values.back()}] = times[i];
  }
  for (reports::PredictedVariant& variant : variants) {
    for (auto* points : {&variant.points, &variant.held_out}) {
      for (reports::BatchPoint& point : *points) {
        const reports::StepTime& time = by_cell.at({variant.name, std::to_string(point.batch)});
        point.step_s = time.step_s;
        point.step_ci95 = time.ci95;
      }
    }
  }
}

}  // namespace

ExitCode run_prediction(const RunOptions& options, const PredictOptions& wishes) {
  require_benchmark("predict", options.id);
  const auto sets_batch = [](const std::string& one) { return one.starts_with("train.batch="); };
  if (std::any_of(options.sets.begin(), options.sets.end(), sets_batch)) {
    throw bad_input("--set", "train.batch", "given to predict, which tries several sizes",
                    "--batches B1,B2,B3");
  }
  const std::vector<PlannedRun> plans = plan_runs(options);
  for (const PlannedRun& plan : plans) require_countable_batch(plan.spec);
  const TrainConfig& train = plans.front().spec.definition.train;
  const Sizes known =
      wishes.batches.empty() ? usual_sizes(train) : typed_sizes(wishes.batches, train.accumulation);
  Sizes sizes = known;
  if (wishes.check) {
    for (const int64_t size : reports::held_out_batches(known, train.accumulation)) {
      sizes.push_back(size);
    }
  }
  std::vector<std::string> modes;
  for (const PlannedRun& plan : plans) modes.push_back(plan.spec.mode.name);
  std::vector<std::string> batches;
  for (const int64_t size : sizes) batches.push_back(std::to_string(size));

  RunOptions each = options;
  each.modes.clear();
  const std::vector<SweepAxis> axes = parse_axes({axis("mode", modes), axis("batch", batches)});
  const SweepCommand command{
      "predict",
      [&](const reports::Sweep& sweep) {
        std::vector<reports::PredictedVariant> variants = Points(sweep, known).variants();
        put_times(sweep_cells(each, axes), variants);
        reports::PredictionPage page = predict(sweep.title, variants, wishes.memory_bytes);
        return SweepPage{std::move(page.text), page.code, std::move(page.json)};
      },
      wishes.html};
  return run_sweep(each, axes, command);
}

}  // namespace noisemark::suite
