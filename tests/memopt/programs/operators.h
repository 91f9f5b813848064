#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// The arguments that an operator is called with.
struct Arguments {
  std::vector<at::Tensor> in;
  std::vector<at::Tensor> states;
  double number = 0;
  bool training = true;  ///< is false while the program evaluates
  bool writes = true;    ///< is false before Loop::writes_from
};

/// The properties of an operator that not every loop allows.
struct Effects {
  bool writes_input = false;   ///< writes in place: nobody may have saved it
  bool saves_nothing = false;  ///< its result may be written in place
  bool view = false;           ///< its result shares the memory of its input
  bool writes_state = false;   ///< no second forward pass before backward
  bool once_differentiable = false;
  bool backward_once = false;  ///< its backward destroys what it saved
  bool owns_states = false;    ///< nobody else may use its parameters
  bool lowered = false;        ///< autocast runs it in bfloat16
  bool no_autocast = false;    ///< autocast has no kernel for it
  bool last_unsaved = false;   ///< backward does not need its last parameter
};

/// One operator of programs: its type rule, its meaning, and its C++ ($0, $1: inputs; $p, $q, $r,
/// $s: states; $n: number).
struct Operator {
  std::string_view name;
  std::string_view code;
  int inputs = 1;
  int buffers = 0;  ///< the number of its last states that are buffers
  Effects effects;
  /// The result's type; empty where the operator takes no such inputs.
  std::optional<Type> (*result)(const std::vector<Type>& in);
  std::vector<Shape> (*states)(const std::vector<Type>& in);
  at::Tensor (*run)(const Arguments& arguments);
};

/// All operators. Constant table.
[[nodiscard]] const std::vector<Operator>& operators();
/// Those that programs of the first seeds are made of (generate.h).
[[nodiscard]] const std::vector<Operator>& first_operators();
[[nodiscard]] const std::vector<Operator>& later_operators();
/// Those whose tensors are no plain memory.
[[nodiscard]] const std::vector<Operator>& formed_operators();
/// Those whose rules for rounding depend on a constant, or on who saves an older view or a part.
[[nodiscard]] const std::vector<Operator>& varying_operators();
[[nodiscard]] const Operator& find_operator(std::string_view name);

}  // namespace noisemark::memopt::programs
