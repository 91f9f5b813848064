#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "memopt/codecs/codec.h"
#include "memopt/codecs/host_offload.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/plan/resolve.h"
#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// The host memory of a mode that offloads, taken once for each recorded step.
class OffloadPool {
 public:
  /// `limit_bytes`: no more is taken; empty: as much as the recorded step needs.
  explicit OffloadPool(std::optional<int64_t> limit_bytes = {}) : limit_bytes_(limit_bytes) {}

  /// A codec with room for `bytes`, as far as the limit and the host allow, on the device of the
  /// model; null when the model has no tensors, and so nothing to train.
  [[nodiscard]] std::shared_ptr<const HostOffload> of(const StepGraph& graph, int64_t bytes);

  /// Empty before the first memory was taken.
  [[nodiscard]] std::optional<HostOffloadUsage> usage() const;
  /// The storages of the recorded step that found no room since the last call.
  [[nodiscard]] std::set<StorageId> take_refused() const;
  /// Gives the memory back, once nobody holds an encoding in it.
  void reset() { pool_.reset(); }

 private:
  std::optional<int64_t> limit_bytes_;
  std::shared_ptr<const HostOffload> pool_;
  c10::Device device_ = c10::Device(c10::kCPU);
  int64_t capacity_bytes_ = 0;
};

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

[[nodiscard]] bool is_any_value(const StepGraph& graph, ValueId id);

/// Returns a codec with the geometry of a two-dimensional max pooling for its index map; for other
/// values null.
[[nodiscard]] std::unique_ptr<Codec> pool_map_codec_of(const StepGraph& graph, ValueId id);

/// The codecs that a mode tries for each value that it holds, those that hold fewer bits first:
///
/// - where it recomputes values or is "gist": masks (dropout's noise) in 1 bit, and in 16 float32
///   of which every element is a bfloat16 or a float16, as autocast's copies are;
/// - "gist" (Jain et al., ISCA 2018): in 1 bit the results of ReLU that only ReLU's own backward
///   and that of max pooling ask for, the second of which asks for their sizes alone; index maps of
///   max pooling in 4 bits; sparse storage with room for 35, 50, 65 or 80 % of the elements;
/// - with rounding: all floating values but statistics, log-sum-exps and small results, also the
///   values of what is stored sparsely;
/// - "offload": what convolutions saved, or everything, whatever its form, goes to host memory,
///   which `host` gives. What finds no room there has the codecs that it would have without
///   "offload". Null: nothing goes there.
///
/// It is empty where the mode encodes nothing.
[[nodiscard]] CodecChoice codec_choice(const ModeComposition& parts,
                                       std::shared_ptr<OffloadPool> host = nullptr);

/// Returns whether the operator is of a constant list whose results cost little to make: norms,
/// activations, element-wise operators, copies and views, concatenation, nearest-neighbour
/// upsampling. "echo" runs these again (Zheng et al. 2020, ISCA).
[[nodiscard]] bool is_cheap(const StepGraph& graph, const RecordedOperator& op);
/// The same, or an operator of a segment in which attention is computed, or of the segments beside
/// it in its layer ("layers.0.perceptron" of "layers.0.attention") where these have no convolution.
[[nodiscard]] bool is_cheap_or_in_attention(const StepGraph& graph, const RecordedOperator& op);
/// "mirror" may run any operator again (Chen et al. 2016).
[[nodiscard]] bool is_any_operator(const StepGraph& graph, const RecordedOperator& op);

/// The rules of a mode, as the table of its words says; its codecs are those of codec_choice().
[[nodiscard]] Policy policy_of(const ModeComposition& parts);

}  // namespace noisemark::memopt
