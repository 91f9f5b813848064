#include "tests/memopt/programs/program.h"

#include <algorithm>

#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

/// Returns whether value `value` may be written by call `writer`: nobody saved it, and no view of
/// it is used.
bool may_be_written(const Program& program, int value, size_t writer) {
  if (value == 0) return false;
  const Effects& made_by = find_operator(program.calls[static_cast<size_t>(value - 1)].op).effects;
  if (!made_by.saves_nothing || made_by.view) return false;
  for (size_t call = 0; call < program.calls.size(); ++call) {
    const auto& inputs = program.calls[call].inputs;
    if (call != writer && std::count(inputs.begin(), inputs.end(), value) > 0) return false;
  }
  return true;
}

bool states_fit(const Program& program, const Call& call, const Operator& op,
                const std::vector<Type>& in) {
  const std::vector<Shape> shapes = op.states(in);
  if (shapes.size() != call.states.size()) return false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto number = static_cast<size_t>(call.states[i]);
    if (number >= program.states.size()) return false;
    const State& state = program.states[number];
    const bool buffer = i + static_cast<size_t>(op.buffers) >= shapes.size();
    if (state.shape != shapes[i] || state.buffer != buffer) return false;
  }
  return true;
}

int users_of(const Program& program, int state) {
  int users = 0;
  for (const Call& call : program.calls) {
    users += static_cast<int>(std::count(call.states.begin(), call.states.end(), state));
  }
  return users;
}

bool loop_allows(const Program& program, const Call& call, const Effects& effects) {
  const Loop& loop = program.loop;
  const bool several_before_backward = loop.passes > 1 && loop.together;
  const bool twice = differentiates_twice(loop);
  if (effects.writes_state && (several_before_backward || twice || loop.keeps_graph)) return false;
  if (effects.once_differentiable && twice) return false;
  if (effects.no_autocast && loop.autocast) return false;
  if (effects.backward_once && (loop.backwards > 1 || loop.keeps_graph)) return false;
  if (!effects.owns_states) return true;
  return std::all_of(call.states.begin(), call.states.end(),
                     [&](int state) { return users_of(program, state) == 1; });
}

/// Each step has one backward pass, and nothing that it saved is written before the next.
bool may_keep_graph(const Loop& loop) {
  if (loop.passes > 1 && !loop.together) return false;
  return std::none_of(loop.happenings.begin(), loop.happenings.end(), [](const Happening& one) {
    return one.event == Event::kLoadByCopy || one.event == Event::kLoadBySetData;
  });
}

}  // namespace

std::optional<std::vector<Type>> types_of(const Program& program, int64_t batch) {
  std::vector<Type> types = {program.input};
  types[0].shape[0] = batch;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    const Operator& op = find_operator(call.op);
    if (static_cast<int>(call.inputs.size()) != op.inputs) return std::nullopt;
    std::vector<Type> in;
    for (const int value : call.inputs) {
      if (value < 0 || value > static_cast<int>(i)) return std::nullopt;
      in.push_back(types[static_cast<size_t>(value)]);
    }
    std::optional<Type> result = op.result(in);
    if (!result || !states_fit(program, call, op, in)) return std::nullopt;
    if (op.effects.lowered && program.loop.autocast) result->dtype = c10::kBFloat16;
    if (op.effects.writes_input && !may_be_written(program, call.inputs[0], i)) return std::nullopt;
    if (!loop_allows(program, call, op.effects)) return std::nullopt;
    types.push_back(*result);
  }
  return types;
}

bool has_another_mode(const Loop& loop) {
  return loop.scopes == Scopes::kInsideAnother || loop.scopes == Scopes::kAroundAnother ||
         loop.scopes == Scopes::kBetween;
}

bool one_sink(const Loop& loop) {
  return loop.scopes == Scopes::kOne || loop.scopes == Scopes::kTwice;
}

bool differentiates_twice(const Loop& loop) {
  return loop.gradient_penalty || loop.input_penalty;
}

bool updates_in(const Loop& loop, int step) {
  return !loop.keeps_graph || step % 2 == 0;
}

bool detaches_in(const Loop& loop, int step, int pass) {
  return loop.adversarial && (step + pass) % 2 == 1;
}

bool is_of_half(const Program& program, size_t state, bool second) {
  const size_t calls = program.calls.size();
  for (size_t i = second ? calls / 2 : 0; i < (second ? calls : calls / 2); ++i) {
    const auto& states = program.calls[i].states;
    if (std::count(states.begin(), states.end(), static_cast<int>(state)) > 0) return true;
  }
  return false;
}

bool valid(const Program& program) {
  const Loop& loop = program.loop;
  if (program.calls.empty() || loop.steps < 1) return false;
  if (loop.autocast && program.input.dtype == c10::kDouble) return false;
  if (loop.casts_once && (!loop.autocast || loop.other_thread || loop.backward_thread))
    return false;
  if (loop.input_penalty && program.input.dtype == c10::kLong) return false;
  if (loop.keeps_graph && !may_keep_graph(loop)) return false;
  const bool plain = loop.backwards == 1 && !loop.keeps_graph && !differentiates_twice(loop) &&
                     !loop.other_thread && !loop.backward_thread && loop.scopes == Scopes::kOne;
  if (loop.opens_scope && !plain) return false;
  if (loop.asks_gradients && (loop.keeps_graph || loop.input_penalty || loop.opens_scope)) {
    return false;
  }
  const bool only_another = loop.scopes == Scopes::kTwice ||
                            loop.scopes == Scopes::kInsideAnother ||
                            loop.scopes == Scopes::kAroundAnother;
  if (only_another && program.mode.budget()) return false;
  const bool trains = std::any_of(program.states.begin(), program.states.end(),
                                  [](const State& state) { return state.trained; });
  return trains && types_of(program, loop.batch) && types_of(program, loop.other_batch);
}

double factor_of(const Loop& loop, int step, int pass) {
  constexpr int kFactors = 5;
  return loop.varies ? 1 + 0.125 * ((step * loop.passes + pass) % kFactors) : 1;
}

int64_t batch_of(const Loop& loop, int step) {
  constexpr int kPartialEvery = 4;
  constexpr int kSizes = 5;
  switch (loop.batches) {
    case Batches::kSame:
      break;
    case Batches::kAlternating:
      return step % 2 == 0 ? loop.other_batch : loop.batch;
    case Batches::kPartial:
      return step % kPartialEvery == 0 ? loop.other_batch : loop.batch;
    case Batches::kVarying:
      return loop.batch + step % kSizes;
  }
  return loop.batch;
}

c10::ScalarType state_type(const Program& program) {
  return program.input.dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
}

bool nobody_saves(const Program& program, size_t state) {
  return std::all_of(program.calls.begin(), program.calls.end(), [&](const Call& call) {
    const size_t last = call.states.size() - 1;
    for (size_t i = 0; i < call.states.size(); ++i) {
      if (call.states[i] != static_cast<int>(state)) continue;
      if (i != last || !find_operator(call.op).effects.last_unsaved) return false;
    }
    return true;
  });
}

std::string name_of(const Program& program, size_t state) {
  return "blocks." + std::to_string(program.states[state].block) + ".p" + std::to_string(state);
}

}  // namespace noisemark::memopt::programs
