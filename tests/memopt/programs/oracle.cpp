#include "tests/memopt/programs/oracle.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "memopt/modes/budget.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/record/step_graph.h"
#include "tests/memopt/programs/execute.h"
#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

/// Rounds finite float32 values.
using Round = std::function<at::Tensor(const at::Tensor& x)>;

/// Rounds what autograd saves, by arithmetic of the oracle's own.
class RoundingMode final : public Mode {
 public:
  explicit RoundingMode(Round round) : round_(std::move(round)) {}
  std::string name() const override { return "rounding"; }
  bool lossless() const override { return false; }
  void attach(const ModelView& model) override {
    for (const auto& [name, parameter] : model.parameters) {
      if (parameter.defined()) model_.push_back(parameter);
    }
    for (const at::Tensor& buffer : model.buffers) {
      if (buffer.defined()) model_.push_back(buffer);
    }
  }
  void begin_step(int64_t /*step*/) override {}
  void end_step() override {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return std::make_unique<Hooks>(*this);
  }

 private:
  class Hooks final : public torch::autograd::SavedVariableHooks {
   public:
    explicit Hooks(const RoundingMode& mode) : mode_(mode) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      const at::NoGradGuard no_grad;
      saved_ = mode_.rounds(tensor) ? rounded(tensor.detach()) : tensor.detach();
    }
    at::Tensor call_unpack_hook() override { return saved_; }

   private:
    [[nodiscard]] at::Tensor rounded(const at::Tensor& x) const {
      const at::Tensor finite = x.isfinite();
      const at::Tensor values = x.masked_fill(finite.logical_not(), 0).to(at::kFloat);
      return at::where(finite, mode_.round_(values).to(x.scalar_type()), x);
    }

    const RoundingMode& mode_;
    at::Tensor saved_;
  };

  [[nodiscard]] bool rounds(const at::Tensor& tensor) const {
    if (form_of(tensor) != MemoryForm::kPlain) return false;
    if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kBFloat16) return false;
    return std::none_of(model_.begin(), model_.end(),
                        [&](const at::Tensor& one) { return one.is_alias_of(tensor); });
  }

  Round round_;
  std::vector<at::Tensor> model_;
};

/// Keeps so many bits of mantissa. `scale` moves the values between the powers of two.
Round to_mantissa(int bits, double scale) {
  return [bits, scale](const at::Tensor& x) {
    const auto [mantissa, exponent] = at::frexp(x * scale);
    const double steps = std::ldexp(1, bits + 1);
    return at::ldexp((mantissa * steps).round() / steps, exponent) / scale;
  };
}

/// Rounds at random to one of the ends of so many equal steps between the least and the largest
/// value.
Round to_steps(int steps, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return [steps, generator](const at::Tensor& x) {
    if (x.numel() == 0) return x;
    const at::Tensor least = x.min();
    const at::Tensor step = ((x.max() - least) / steps).clamp_min(1e-30);
    const at::Tensor draws = at::rand(x.sizes(), generator, x.options().requires_grad(false));
    return ((x - least) / step + draws).floor().clamp(0, steps) * step + least;
  };
}

/// Moves each value by up to half of the last of so many bits of mantissa, each by another part:
/// values that are equal do not stay so.
Round to_nearby(int bits, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return [bits, generator](const at::Tensor& x) {
    const at::Tensor draws = at::rand(x.sizes(), generator, x.options().requires_grad(false));
    return x + x * (draws - 0.5) * std::ldexp(1, -bits);
  };
}

/// Blocks of a mode that are rounded up, and masks of a few elements, are no waste.
constexpr int64_t kSlackBytes = 2048;
/// A plan may hold so much more at its peak than keeping everything, and at most a quarter
/// (memopt/README.md).
constexpr int64_t kMostAbovePeak = 16 * 1024;
/// The number of steps at the end that must be free of happenings for a plan to be expected.
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
    if (!same(a.retained, b.retained)) {
      return Finding{"bits", "of the gradient in the middle " + in_step(step)};
    }
    for (size_t i = 0; i < a.states.size(); ++i) {
      if (same(a.states[i], b.states[i])) continue;
      return Finding{"bits", "of " + name_of(program, i) + " after the update " + in_step(step)};
    }
  }
  return std::nullopt;
}

/// The rounding of a mode: what it keeps of a value, and the largest relative error of a gradient
/// that this explains.
struct Rounding {
  int mantissa_bits = 0;
  int steps = 0;  ///< steps into which the range is divided; 0: `mantissa_bits` are kept
  double bound = 0;
  bool at_random = false;  ///< a value that has no more bits is moved too
};

/// Four times the bound for benchmarks (reports/seeds/README.md), which is twice what a codec may
/// do to a value. A program may itself round to bfloat16, whose last place is 2^-7.
constexpr double kOfBenchmarks = 4;
constexpr double kLastPlace = 0x1p-7;
/// A value may miss by 2 of the 3 steps that "q2" has, where values are few.
constexpr int kFewSteps = 3;
constexpr double kOfFewSteps = 8;

/// A codec with a mantissa of m bits has the bound 2^-m; one of b whole bits has 2^b - 1 steps, and
/// draws them by the number of the step, which the host gives.
Rounding rounding_of(const ModeWord& part) {
  const double bound = part.gradient_bound;
  Rounding rounding;
  rounding.bound = kOfBenchmarks * std::max(bound, kLastPlace);
  if (part.needs_host.empty()) {
    rounding.mantissa_bits = static_cast<int>(-std::log2(bound));
    return rounding;
  }
  rounding.steps = (1 << static_cast<int>(part.bits)) - 1;
  if (rounding.steps <= kFewSteps) rounding.bound = kOfFewSteps;
  return rounding;
}

/// The same rounding by places in turn.
std::vector<Round> rounds_of(const Rounding& rounding) {
  std::vector<Round> rounds;
  if (rounding.at_random) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      rounds.push_back(to_nearby(rounding.mantissa_bits, seed));
    }
  } else if (rounding.steps > 0) {
    for (uint64_t seed = 1; seed <= 4; ++seed) rounds.push_back(to_steps(rounding.steps, seed));
  } else {
    for (const double scale : {1.0, 1.19, 1.41, 1.68}) {
      rounds.push_back(to_mantissa(rounding.mantissa_bits, scale));
    }
  }
  return rounds;
}

/// Throws std::logic_error where the mode does not round, or chooses how.
Rounding rounding_of(const std::string& spelling) {
  for (const ModeComposition& parts : all_compositions()) {
    if (spelling_of(parts) != spelling.substr(0, spelling.find(','))) continue;
    const ModeWord* part = parts.words[static_cast<size_t>(ModeWord::Place::kRounding)];
    if (part != nullptr) return rounding_of(*part);
  }
  throw std::logic_error("oracle: " + spelling + ": no word that rounds");
}

/// A value that is made again of rounded ones multiplies a gradient that has the same error.
double bound_of(const std::string& spelling, double of_rounded) {
  const bool makes_again = spelling.starts_with("echo") || spelling.starts_with("mirror");
  return makes_again ? (1 + of_rounded) * (1 + of_rounded) - 1 : of_rounded;
}

/// The distance of two gradients of all parameters; empty where one of them lacks a parameter.
struct GradientError {
  double difference = 0;
  double size = 0;  ///< the norm of the first
  [[nodiscard]] double relative() const { return difference == 0 ? 0 : difference / size; }
};
std::optional<GradientError> gradient_error(const StepTrace& none, const StepTrace& got) {
  GradientError error;
  for (size_t i = 0; i < none.gradients.size(); ++i) {
    const Elements& a = none.gradients[i];
    const Elements& b = got.gradients[i];
    if (a.size() != b.size()) return std::nullopt;
    for (size_t e = 0; e < a.size(); ++e) {
      error.difference += std::pow(a[e] - b[e], 2);
      error.size += std::pow(a[e], 2);
    }
  }
  error.difference = std::sqrt(error.difference);
  error.size = std::sqrt(error.size);
  return error;
}

/// Returns how much of the first gradient is in the second: 1 of the same, 0 of one that is lost.
double part_kept(const StepTrace& none, const StepTrace& got) {
  double product = 0;
  double size = 0;
  for (size_t i = 0; i < none.gradients.size(); ++i) {
    for (size_t e = 0; e < none.gradients[i].size(); ++e) {
      product += none.gradients[i][e] * got.gradients[i][e];
      size += std::pow(none.gradients[i][e], 2);
    }
  }
  return product / size;
}

/// Returns whether a rounding has changed the gradient, so that it can be asked what is left of it.
bool is_rounded(const StepTrace& none, const StepTrace& got) {
  const auto error = gradient_error(none, got);
  return error && error->size > 0 && std::isfinite(error->size) && error->difference > 0 &&
         std::isfinite(error->difference);
}

/// A loss may be nearly invariant to a parameter, as to the weights before a norm whose result is
/// squared: its gradient is what is left where large terms cancel, of which any rounding leaves
/// little. So large a multiple of what the oracle's own rounding does to the same gradient may a
/// mode do: it rounds other tensors, and makes some again. In programs without a norm a mode keeps
/// exactly what a rounding would spoil, and nothing is an excuse.
constexpr double kOfOwnRounding = 4;
/// An error of 1 is that of a gradient of zeros. Beyond this one a bound for the rounding says too
/// little, and the oracle's own rounding must explain it.
constexpr double kTellsLittle = 0.5;
/// Keeps float32 but for three bits. Where this leaves less than half of a gradient, nothing but
/// errors of float32 is in it: the loss is invariant to the parameter, as the imaginary part of a
/// real transform to a bias.
constexpr Rounding kNearlyFloat{.mantissa_bits = 20, .at_random = true};
/// Moves each value by up to half of it: a mode makes of such a gradient, which may be zero by
/// chance, no more than kOfOwnRounding times what this makes of it.
constexpr Rounding kHalf{.mantissa_bits = 0, .at_random = true};
/// A mode leaves at least so much of a gradient: 0.69 under "q2" in 60 random programs, and nothing
/// where it is lost.
constexpr double kLeastPartKept = 0.25;
/// Rounding at random may leave another part in each step, whose mean is not known more closely
/// than by so many standard errors.
constexpr double kStandardErrors = 3;
/// The number of rounded steps with little or nothing of a gradient that are no accident.
constexpr int kStepsWithoutGradient = 3;

/// Returns the part of the gradient that is left over all rounded steps, where it is too little.
std::optional<double> too_little_kept(const Trace& none, const Trace& got) {
  double sum = 0;
  double squares = 0;
  int rounded = 0;
  for (size_t step = 0; step < got.steps.size(); ++step) {
    if (!is_rounded(none.steps[step], got.steps[step])) continue;
    const double part = part_kept(none.steps[step], got.steps[step]);
    sum += part;
    squares += part * part;
    ++rounded;
  }
  if (rounded < kStepsWithoutGradient) return std::nullopt;
  const double mean = sum / rounded;
  const double variance = std::max(squares / rounded - mean * mean, 0.0);
  const double most = mean + kStandardErrors * std::sqrt(variance / (rounded - 1));
  return most < kLeastPartKept ? std::optional(mean) : std::nullopt;
}

/// The largest error, by step, that the oracle's own rounding leaves; its difference is infinite
/// where one is not a number, as where a comparison finds nothing equal any more.
using OwnErrors = std::vector<GradientError>;

/// Returns the parameter whose gradient is zero in all rounded steps, and never so under "none".
std::optional<size_t> lost_parameter(const Trace& none, const Trace& got) {
  const auto is_zero = [](double x) { return x == 0; };
  if (none.steps.empty()) return std::nullopt;
  for (size_t i = 0; i < none.steps.front().gradients.size(); ++i) {
    int rounded = 0;
    int lost = 0;
    for (size_t step = 0; step < got.steps.size(); ++step) {
      if (!is_rounded(none.steps[step], got.steps[step])) continue;
      const Elements& a = none.steps[step].gradients[i];
      const Elements& b = got.steps[step].gradients[i];
      ++rounded;
      if (!std::all_of(a.begin(), a.end(), is_zero) && std::all_of(b.begin(), b.end(), is_zero)) {
        ++lost;
      }
    }
    if (lost == rounded && lost >= kStepsWithoutGradient) return i;
  }
  return std::nullopt;
}

/// `own`: what a rounding of the oracle's own leaves. It is asked where a bound for the rounding
/// says too little, or is exceeded behind a norm, which the program has if it `normalizes`.
std::optional<Finding> compare_rounded(const std::string& spelling, const Trace& none,
                                       const Trace& got, bool normalizes,
                                       const std::function<OwnErrors(const Rounding&)>& own) {
  const Rounding rounding = rounding_of(spelling);
  const double bound = bound_of(spelling, rounding.bound);
  OwnErrors own_errors;
  OwnErrors of_float;
  OwnErrors of_half;
  for (size_t step = 0; step < got.steps.size(); ++step) {
    const auto error = gradient_error(none.steps[step], got.steps[step]);
    if (!error) return Finding{"error", "a gradient is missing " + in_step(step)};
    if (!std::isfinite(error->size)) continue;
    if (!std::isfinite(error->difference)) {
      return Finding{"not finite", "a gradient " + in_step(step)};
    }
    if (error->difference <= std::min(bound, kTellsLittle) * error->size) continue;
    if (own_errors.empty()) own_errors = own(rounding);
    const double left = own_errors.at(step).relative();
    const double of_own = bound_of(spelling, kOfOwnRounding * left);
    const bool excused = normalizes && std::isfinite(left);
    const double allowed = excused ? of_own : std::min(bound, of_own);
    if (error->difference <= allowed * error->size) continue;
    if (of_float.empty()) of_float = own(kNearlyFloat);
    const bool is_noise = of_float.at(step).relative() > kTellsLittle;
    if (is_noise && of_half.empty()) of_half = own(kHalf);
    if (is_noise && error->difference <= kOfOwnRounding * of_half.at(step).difference) continue;
    return Finding{"error", "of the gradient: " + std::to_string(error->relative()) + " " +
                                in_step(step) + ", where rounding leaves " + std::to_string(left)};
  }
  const auto kept = too_little_kept(none, got);
  if (!kept) return std::nullopt;
  return Finding{"error", "of the gradient " + std::to_string(*kept) + " is left"};
}

/// Steps that followed no plan kept everything, and have all bits: also the one whose backward was
/// run again to measure an error.
std::optional<Finding> compare_kept_middles(const Trace& none, const Trace& got) {
  for (size_t step = 1; step < got.steps.size(); ++step) {
    const StepTrace& before = got.steps[step - 1];
    const StepTrace& now = got.steps[step];
    const bool kept =
        now.followed_passes == before.followed_passes && now.departures == before.departures;
    if (!kept || same(none.steps[step].retained, now.retained)) continue;
    return Finding{"bits", "of the gradient in the middle " + in_step(step)};
  }
  return std::nullopt;
}

/// A budget measures its error in one step. Other steps have other values: as a root mean square
/// they have at most twice that (memopt/modes/README.md), a single one at most twice as much, or
/// the mode says that they may have more, since their gradients are smaller.
std::optional<Finding> compare_within(double error, const Trace& none, const Trace& got) {
  double sum = 0;
  int rounded = 0;
  for (size_t step = 0; step < got.steps.size(); ++step) {
    const auto found = gradient_error(none.steps[step], got.steps[step]);
    if (!found) return Finding{"error", "a gradient is missing " + in_step(step)};
    if (!std::isfinite(found->size) || found->difference == 0) continue;
    if (!std::isfinite(found->difference)) {
      return Finding{"not finite", "a gradient " + in_step(step)};
    }
    const int64_t uncertain_before = step == 0 ? 0 : got.steps[step - 1].uncertain_steps;
    if (got.steps[step].uncertain_steps > uncertain_before) continue;
    if (found->difference > 4 * error * found->size) {
      return Finding{"error",
                     "of the gradient: " + std::to_string(found->relative()) + " " + in_step(step)};
    }
    sum += std::pow(found->relative(), 2);
    ++rounded;
  }
  if (sum <= rounded * std::pow(2 * error, 2)) return std::nullopt;
  return Finding{"error", "of the gradients: " + std::to_string(std::sqrt(sum / rounded)) + " in " +
                              std::to_string(rounded) + " steps"};
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
  // A pass that departs has encoded what it then keeps as well, and so does one that compares. What
  // is saved in the scopes of two modes is held by both: as it is, and encoded.
  const bool followed = followed_to_the_end(loop, got);
  const bool once = followed && !has_another_mode(loop);
  const int64_t allowed_bytes = (once ? 1 : 2) * reference.held_bytes + kSlackBytes;
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

/// Returns whether the mode compares the peaks of its plans with that of keeping everything: codecs
/// and the host's memory hold more beside it, and so does a backward that is differentiated.
bool guards_peak(const Program& program) {
  if (program.mode.budget() || !one_sink(program.loop)) return false;
  const ModeComposition parts = parse_mode(program.mode.spelling);
  return parts.lossless() && parts.gist() == nullptr && parts.offload() == nullptr &&
         !differentiates_twice(program.loop);
}

std::optional<Finding> look_at_peak(const Program& program, const Trace& none, const Trace& got) {
  const bool followed = !got.makes_plans || followed_to_the_end(program.loop, got);
  if (!guards_peak(program) || !followed || !got.missing_reason.empty()) return std::nullopt;
  const StepTrace& reference = none.steps.back();
  const StepTrace& last = got.steps.back();
  const int64_t kept_bytes = reference.peak_bytes - reference.begin_bytes;
  const int64_t bytes = last.peak_bytes - last.begin_bytes;
  if (bytes <= kept_bytes + std::min(kept_bytes / 4, kMostAbovePeak) + kSlackBytes) {
    return std::nullopt;
  }
  return Finding{"holds more",
                 std::to_string(bytes) + " bytes at the peak, not " + std::to_string(kept_bytes)};
}

/// Returns whether so many steps at the end are alike.
bool quiet(const Program& program, int steps) {
  const Loop& loop = program.loop;
  const int quiet_from = loop.steps - steps;
  if (std::any_of(program.calls.begin(), program.calls.end(),
                  [](const Call& call) { return call.op == "routed"; })) {
    return false;
  }
  if (loop.varies) return false;  // operators that are steered by a constant take turns
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
         !differentiates_twice(loop);
}

std::optional<Finding> look_at_plan(const Program& program, const Trace& got) {
  const auto steps = got.steps.size();
  // A new plan of another mode changes what this one sees, which then waits a second time.
  const int quiet_steps = (has_another_mode(program.loop) ? 2 : 1) * kQuietSteps;
  if (!got.makes_plans || !got.missing_reason.empty() || !quiet(program, quiet_steps)) {
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

/// A training of which all steps are alike keeps its budget. Of another it is enough to say so, and
/// of one whose values are no longer what codecs take, or that needs more because autocast keeps
/// casts from one pass to the next: how much is known only after a step.
std::optional<Finding> look_at_budget(const Program& program, const Budget& budget,
                                      const Trace& got) {
  const auto steps = got.steps.size();
  if (!one_sink(program.loop)) return std::nullopt;
  const bool may_say =
      !is_steady(program) || got.codec_fallbacks > 0 || (program.loop.casts_once && got.needs_more);
  const bool said = may_say && steps > 1 &&
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

/// Returns whether the program has a norm of values, or of the weights.
bool normalizes(const Program& program) {
  constexpr std::array<std::string_view, 9> kNorms = {
      "batch_norm",   "group_norm",  "layer_norm",  "rms_norm",         "spectral_norm",
      "standardized", "unit_length", "weight_norm", "weight_normalized"};
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const Call& call) {
    return std::find(kNorms.begin(), kNorms.end(), call.op) != kNorms.end();
  });
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
    // The first run fills what LibTorch keeps for good, and shows that training can be repeated.
    static_cast<void>(run_under("none"));
    none_ = run_under("none");
    const Trace again = run_under("none");
    if (!none_.steps.back().error.empty()) return Finding{"invalid", none_.steps.back().error};
    if (const auto differs = compare_bits(program_, none_, again)) {
      return Finding{"invalid", "it cannot be repeated: " + differs->kind + " " + differs->detail};
    }
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
    for (size_t step = 0; step < got.steps.size(); ++step) {
      if (got.steps[step].backwards == none_.steps[step].backwards) continue;
      return Finding{"state",
                     "backward passes are counted that the program did not run " + in_step(step)};
    }
    if (auto finding = look_at_gradients(spelling, budget, got)) return finding;
    if (auto finding = look_at_memory(program_.loop, none_, got)) return finding;
    if (auto finding = look_at_peak(program_, none_, got)) return finding;
    if (auto finding = look_at_plan(program_, got)) return finding;
    if (!budget) return look_at_host(spelling, got);
    if (auto finding = look_at_strictness(*budget, got)) return finding;
    return look_at_budget(program_, *budget, got);
  }

  std::optional<Finding> look_at_gradients(const std::string& spelling,
                                           const std::optional<Budget>& budget, const Trace& got) {
    if (make_(spelling)->lossless()) return compare_bits(program_, none_, got);
    if (const auto lost = lost_parameter(none_, got)) {
      return Finding{"error", "the gradient of " + name_of(program_, *lost) + " is lost"};
    }
    if (auto finding = compare_kept_middles(none_, got)) return finding;
    if (budget) return compare_within(budget->error.value_or(0), none_, got);
    return compare_rounded(spelling, none_, got, normalizes(program_),
                           [this](const Rounding& rounding) { return own_errors(rounding); });
  }

  /// Measures them by mode "none" with all that is saved rounded, several times.
  OwnErrors own_errors(const Rounding& rounding) {
    OwnErrors largest(none_.steps.size());
    for (const Round& round : rounds_of(rounding)) {
      const Trace rounded =
          execute(plain_, {[&] { return std::make_unique<RoundingMode>(round); }, &none_});
      const std::string& error = rounded.steps.back().error;
      if (!error.empty()) throw std::logic_error("oracle: its own rounding: " + error);
      for (size_t step = 0; step < rounded.steps.size(); ++step) {
        const auto error = gradient_error(none_.steps[step], rounded.steps[step]);
        if (!error || error->difference == 0 || !std::isfinite(error->size)) continue;
        const double difference = std::isfinite(error->difference)
                                      ? std::max(largest[step].difference, error->difference)
                                      : std::numeric_limits<double>::infinity();
        largest[step] = {difference, error->size};
      }
    }
    return largest;
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
