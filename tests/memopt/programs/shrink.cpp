#include "tests/memopt/programs/shrink.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

using Candidates = std::vector<Program>;

/// Leaves out the calls [first, first + count): a use of one of their results becomes a use of an
/// earlier value of the same type. It is false where there is none.
bool remove_calls(Program& program, size_t first, size_t count) {
  const auto types = types_of(program, program.loop.batch);
  std::vector<int> renamed(program.calls.size() + 1);
  int next = 0;
  for (size_t value = 0; value < renamed.size(); ++value) {
    const bool removed = value > first && value <= first + count;
    if (!removed) {
      renamed[value] = next++;
      continue;
    }
    renamed[value] = -1;
    for (size_t earlier = 0; earlier <= first; ++earlier) {
      if ((*types)[earlier] == (*types)[value]) renamed[value] = renamed[earlier];
    }
  }
  const auto begin = program.calls.begin() + static_cast<std::ptrdiff_t>(first);
  program.calls.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  for (Call& call : program.calls) {
    for (int& input : call.inputs) {
      input = renamed[static_cast<size_t>(input)];
      if (input < 0) return false;
    }
  }
  return true;
}

void remove_unused_states(Program& program) {
  for (size_t state = program.states.size(); state-- > 0;) {
    const auto number = static_cast<int>(state);
    const bool used =
        std::any_of(program.calls.begin(), program.calls.end(), [&](const Call& call) {
          return std::count(call.states.begin(), call.states.end(), number) > 0;
        });
    if (used) continue;
    program.states.erase(program.states.begin() + static_cast<std::ptrdiff_t>(state));
    for (Call& call : program.calls) {
      for (int& user : call.states) user -= user > number ? 1 : 0;
    }
    std::erase_if(program.loop.happenings, [&](const Happening& happening) {
      return happening.state == number &&
             (happening.event == Event::kUnfreeze || happening.event == Event::kFreeze);
    });
    for (Happening& happening : program.loop.happenings) {
      happening.state -= happening.state > number ? 1 : 0;
    }
  }
}

void without_calls(const Program& program, Candidates& candidates) {
  const size_t calls = program.calls.size();
  for (size_t count = calls / 2; count > 0; count /= 2) {
    for (size_t first = 0; first + count <= calls; first += count) {
      Program smaller = program;
      if (!remove_calls(smaller, calls - first - count, count)) continue;
      remove_unused_states(smaller);
      candidates.push_back(std::move(smaller));
    }
  }
}

void plainer_loops(const Program& program, Candidates& candidates) {
  for (size_t i = 0; i < program.loop.happenings.size(); ++i) {
    Program smaller = program;
    smaller.loop.happenings.erase(smaller.loop.happenings.begin() + static_cast<std::ptrdiff_t>(i));
    candidates.push_back(std::move(smaller));
  }
  const auto with = [&](auto change) {
    Program smaller = program;
    change(smaller.loop);
    candidates.push_back(std::move(smaller));
  };
  const Loop& loop = program.loop;
  if (loop.passes > 1) with([](Loop& l) { l.passes = 1; });
  if (loop.together) with([](Loop& l) { l.together = false; });
  if (loop.backwards > 1) with([](Loop& l) { l.backwards = 1; });
  if (loop.gradient_penalty) with([](Loop& l) { l.gradient_penalty = false; });
  if (loop.penalty_inside) with([](Loop& l) { l.penalty_inside = false; });
  if (loop.input_penalty) with([](Loop& l) { l.input_penalty = false; });
  if (loop.adversarial) with([](Loop& l) { l.adversarial = false; });
  if (loop.carries_state) with([](Loop& l) { l.carries_state = false; });
  if (loop.keeps_graph) with([](Loop& l) { l.keeps_graph = false; });
  if (loop.opens_scope) with([](Loop& l) { l.opens_scope = false; });
  if (loop.halves) with([](Loop& l) { l.halves = false; });
  if (loop.batches != Batches::kSame) with([](Loop& l) { l.batches = Batches::kSame; });
  if (loop.casts_once) with([](Loop& l) { l.casts_once = false; });
  if (loop.writes_from > 1) with([](Loop& l) { l.writes_from = 1; });
  if (loop.scopes != Scopes::kOne) with([](Loop& l) { l.scopes = Scopes::kOne; });
  if (loop.scopes == Scopes::kBetween) with([](Loop& l) { l.scopes = Scopes::kAroundAnother; });
  if (loop.another != "echo") with([](Loop& l) { l.another = "echo"; });
  if (loop.counts_gradients) with([](Loop& l) { l.counts_gradients = false; });
  if (loop.backward_thread) with([](Loop& l) { l.backward_thread = false; });
  if (loop.thread_state) with([](Loop& l) { l.thread_state = false; });
  if (loop.writes_biases) with([](Loop& l) { l.writes_biases = false; });
  if (loop.other_thread) with([](Loop& l) { l.other_thread = false; });
  if (loop.autocast) with([](Loop& l) { l.autocast = false; });
  if (loop.optimizer != Optimizer::kSgd) with([](Loop& l) { l.optimizer = Optimizer::kSgd; });
  for (bool Loop::*form : kAskingForms) {
    if (loop.*form) with([form](Loop& l) { l.*form = false; });
  }
  if (loop.changes_at > 1) with([](Loop& l) { l.changes_at = 1; });
  if (loop.varies) with([](Loop& l) { l.varies = false; });
  if (loop.batch > 2) with([](Loop& l) { l.batch = 2, l.other_batch = 3; });
  if (loop.steps > 1) with([](Loop& l) { l.steps -= 1; });
}

/// Every prefix and every omission of one part.
void plainer_modes(const Program& program, Candidates& candidates) {
  const auto with = [&](const ModeChoice& mode) {
    Program smaller = program;
    smaller.mode = mode;
    candidates.push_back(std::move(smaller));
  };
  const ModeChoice& mode = program.mode;
  if (mode.budget()) {
    if (mode.error > 0) with({mode.spelling, mode.share, 0, mode.strict});
    if (mode.share < 1) with({mode.spelling, 1, mode.error, mode.strict});
    if (mode.strict) with({mode.spelling, mode.share, mode.error});
    return;
  }
  const std::string& spelling = mode.spelling;
  if (const size_t host = spelling.find(','); host != std::string::npos) {
    with({spelling.substr(0, host)});
  }
  for (size_t at = spelling.find('+'); at != std::string::npos; at = spelling.find('+', at + 1)) {
    with({spelling.substr(0, at)});
    with({spelling.substr(at + 1)});
  }
}

void plainer_states(const Program& program, Candidates& candidates) {
  for (size_t i = 0; i < program.states.size(); ++i) {
    if (program.states[i].trained || program.states[i].buffer) continue;
    Program smaller = program;
    smaller.states[i].trained = true;
    candidates.push_back(std::move(smaller));
  }
}

/// The same calls on a smaller batch: every parameter has the shape that its call then asks for.
void smaller_shapes(const Program& program, Candidates& candidates) {
  if (program.input.dtype == c10::kDouble) {
    candidates.push_back(program);
    candidates.back().input.dtype = c10::kFloat;
  }
  for (size_t dim = 1; dim < program.input.shape.size(); ++dim) {
    Program smaller = program;
    int64_t& size = smaller.input.shape[dim];
    if (size <= 2) continue;
    size /= 2;
    std::vector<Type> types = {smaller.input};
    types[0].shape[0] = smaller.loop.batch;
    for (const Call& call : smaller.calls) {
      const Operator& op = find_operator(call.op);
      std::vector<Type> in;
      for (const int input : call.inputs) in.push_back(types[static_cast<size_t>(input)]);
      const std::optional<Type> result = op.result(in);
      if (!result) break;
      const std::vector<Shape> shapes = op.states(in);
      for (size_t i = 0; i < shapes.size(); ++i) {
        smaller.states[static_cast<size_t>(call.states[i])].shape = shapes[i];
      }
      types.push_back(*result);
    }
    candidates.push_back(std::move(smaller));
  }
}

Candidates smaller_than(const Program& program) {
  Candidates candidates;
  without_calls(program, candidates);
  plainer_loops(program, candidates);
  plainer_modes(program, candidates);
  plainer_states(program, candidates);
  smaller_shapes(program, candidates);
  std::erase_if(candidates, [](const Program& candidate) { return !valid(candidate); });
  return candidates;
}

}  // namespace

Program shrink(const Program& failing, const StillFails& still_fails, int tries) {
  Program smallest = failing;
  for (bool shrunk = true; shrunk && tries > 0;) {
    shrunk = false;
    for (Program& candidate : smaller_than(smallest)) {
      if (tries-- == 0) break;
      if (!still_fails(candidate)) continue;
      smallest = std::move(candidate);
      shrunk = true;
      break;
    }
  }
  return smallest;
}

}  // namespace noisemark::memopt::programs
