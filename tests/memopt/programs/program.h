#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Random training programs as data: generated from a seed, executed, shrunk and printed.
namespace noisemark::memopt::programs {

using Shape = std::vector<int64_t>;

/// The type of a value. Dimension 0 of every value is the batch.
struct Type {
  c10::ScalarType dtype = c10::kFloat;
  Shape shape;
  bool operator==(const Type&) const = default;
};

/// A parameter or buffer of the model. It is called "blocks.BLOCK.pNUMBER".
struct State {
  Shape shape;
  int block = 0;
  bool trained = true;  ///< is false for a buffer, or a parameter that is frozen
  bool buffer = false;
};

/// One call of an operator (operators.h). Its result is the value number `1 + its place`; value 0
/// is the batch.
struct Call {
  std::string_view op;
  std::vector<int> inputs;  ///< values made earlier
  std::vector<int> states;  ///< parameters and buffers, in the operator's order
  double number = 0.5;      ///< the constant, of operators that take one
  double later = 0.5;       ///< the constant from step Loop::changes_at on
};

/// Something that happens once, before or in a step, or from a step on.
enum class Event : uint8_t {
  kThrowInForward,
  kThrowInBackward,
  kOtherBatch,      ///< from this step on the batch has the other size
  kUnfreeze,        ///< a frozen parameter is trained from this step on
  kFreeze,          ///< a trained parameter is frozen from this step on
  kLoadByCopy,      ///< all weights are overwritten before this step
  kLoadBySetData,   ///< all weights get other memory before this step
  kEvaluate,        ///< a forward pass without gradients comes before the step
  kEvaluateInside,  ///< the same inside of a scope
};

struct Happening {
  Event event = Event::kEvaluate;
  int step = 1;
  int state = 0;  ///< the state that kUnfreeze and kFreeze take
};

enum class Optimizer : uint8_t { kSgd, kAdam };

/// The scopes that are open while the model's operators run.
enum class Scopes : uint8_t {
  kOne,             ///< the mode's
  kTwice,           ///< two of the mode, one in the other for the second half
  kInsideAnother,   ///< the mode's, in one of another mode
  kAroundAnother,   ///< the mode's, and in it one of another mode for the second half
  kBetween,         ///< both: the other mode's, the mode's, and the other mode's again
  kInsideOwnHooks,  ///< the mode's, in one of a sink of the program's own, which keeps copies
  kAroundOwnHooks,  ///< the mode's, and in it such a one for the second half
};

/// The rule by which the size of the batch changes from step to step.
enum class Batches : uint8_t {
  kSame,         ///< Loop::batch
  kAlternating,  ///< every second step has Loop::other_batch rows
  kPartial,      ///< every fourth step has
  kVarying,      ///< five sizes in turn
};

/// The loop that the program trains in. Every field's default is the plainest loop.
struct Loop {
  int steps = 8;
  int64_t batch = 4;
  int64_t other_batch = 6;
  int changes_at = 6;     ///< step from which Call::later counts
  bool varies = false;    ///< each pass multiplies all constants by factor_of()
  int writes_from = 1;    ///< step from which forward writes parameters and buffers
  int passes = 1;         ///< forward passes of a step
  bool together = false;  ///< all of them come before one backward
  int backwards = 1;  ///< backward passes for one forward pass; all but the last retain the graph
  bool gradient_penalty = false;  ///< differentiates through the gradient
  bool penalty_inside = false;    ///< the inner gradient is taken inside of the scope
  bool input_penalty = false;     ///< differentiates after backward, through the gradient of the
                                  ///< batch (R1)
  bool halves = false;            ///< every second pass runs the first half of the calls alone
  bool adversarial = false;       ///< the halves are two networks: every second pass the first is
                                  ///< detached and the second trained, otherwise the first alone
  bool carries_state = false;     ///< the result of a pass is detached and added to the next batch
  bool keeps_graph = false;  ///< every second backward runs the graph of the step before again,
                             ///< and only then weights are updated
  Batches batches = Batches::kSame;
  Scopes scopes = Scopes::kOne;
  std::string another = "echo";   ///< the other mode of scopes that have one
  bool counts_gradients = false;  ///< a hook of the first trained parameter doubles every second
                                  ///< gradient, by a counter that only the program knows
  bool opens_scope = false;       ///< backward ends with a forward pass in a scope of the mode, and
                                  ///< its backward
  bool other_thread = false;      ///< forward runs on a thread of its own
  bool backward_thread = false;   ///< and so does backward
  bool thread_state = false;      ///< forward runs under the thread's state as it was within the
                                  ///< pass before
  bool writes_biases = false;     ///< parameters nobody saved are written before backward
  bool autocast = false;          ///< bfloat16, around each forward pass
  bool casts_once = false;        ///< autocast is around the whole step, and keeps its casts
  Optimizer optimizer = Optimizer::kSgd;
  bool updates_inside = false;    ///< weights are updated before the step ends
  bool names_twice = false;       ///< the model has a second name for its first trained parameter
  bool asks_gradients = false;    ///< calls torch::autograd::grad(), and adds the gradients to
                                  ///< .grad itself
  bool retains_middle = false;    ///< the gradient of a value in the middle is retained, and read
  bool counts_backwards = false;  ///< a hook of the first trained parameter counts in a buffer,
                                  ///< past autograd's versions
  std::vector<Happening> happenings;
};

/// The forms that programs have from kFirstAskingSeed on (generate.h).
inline constexpr std::array kAskingForms = {&Loop::updates_inside, &Loop::names_twice,
                                            &Loop::asks_gradients, &Loop::retains_middle,
                                            &Loop::counts_backwards};

/// A mode. A budget is a share of what mode "none" needs, which is measured first.
struct ModeChoice {
  std::string spelling = "echo";  ///< "budget", "budget:saved" or a whole spelling
  double share = 1;               ///< a budget's share of what is held
  double error = 0;               ///< the error of a budget; 0: lossless
  bool strict = false;            ///< the budget is strict
  [[nodiscard]] bool budget() const { return spelling.starts_with("budget"); }
};

struct Program {
  uint64_t seed = 0;  ///< the seed of weights and batches
  Type input;         ///< the batch; its dimension 0 is one of batch_of()
  std::vector<State> states;
  std::vector<Call> calls;
  Loop loop;
  ModeChoice mode;
};

/// Returns the number of the value that Loop::retains_middle is about: 0 is the batch, and each
/// call makes the next.
[[nodiscard]] inline size_t middle_value(const Program& program) {
  return program.calls.size() / 2 + 1;
}

/// Returns whether a scope of the loop is of Loop::another.
[[nodiscard]] bool has_another_mode(const Loop& loop);
/// Returns whether all that is saved goes to the mode, so that what it holds can be measured.
[[nodiscard]] bool one_sink(const Loop& loop);
/// Something in the step is differentiated twice.
[[nodiscard]] bool differentiates_twice(const Loop& loop);
/// Returns whether weights are updated at the end of the step, and gradients begin anew.
[[nodiscard]] bool updates_in(const Loop& loop, int step);
/// Returns whether the first half of the calls is detached in a pass (Loop::adversarial).
[[nodiscard]] bool detaches_in(const Loop& loop, int step, int pass);
/// Returns whether a state is used by the second half of the calls, or by the first.
[[nodiscard]] bool is_of_half(const Program& program, size_t state, bool second);

/// The factor of constants in a pass, as Loop::varies says.
[[nodiscard]] double factor_of(const Loop& loop, int step, int pass);

/// The rows of the batch in a step, as Loop::batches says.
[[nodiscard]] int64_t batch_of(const Loop& loop, int step);
/// The type of all parameters and buffers: double where the batch is.
[[nodiscard]] c10::ScalarType state_type(const Program& program);

/// Returns whether every use of the state is one that saves nothing of it (Effects::last_unsaved).
[[nodiscard]] bool nobody_saves(const Program& program, size_t state);

/// Types of all values, the batch first; empty where the program is not valid: a call takes what
/// its operator does not, or training would be an error or not be repeatable without any mode.
[[nodiscard]] std::optional<std::vector<Type>> types_of(const Program& program, int64_t batch);
[[nodiscard]] bool valid(const Program& program);

/// "blocks.0.p3"
[[nodiscard]] std::string name_of(const Program& program, size_t state);

}  // namespace noisemark::memopt::programs
