#include "tests/memopt/programs/oracle.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "memopt/modes/budget.h"
#include "memopt/modes/mode_grammar.h"
#include "tests/memopt/programs/execute.h"
#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

/// Blocks of a mode that are rounded up, and masks of a few elements, are no waste.
constexpr int64_t kSlackBytes = 2048;
/// So many steps at the end must be free of happenings for a plan to be expected.
constexpr int kQuietSteps = 10;

bool same(const Elements& a, const Elements& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

std::string in_step(size_t step) {
  return "in step " + std::to_string(step + 1);
}

std::optional<Finding> compare_bits(const Program& program, const Trace& none, const Trace& got) {
  for (size_t step = 0; step < got.steps.size(); ++step) {
    const StepTrace& a = none.steps[step];
    const StepTrace& b = got.steps[step];
    if (!same(a.losses, b.losses)) return Finding{"bits", "of a loss " + in_step(step)};
    for (size_t i = 0; i < a.gradients.size(); ++i) {
      if (same(a.gradients[i], b.gradients[i])) continue;
      return Finding{"bits", "of the gradient of " + name_of(program, i) + " " + in_step(step)};
    }
    for (size_t i = 0; i < a.states.size(); ++i) {
      if (same(a.states[i], b.states[i])) continue;
      return Finding{"bits", "of " + name_of(program, i) + " after the update " + in_step(step)};
    }
  }
  return std::nullopt;
}

/// The largest relative error of the gradient that a mode explains: four times the bound for
/// benchmarks (reports/seeds/README.md), which is twice what a codec may do to a value. A loss may
/// be nearly invariant to a parameter, as to the scale of a batch norm that is standardized: of its
/// gradient little is left, and "dpr8" was seen to miss that by 0.4, "echo+dpr10" by 0.6 where a
/// norm reads the same row for every example (seed 23688). A program may itself round to bfloat16,
/// whose last place is 2^-7; "q2" has 3 steps, and misses by 2 where values are few. What is made
/// again of rounded values multiplies a gradient that has the same error. A budget measures its
/// error on one step alone, and other steps have up to twice that, or the mode says that they may
/// have more, since their gradients are smaller.
double error_bound(const std::string& spelling) {
  const bool makes_again = spelling.starts_with("echo") || spelling.starts_with("mirror");
  constexpr std::pair<const char*, double> kBounds[] = {
      {"dpr16", 0x1p-5}, {"dpr10", 0x1.8p-2}, {"dpr8", 0x1p-1}, {"q4", 1.2}, {"q2", 8}};
  for (const auto& [part, bound] : kBounds) {
    if (spelling.find(part) == std::string::npos) continue;
    return makes_again ? (1 + bound) * (1 + bound) - 1 : bound;
  }
  return 2 * parse_budget(spelling).error.value_or(0);
}

std::optional<Finding> compare_roughly(const std::string& spelling, const Trace& none,
                                       const Trace& got) {
  for (size_t step = 0; step < got.steps.size(); ++step) {
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < none.steps[step].gradients.size(); ++i) {
      const Elements& a = none.steps[step].gradients[i];
      const Elements& b = got.steps[step].gradients[i];
      if (a.size() != b.size()) return Finding{"error", "a gradient is missing " + in_step(step)};
      for (size_t e = 0; e < a.size(); ++e) {
        difference += std::pow(a[e] - b[e], 2);
        size += std::pow(a[e], 2);
      }
    }
    if (!std::isfinite(size)) continue;
    if (!std::isfinite(difference)) return Finding{"not finite", "a gradient " + in_step(step)};
    const double bound = error_bound(spelling);
    if (difference <= bound * bound * size) continue;
    const int64_t uncertain_before = step == 0 ? 0 : got.steps[step - 1].uncertain_steps;
    if (got.steps[step].uncertain_steps > uncertain_before) continue;
    return Finding{"error", "of the gradient: " + std::to_string(std::sqrt(difference / size)) +
                                " " + in_step(step)};
  }
  return std::nullopt;
}

/// Returns whether the passes of the last step followed a plan, those in its backward too.
bool followed_to_the_end(const Loop& loop, const Trace& got) {
  if (got.steps.size() < 2) return false;
  const StepTrace& last = got.steps.back();
  const StepTrace& before = got.steps[got.steps.size() - 2];
  const int64_t in_backward = loop.opens_scope ? loop.passes : 0;
  return last.departures == before.departures && last.another_follows &&
         last.followed_passes > before.followed_passes + in_backward;
}

std::optional<Finding> look_at_memory(const Loop& loop, const Trace& none, const Trace& got) {
  if (got.left_bytes > 0) {
    return Finding{"leak", std::to_string(got.left_bytes) + " bytes are live when all is over"};
  }
  const StepTrace& last = got.steps.back();
  const StepTrace& reference = none.steps.back();
  const int64_t more = (last.end_bytes - got.steps.front().begin_bytes) -
                       (reference.end_bytes - none.steps.front().begin_bytes);
  if (more > kSlackBytes) {
    return Finding{"leak", std::to_string(more) + " bytes of the last step are live at its end"};
  }
  if (!got.missing_reason.empty()) return std::nullopt;
  // A pass that departs has encoded what it then keeps as well, and so does one that compares.
  const bool followed = followed_to_the_end(loop, got);
  const int64_t allowed_bytes = (followed ? 1 : 2) * reference.held_bytes + kSlackBytes;
  if (last.held_bytes > allowed_bytes) {
    return Finding{"holds more", std::to_string(last.held_bytes) + " bytes, not " +
                                     std::to_string(reference.held_bytes)};
  }
  const int64_t cached_bytes = last.retained_bytes - reference.retained_bytes;
  if (followed && loop.backwards > 1 && cached_bytes > kSlackBytes) {
    return Finding{"holds more", std::to_string(cached_bytes) + " bytes after a backward that " +
                                     "retains its graph"};
  }
  return std::nullopt;
}

/// Returns whether so many steps at the end are alike.
bool quiet(const Program& program, int steps) {
  const Loop& loop = program.loop;
  const int quiet_from = loop.steps - steps;
  if (std::any_of(program.calls.begin(), program.calls.end(),
                  [](const Call& call) { return call.op == "routed"; })) {
    return false;
  }
  // The hook's factor is then part of the recorded pass.
  if (loop.counts_gradients && differentiates_twice(loop)) return false;
  return loop.batches == Batches::kSame && !loop.halves && !loop.opens_scope && !loop.adversarial &&
         std::max(loop.changes_at, loop.writes_from) <= std::max(quiet_from, 1) &&
         std::all_of(loop.happenings.begin(), loop.happenings.end(),
                     [&](const Happening& happening) { return happening.step <= quiet_from; });
}

bool is_steady(const Program& program) {
  const Loop& loop = program.loop;
  return quiet(program, loop.steps) && loop.backwards == 1 && !loop.keeps_graph &&
         !differentiates_twice(loop) && !loop.other_thread && !loop.backward_thread;
}

std::optional<Finding> look_at_plan(const Program& program, const Trace& got) {
  const auto steps = got.steps.size();
  if (!got.makes_plans || !got.missing_reason.empty() || !quiet(program, kQuietSteps)) {
    return std::nullopt;
  }
  const std::vector<Elements>& gradients = got.steps.back().gradients;
  const bool trains = std::any_of(gradients.begin(), gradients.end(),
                                  [](const Elements& gradient) { return !gradient.empty(); });
  if (!trains) return std::nullopt;
  if (steps < 2 || got.steps[steps - 1].followed_passes > got.steps[steps - 2].followed_passes) {
    return std::nullopt;
  }
  return Finding{"idle", "no pass of the last step followed the plan, " +
                             std::to_string(got.steps.back().departures) +
                             " departed, and no reason is given"};
}

std::optional<Finding> look_at_host(const std::string& spelling, const Trace& got) {
  if (!got.makes_plans) return std::nullopt;
  const std::optional<int64_t> allowed_bytes = parse_mode(spelling).host_bytes;
  if (!allowed_bytes || got.host_bytes <= *allowed_bytes) return std::nullopt;
  return Finding{"budget", std::to_string(got.host_bytes) + " bytes of host memory, of " +
                               std::to_string(*allowed_bytes) + " allowed"};
}

/// A training of which all steps are alike keeps its budget; of another it is enough to say so.
std::optional<Finding> look_at_budget(const Program& program, const Budget& budget,
                                      const Trace& got) {
  const auto steps = got.steps.size();
  if (!one_sink(program.loop)) return std::nullopt;
  const bool said = !is_steady(program) && steps > 1 &&
                    got.steps[steps - 1].exceeded_steps > got.steps[steps - 2].exceeded_steps;
  if (said || !got.missing_reason.empty()) return std::nullopt;
  const int64_t bytes =
      budget.target == BudgetTarget::kPeak ? got.steps.back().peak_bytes : got.peak_saved_bytes;
  if (bytes <= budget.bytes) return std::nullopt;
  return Finding{"budget",
                 std::to_string(bytes) + " bytes, of " + std::to_string(budget.bytes) + " allowed"};
}

/// Steps that are counted are errors where the budget is strict, and no others are.
std::optional<Finding> look_at_strictness(const Budget& budget, const Trace& got) {
  int64_t before = 0;
  for (size_t step = 0; step < got.steps.size(); ++step) {
    const StepTrace& traced = got.steps[step];
    const int64_t counted = traced.exceeded_steps + traced.uncertain_steps;
    const bool expected = budget.strict && counted > before;
    before = counted;
    if (traced.refused_by_check == expected) continue;
    return Finding{"budget", std::string("check_step() says ") + (expected ? "nothing" : "that") +
                                 " the budget was not kept " + in_step(step)};
  }
  return std::nullopt;
}

/// The error of a program that cannot take its step again.
bool is_detected(const Program& program, const Trace& got) {
  return (program.loop.keeps_graph || program.loop.carries_state) &&
         is_detected_write(program, got.steps.back().error);
}

/// The share of what mode "none" needs beyond what is live anyway.
Budget budget_of(const ModeChoice& choice, const Trace& none) {
  const StepTrace& last = none.steps.back();
  Budget budget;
  if (choice.spelling == "budget") {
    const auto needed = static_cast<double>(last.peak_bytes - last.begin_bytes);
    budget.bytes = last.begin_bytes + static_cast<int64_t>(choice.share * needed);
  } else {
    budget.target = BudgetTarget::kPeakSaved;
    budget.bytes = static_cast<int64_t>(choice.share * static_cast<double>(last.held_bytes));
  }
  budget.bytes = std::max<int64_t>(budget.bytes, 1);
  if (choice.error > 0) budget.error = choice.error;
  budget.strict = choice.strict;
  return budget;
}

/// The program in which no mode does anything.
Program without_modes(Program program) {
  if (has_another_mode(program.loop)) program.loop.scopes = Scopes::kOne;
  return program;
}

class Judgement {
 public:
  Judgement(const Program& program, const MakeMode& make)
      : program_(program), plain_(without_modes(program)), make_(make) {}

  std::optional<Finding> run() {
    // Once to fill what LibTorch keeps for good, and to know that training can be repeated.
    static_cast<void>(run_under("none"));
    none_ = run_under("none");
    const Trace again = run_under("none");
    if (!none_.steps.back().error.empty()) return Finding{"invalid", none_.steps.back().error};
    if (compare_bits(program_, none_, again)) return Finding{"invalid", "it cannot be repeated"};
    const std::string& spelling = program_.mode.spelling;
    if (!program_.mode.budget()) return look_at(spelling, {}, run_again_under(spelling, false));
    return run_within(budget_of(program_.mode, none_));
  }

 private:
  Trace run_under(const std::string& spelling, bool measures_saved = false) {
    if (spelling == "none") return execute(plain_, {[] { return make_mode("none"); }});
    const auto mode = [&] { return make_(spelling); };
    const bool rounds = !mode()->lossless();
    return execute(program_, {mode, rounds ? &none_ : nullptr, measures_saved});
  }

  /// The size that a refusal names is taken in its place. Passes that change later need other ones.
  std::optional<Finding> run_within(Budget budget) {
    std::string spelling = spell_budget(budget);
    const int most_refusals = quiet(program_, program_.loop.steps) ? 1 : 3;
    for (int refusals = 0;; ++refusals) {
      const Trace got = run_again_under(spelling, budget.target == BudgetTarget::kPeakSaved);
      const int64_t smallest_bytes = got.smallest_budget_bytes;
      if (smallest_bytes == 0) return look_at(spelling, budget, got);
      if (refusals == most_refusals) {
        return Finding{"refused twice", spelling + " was named by a refusal, then " +
                                            std::to_string(smallest_bytes) + " bytes"};
      }
      spelling = spell_budget_of_at_least(budget, smallest_bytes);
      budget = parse_budget(spelling);
    }
  }

  /// A process keeps what it learns once: how fast a codec is, which arithmetic ATen has. A budget
  /// counts all that is live.
  Trace run_again_under(const std::string& spelling, bool measures_saved) {
    static_cast<void>(run_under(spelling));
    return run_under(spelling, measures_saved);
  }

  std::optional<Finding> look_at(const std::string& spelling, const std::optional<Budget>& budget,
                                 const Trace& got) {
    if (is_detected(program_, got)) return std::nullopt;
    if (is_refused_rehearsal(program_, got.steps.back().error)) return std::nullopt;
    if (!got.steps.back().error.empty()) {
      return Finding{"throws", in_step(got.steps.size() - 1) + ": " + got.steps.back().error};
    }
    if (auto finding = make_(spelling)->lossless() ? compare_bits(program_, none_, got)
                                                   : compare_roughly(spelling, none_, got)) {
      return finding;
    }
    if (auto finding = look_at_memory(program_.loop, none_, got)) return finding;
    if (auto finding = look_at_plan(program_, got)) return finding;
    if (!budget) return look_at_host(spelling, got);
    if (auto finding = look_at_strictness(*budget, got)) return finding;
    return look_at_budget(program_, *budget, got);
  }

  const Program& program_;
  const Program plain_;
  const MakeMode& make_;
  Trace none_;
};

}  // namespace

std::optional<Finding> judge(const Program& program, const MakeMode& make) {
  return Judgement(program, make).run();
}

}  // namespace noisemark::memopt::programs
