#include "suite/ab/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "reports/ab/judge.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"
#include "suite/ab/build.h"

namespace noisemark::suite {
namespace {

using reports::AbBuild;
using reports::AbPair;
using reports::AbPlan;
using reports::AbRecord;
using reports::AbSide;
using std::chrono::steady_clock;

constexpr double kWarmup_s = 0.25;
constexpr int64_t kFewestWarmupSteps = 3;
constexpr int64_t kProbeSteps = 3;  // their median leaves the first, slow one out

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

size_t index_of(AbSide side) {
  return static_cast<size_t>(side);
}

const AbProgram& program_of(const AbRequest& request, AbSide side) {
  return side == AbSide::kA ? request.a : request.b;
}

/// The name in errors: "A (old/noisemark)".
std::string process_name(const AbRequest& request, AbSide side) {
  return fmt::format("{} ({})", ab_side_name(side), program_of(request, side).name);
}

/// Two live processes.
class LivePair {
 public:
  LivePair(const AbRequest& request, AbSide first) {
    for (const AbSide side : {first, other_side(first)}) {
      processes_[index_of(side)] = start(request, side);
    }
  }

  PaceProcess& of(AbSide side) { return *processes_[index_of(side)]; }

 private:
  static std::unique_ptr<PaceProcess> start(const AbRequest& request, AbSide side) {
    std::vector<std::string> command = {program_of(request, side).binary, "pace"};
    command.insert(command.end(), request.pace.begin(), request.pace.end());
    if (request.slow_down_frac > 0) {
      // Both get an argument of one length: a byte more moves what is allocated after it, and a
      // process keeps for its life what that does to its pages and cache lines.
      const double frac = side == AbSide::kB ? request.slow_down_frac : 0;
      command.push_back(fmt::format("--slow-down={:.6f}", frac));
    }
    return std::make_unique<PaceProcess>(process_name(request, side), std::move(command));
  }

  std::array<std::unique_ptr<PaceProcess>, 2> processes_;
};

/// A process of a build that another one of the same build does not equal is no repetition of it.
void require_same(const AbBuild& first, const AbBuild& now, AbSide side) {
  if (first.benchmark == now.benchmark && first.variant == now.variant &&
      first.identity == now.identity && first.batch == now.batch &&
      first.parameters == now.parameters && first.about == now.about) {
    return;
  }
  throw Error(ExitCode::kNotComparable, fmt::format("{}: {}: is another program than at first",
                                                    ab_side_name(side), now.name));
}

class Measurement {
 public:
  Measurement(const AbRequest& request, const AbWatch& watch) : request_(request), watch_(watch) {
    record_.created_utc = reports::utc_now();
    record_.plan.pairs = request.pairs;
    record_.plan.seconds = request.seconds;
    record_.plan.turn_s = request.turn_s;
    record_.plan.slow_down_frac = request.slow_down_frac;
    record_.environment = request.environment;
  }

  AbRecord measure() {
    // Refuses a count of pairs that proves nothing before anything is started.
    (void)judge_ab(record_, request_.judge);
    try {
      for (const AbSide side : {AbSide::kA, AbSide::kB}) {
        require_noisemark(process_name(request_, side), program_of(request_, side).binary);
      }
      if (request_.short_runs) compare_figures();
      make_pairs(request_.pairs);
      if (going_on() && wants_extension(record_, request_.judge)) make_pairs(2 * request_.pairs);
    } catch (const Error& error) {
      record_.ended = error.what();
      tell();
      throw;
    }
    return std::move(record_);
  }

 private:
  [[nodiscard]] bool going_on() {
    if (record_.ended.empty() && watch_.stop && watch_.stop()) record_.ended = kInterruptedWord;
    return record_.ended.empty();
  }

  void tell() const {
    if (watch_.on_pair) watch_.on_pair(record_);
  }

  /// Compares one run of each build, and where they are not equal a second one: what differs
  /// between runs of one build is no difference between builds.
  void compare_figures() {
    constexpr int kMostRuns = 2;
    std::array<std::vector<reports::Result>, 2> runs;
    for (int made = 0; made < kMostRuns; ++made) {
      for (const AbSide side : {AbSide::kA, AbSide::kB}) {
        if (!make_short_run(side, runs[index_of(side)])) return;
      }
      record_.figures = reports::compare_exact_figures(runs[0], runs[1]);
      const bool equal = std::all_of(record_.figures.begin(), record_.figures.end(),
                                     [](const reports::ExactRow& row) {
                                       return row.verdict == reports::CompareVerdict::kEquivalent;
                                     });
      if (equal) return;
    }
  }

  /// Returns false when it was stopped.
  bool make_short_run(AbSide side, std::vector<reports::Result>& runs) {
    if (!going_on()) return false;
    if (watch_.on_short_run) watch_.on_short_run(side);
    const AbProgram& program = program_of(request_, side);
    auto result = short_run(process_name(request_, side), program.binary, request_.pace);
    if (!result) {
      record_.ended = kInterruptedWord;
      return false;
    }
    runs.push_back(std::move(*result));
    return true;
  }

  void make_pairs(int64_t count) {
    while (going_on() && static_cast<int64_t>(record_.pairs.size()) < count) {
      make_pair();
      if (record_.ended.empty()) tell();
    }
  }

  void make_pair() {
    const auto begin = steady_clock::now();
    const bool even = record_.pairs.size() % 2 == 0;
    const AbSide first = even ? AbSide::kA : AbSide::kB;
    LivePair live(request_, first);
    if (!meet(live)) return;
    AbPair& pair = record_.pairs.emplace_back();
    pair.first = first;
    warm_up(live, pair, begin);
    for (int64_t block = 0; block < record_.plan.blocks; ++block) {
      if (!pass_block(live, pair, block % 2 == 0 ? first : other_side(first))) return;
    }
    if (watch_.clock_reasons) pair.clock_reasons = watch_.clock_reasons();
    for (const AbSide side : {first, other_side(first)}) live.of(side).quit();
  }

  /// Returns false when they would not do the same work.
  bool meet(LivePair& live) {
    std::array<AbBuild, 2> builds;
    for (const AbSide side : {AbSide::kA, AbSide::kB}) {
      AbBuild& build = builds[index_of(side)];
      build = live.of(side).await_ready();
      build.name = program_of(request_, side).name;
    }
    if (!record_.pairs.empty()) {
      require_same(record_.a, builds[0], AbSide::kA);
      require_same(record_.b, builds[1], AbSide::kB);
      return true;
    }
    record_.a = builds[0];
    record_.b = builds[1];
    if (!judge_ab(record_, request_.judge).comparison.differences.empty()) {
      record_.ended = "the builds would not do the same work";
      return false;
    }
    if (request_.noise_floor) {
      record_.plan.noise_floor_frac = request_.noise_floor(record_.a.identity);
    }
    return true;
  }

  static void take_turn(LivePair& live, AbSide side, int64_t steps,
                        std::vector<reports::AbTurn>& turns) {
    turns.push_back(live.of(side).run(steps));
    turns.back().side = side;
  }

  void warm_up(LivePair& live, AbPair& pair, steady_clock::time_point begin) {
    AbPlan& plan = record_.plan;
    const bool planned = plan.turn_steps > 0;
    double step_s = 0;
    if (!planned) {
      // It is still unknown what a step takes. Both builds make the same steps all along.
      for (const AbSide side : {pair.first, other_side(pair.first)}) {
        take_turn(live, side, kProbeSteps, pair.warmup);
        step_s = std::max(step_s, reports::median(pair.warmup.back().step_s));
      }
      plan.warmup_steps = std::max<int64_t>(kFewestWarmupSteps, std::llround(kWarmup_s / step_s));
    }
    const int64_t left = plan.warmup_steps - (planned ? 0 : kProbeSteps);
    for (const AbSide side : {pair.first, other_side(pair.first)}) {
      if (left > 0) take_turn(live, side, left, pair.warmup);
    }
    if (planned) return;
    step_s = std::min(reports::median(pair.warmup.back().step_s), step_s);
    const double pair_s = request_.seconds / static_cast<double>(request_.pairs);
    const AbPlan turns = plan_turns(pair_s, seconds_since(begin), step_s, request_.turn_s);
    plan.turn_steps = turns.turn_steps;
    plan.blocks = turns.blocks;
  }

  /// Returns false when it was stopped.
  bool pass_block(LivePair& live, AbPair& pair, AbSide first) {
    const AbSide second = other_side(first);
    for (const AbSide side : {first, second, second, first}) {
      if (!going_on()) return false;
      take_turn(live, side, record_.plan.turn_steps, pair.turns);
    }
    return true;
  }

  const AbRequest& request_;
  const AbWatch& watch_;
  AbRecord record_;
};

}  // namespace

AbPlan plan_turns(double pair_s, double start_s, double step_s, double turn_s) {
  constexpr auto kTurns = static_cast<double>(reports::kTurnsOfBlock);
  const double left = std::max(pair_s - start_s, kTurns * turn_s);
  const double wanted = std::ceil(left / (kTurns * turn_s));
  const double possible = std::floor(left / (kTurns * step_s));
  AbPlan plan;
  plan.blocks = std::max<int64_t>(1, std::llround(std::min(wanted, possible)));
  const double fits_s = left / (kTurns * static_cast<double>(plan.blocks));
  plan.turn_steps = std::max<int64_t>(1, std::llround(std::min(turn_s, fits_s) / step_s));
  return plan;
}

AbRecord measure_ab(const AbRequest& request, const AbWatch& watch) {
  return Measurement(request, watch).measure();
}

}  // namespace noisemark::suite
