#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Whether calling the operator again with the same inputs gives the same results and changes
/// nothing else, as far as its schema, its tags and its arguments tell: it draws no random numbers,
/// writes nothing but what `overwrites` says, moves no running statistics, and its results are not
/// just memory.
[[nodiscard]] bool is_repeatable(const RecordedOperator& recorded);

/// An argument that is a list without tensors in it.
[[nodiscard]] bool is_plain_list(const c10::IValue& argument);

/// The tensors among an operator's outputs, those in lists too.
[[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& outputs);

}  // namespace noisemark::memopt
