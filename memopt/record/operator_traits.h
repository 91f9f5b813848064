#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Returns whether calling the operator again with the same inputs gives the same results and
/// changes nothing else, as far as its schema, its tags and its arguments tell: it draws no random
/// numbers, writes nothing but what `overwrites` says, moves no running statistics that it cannot
/// be called without, and its results are not just memory. One of another library than LibTorch's
/// must have the tag pt2_compliant_tag.
[[nodiscard]] bool is_repeatable(const RecordedOperator& recorded);

/// The call with which a repeatable operator is repeated. Batch norm that trains is given no
/// running statistics: it would move them a second time, and its results do not depend on them.
[[nodiscard]] RecordedOperator without_running_statistics(const RecordedOperator& recorded);

/// Marks the running statistics that a batch norm moves as written in place.
void mark_moved_statistics(StepGraph& graph);

/// An argument that is a list without tensors in it.
[[nodiscard]] bool is_plain_list(const c10::IValue& argument);

/// The tensors among an operator's outputs, those in lists too.
[[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& outputs);

/// A call of aten::native_dropout(input, p, train) -> (result, mask). It draws, so calling it again
/// gives something else; but the result is the input times the mask times 1 / (1 - p).
struct MaskedDropout {
  ValueId input = kNone;
  ValueId result = kNone;
  ValueId mask = kNone;
  double keep = 1;  ///< 1 - p; 1 where nothing was dropped
};

/// Returns nothing for another operator, one that drops everything, and one whose result or mask is
/// not both known: autograd saves the mask where a gradient flows.
[[nodiscard]] std::optional<MaskedDropout> masked_dropout_of(const StepGraph& graph, OperatorId id);

/// Makes such calls repeatable. After the slots are known.
void mark_masked_dropouts(StepGraph& graph);

}  // namespace noisemark::memopt
