#include "tests/memopt/programs/print.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

std::string spelled(const Shape& shape) {
  std::string text = "{";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "}";
}

std::string state_name(int state) {
  return "p" + std::to_string(state);
}

std::string value_name(int value) {
  return value == 0 ? "x" : "v" + std::to_string(value);
}

std::string pass_number(const Loop& loop) {
  if (loop.passes == 1) return "step";
  return "(step * " + std::to_string(loop.passes) + " + pass)";
}

std::string number_of(const Call& call, const Loop& loop) {
  std::ostringstream text;
  const bool changes = loop.changes_at > 1 && call.number != call.later;
  if (loop.varies) text << '(';
  if (changes) text << "(step < " << loop.changes_at << " ? ";
  text << call.number;
  if (changes) text << " : " << call.later << ')';
  if (loop.varies) text << " * (1 + 0.125 * (" << pass_number(loop) << " % 5)))";
  return text.str();
}

/// The operator's C++ with everything filled in.
std::string code_of(const Call& call, const Loop& loop) {
  const std::string_view code = find_operator(call.op).code;
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] != '$') {
      text += code[i];
      continue;
    }
    const char what = code[++i];
    if (what == 'n') {
      text += number_of(call, loop);
    } else if (what >= 'p') {
      text += state_name(call.states.at(static_cast<size_t>(what - 'p')));
    } else {
      text += value_name(call.inputs.at(static_cast<size_t>(what - '0')));
    }
  }
  return text;
}

/// ", at::kDouble"; empty for the default.
std::string spelled(c10::ScalarType type) {
  return type == c10::kDouble ? ", at::kDouble" : "";
}

std::string initial_text(const State& state, c10::ScalarType type) {
  if (state.buffer) return "at::ones(" + spelled(state.shape) + spelled(type) + ")";
  const std::string drawn = "at::randn(" + spelled(state.shape) + spelled(type) + ")";
  if (state.shape.size() == 1) return drawn + ".mul_(0.1).add_(1)";
  return drawn + (state.shape.size() == 2 ? ".mul_(0.3)" : ".mul_(0.1)");
}

std::string event_text(const Happening& happening) {
  const std::string state = state_name(happening.state);
  switch (happening.event) {
    case Event::kThrowInForward:
      return "forward throws in the middle";
    case Event::kThrowInBackward:
      return "backward throws in the middle";
    case Event::kOtherBatch:
      return "from here on the batch has the other size";
    case Event::kUnfreeze:
      return state + ".requires_grad_(true)";
    case Event::kFreeze:
      return state + ".requires_grad_(false)";
    case Event::kLoadByCopy:
      return "every weight: copy_(another)";
    case Event::kLoadBySetData:
      return "every weight: set_data(another)";
    case Event::kEvaluate:
      return "a forward pass under NoGradGuard, outside of a scope";
    case Event::kEvaluateInside:
      return "a forward pass under NoGradGuard, in a scope";
  }
  return "";
}

/// Returns the lambdas that the program calls.
std::string helpers_of(const std::string& program) {
  std::string text;
  if (program.find("no_grad(") != std::string::npos) {
    text +=
        "const auto no_grad = [](auto write, const at::Tensor& result) {\n"
        "  const c10::NoGradGuard guard;\n"
        "  write();\n"
        "  return result;\n"
        "};\n";
  }
  if (program.find("written(") != std::string::npos) {
    text +=
        "const auto written = [](at::Tensor h, auto write) {\n"
        "  write(h);\n"
        "  return h;\n"
        "};\n";
  }
  return text;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program), loop_(program.loop) {}

  std::string run() {
    print_model();
    print_loop();
    const std::string program = text_.str();
    return helpers_of(program) + program;
  }

 private:
  void print_model() {
    text_ << "at::manual_seed(" << program_.seed << ");\n";
    std::string parameters;
    std::string buffers;
    for (size_t i = 0; i < program_.states.size(); ++i) {
      const State& state = program_.states[i];
      const std::string name = state_name(static_cast<int>(i));
      text_ << "at::Tensor " << name << " = " << initial_text(state, state_type(program_))
            << (state.trained && !state.buffer ? ".requires_grad_()" : "") << ";\n";
      if (state.buffer) {
        buffers += (buffers.empty() ? "" : ", ") + name;
      } else {
        parameters +=
            (parameters.empty() ? "{\"" : ", {\"") + name_of(program_, i) + "\", " + name + "}";
      }
    }
    if (loop_.names_twice) text_ << "// the first trained parameter has a second name, \"tied\"\n";
    if (loop_.gradient_penalty) print_trained();
    text_ << "auto mode = make_mode(" << mode_text() << "\n"
          << "mode->attach({{" << parameters << "}, {" << buffers << "}, 5});\n";
    if (has_another_mode(loop_)) {
      text_ << "auto another = make_mode(\"" << loop_.another << "\");\n"
            << "another->attach({{" << parameters << "}, {" << buffers << "}, 5});\n";
    }
  }

  void print_trained() {
    std::string trained;
    for (size_t i = 0; i < program_.states.size(); ++i) {
      if (!program_.states[i].trained || program_.states[i].buffer) continue;
      trained += (trained.empty() ? "" : ", ") + state_name(static_cast<int>(i));
    }
    text_ << "const std::vector<at::Tensor> trained = {" << trained << "};\n";
  }

  [[nodiscard]] std::string mode_text() const {
    const ModeChoice& mode = program_.mode;
    if (!mode.budget()) return "\"" + mode.spelling + "\");";
    std::ostringstream text;
    text << (mode.spelling == "budget" ? "\"budget:SIZE" : "\"budget:saved=SIZE");
    if (mode.error > 0) text << ",error=" << mode.error;
    if (mode.strict) text << ",strict";
    text << "\");  // SIZE is " << mode.share << " of what mode none needs";
    return text.str();
  }

  void print_loop() {
    text_ << "for (int step = 1; step <= " << loop_.steps << "; ++step) {\n";
    for (const Happening& happening : loop_.happenings) {
      text_ << "  // step " << happening.step << ": " << event_text(happening) << "\n";
    }
    text_ << "  mode->begin_step(step);\n"
          << (has_another_mode(loop_) ? "  another->begin_step(step);\n" : "");
    std::string in = "  ";
    if (loop_.passes > 1) {
      text_ << "  for (int pass = 0; pass < " << loop_.passes << "; ++pass) {"
            << (loop_.together ? "  // one backward comes after both" : "") << "\n";
      in = "    ";
    }
    print_forward(in);
    if (loop_.writes_biases) {
      for (size_t i = 0; i < program_.states.size(); ++i) {
        if (!nobody_saves(program_, i)) continue;
        text_ << in << "no_grad([&] { " << state_name(static_cast<int>(i))
              << ".mul_(0.999); }, at::Tensor());\n";
      }
    }
    if (loop_.carries_state) {
      text_ << in << "// the last value like x is detached; tanh of it, times 0.5, is added to the "
            << "next x\n";
    }
    if (loop_.keeps_graph) {
      text_ << in
            << "// odd steps retain their graph and update nothing; even steps add their loss "
            << "to that of the step before\n";
    }
    if (loop_.opens_scope) {
      text_ << in << "// a hook of the first trained parameter runs silu(p).square().mean() of a "
            << "copy in a scope of the mode, and its backward\n";
    }
    if (loop_.counts_gradients) {
      text_ << in << "// a hook of the first trained parameter doubles every second gradient\n";
    }
    if (loop_.counts_backwards) {
      text_ << in << "// a hook of the first trained parameter adds 1 to .data() of a buffer\n";
    }
    if (loop_.asks_gradients) {
      text_ << in << "// by torch::autograd::grad() in place of backward(); .grad gets the sums\n";
    }
    if (loop_.backward_thread) text_ << in << "// on a thread of its own:\n";
    for (int i = 1; i <= loop_.backwards; ++i) {
      text_ << in << "loss.backward({}, /*retain_graph=*/"
            << (i < loop_.backwards ? "true" : "false") << ");\n";
    }
    if (loop_.input_penalty) {
      text_ << in << "// x requires a gradient, and each backward above retains its graph:\n"
            << in
            << "(torch::autograd::grad({loss}, {x}, {}, true, "
               "/*create_graph=*/true)[0].square().sum() * 0.01)"
            << ".backward();\n";
    }
    if (loop_.passes > 1) text_ << "  }\n";
    if (loop_.updates_inside) text_ << "  // weights are updated here\n";
    text_ << "  mode->end_step();\n"
          << (has_another_mode(loop_) ? "  another->end_step();\n" : "") << "  // "
          << (loop_.optimizer == Optimizer::kSgd ? "SGD" : "Adam")
          << ", learning rate 0.01; then every gradient is undefined\n}\n";
  }

  [[nodiscard]] std::string batches_text() const {
    switch (loop_.batches) {
      case Batches::kSame:
        break;
      case Batches::kAlternating:
        return "  // in even steps with " + std::to_string(loop_.other_batch) + " rows";
      case Batches::kPartial:
        return "  // in every fourth step with " + std::to_string(loop_.other_batch) + " rows";
      case Batches::kVarying:
        return "  // and step % 5 more rows";
    }
    return "";
  }

  void print_forward(const std::string& in) {
    text_ << in << "at::Tensor x = ";
    Shape batch = program_.input.shape;
    batch[0] = loop_.batch;
    text_ << (program_.input.dtype == c10::kLong ? "at::randint(16, " : "at::randn(")
          << spelled(batch) << spelled(program_.input.dtype) << ");" << batches_text();
    text_ << "\n" << in << "at::Tensor loss = at::zeros({});\n" << in << "{";
    if (loop_.other_thread) text_ << "  // on a thread of its own";
    text_ << "\n";
    if (loop_.thread_state) {
      text_ << in << "  // under an at::ThreadLocalStateGuard of the at::ThreadLocalState that was "
            << "taken within the scope of the pass before\n";
    }
    print_scopes(in);
    if (loop_.writes_from > 1) {
      text_ << in << "  // parameters and buffers are written from step " << loop_.writes_from
            << " on\n";
    }
    if (loop_.halves) text_ << in << "  // every second pass runs the first half alone\n";
    if (loop_.adversarial) {
      text_ << in << "  // two networks, a half of the operators each: in odd passes the first is "
            << "detached and the second trained\n";
    }
    if (loop_.autocast)
      text_ << in << "  // under autocast of the CPU, bfloat16"
            << (loop_.casts_once ? ", as is the whole step\n" : "\n");
    print_calls(in);
    if (loop_.retains_middle) {
      text_ << in << "  // retain_grad() of "
            << value_name(static_cast<int>(middle_value(program_)))
            << ", which is held until the step has ended\n";
    }
    if (loop_.gradient_penalty) {
      text_ << (loop_.penalty_inside ? "" : in + "}\n" + in + "{\n") << in
            << "  for (auto g : torch::autograd::grad({loss}, trained, {}, true, "
               "/*create_graph=*/true)) loss = loss + g.square().sum() * 0.01;\n";
    }
    text_ << in << "}\n";
  }

  void print_scopes(const std::string& in) {
    const Scopes scopes = loop_.scopes;
    if (scopes == Scopes::kInsideAnother || scopes == Scopes::kBetween) {
      text_ << in << "  const SavedTensorScope outer(*another);\n";
    }
    if (scopes == Scopes::kInsideOwnHooks) {
      text_ << in << "  // in a scope of a sink of the program's own, whose hooks keep copies\n";
    }
    text_ << in << "  const SavedTensorScope scope(*mode);\n";
    if (scopes == Scopes::kAroundAnother || scopes == Scopes::kBetween) {
      text_ << in << "  // half of the operators run in a scope of `another`\n";
    }
    if (scopes == Scopes::kAroundOwnHooks) {
      text_ << in << "  // half of the operators run in a scope of a sink of the program's own, "
            << "whose hooks keep copies\n";
    }
    if (scopes == Scopes::kTwice) {
      text_ << in << "  // half of the operators run in a second scope of the mode\n";
    }
  }

  void print_calls(const std::string& in) {
    const auto types = types_of(program_, loop_.batch);
    std::vector<bool> used(program_.calls.size() + 1, false);
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const Call& call = program_.calls[i];
      text_ << in << "  at::Tensor " << value_name(static_cast<int>(i) + 1) << " = "
            << code_of(call, loop_) << ";\n";
      for (const int input : call.inputs) used[static_cast<size_t>(input)] = true;
    }
    for (size_t i = 1; i < used.size(); ++i) {
      const c10::ScalarType dtype = (*types)[i].dtype;
      if (used[i] || dtype == c10::kBool) continue;
      const std::string name = value_name(static_cast<int>(i));
      const bool complex = c10::isComplexType(dtype);
      text_ << in << "  loss = loss + "
            << (complex ? "at::view_as_real(" + name + ".resolve_conj())" : name)
            << ".square().mean(" << (dtype == c10::kBFloat16 ? "at::kFloat" : "") << ");\n";
    }
  }

  const Program& program_;
  const Loop& loop_;
  std::ostringstream text_;
};

}  // namespace

std::string cpp_of(const Program& program) {
  return Printer(program).run();
}

}  // namespace noisemark::memopt::programs
