#pragma once

#include <memory>

#include "memopt/codecs/codec.h"
#include "memopt/record/step_graph.h"

/// What is known of a saved value from how it was made and who saved it.
namespace noisemark::memopt {

/// float32, bfloat16 or float16.
[[nodiscard]] bool is_real(at::ScalarType type);

/// A number about a computation rather than its outcome, which rounding would spoil for little: a
/// small result, or one beside the main one in memory of its own (statistics of a norm, the
/// log-sum-exp of attention).
[[nodiscard]] bool is_statistic(const StepGraph& graph, ValueId id);

/// The memory of the value is ReLU's result, and backward asks for it only to know which elements
/// are above zero, or for its sizes, as max pooling does of its input.
[[nodiscard]] bool only_sign_is_asked_for(const StepGraph& graph, ValueId id);

/// A convolution saved something of the value's memory.
[[nodiscard]] bool is_saved_by_convolution(const StepGraph& graph, ValueId id);

/// For the index map of a two-dimensional max pooling a codec with its geometry; else null.
[[nodiscard]] std::unique_ptr<Codec> pool_map_codec_of(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
