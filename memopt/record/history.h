#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Returns whether a kernel is running, so that what is called now is no call of the program's.
[[nodiscard]] bool below_autograd();

/// Sees with what the operators of one forward pass are called, as far as autograd may not keep it:
/// the operator's name, its constants (the summand of an addition, the epsilon of a norm), which of
/// the model's buffers it reads, how often and by which calls without autograd the memory of its
/// inputs was written, and the shapes of what has no history. Each call becomes one number, kept by
/// the number of the autograd node that it makes; operators that make no node say nothing. Reads no
/// values and keeps nothing alive. For the thread that makes it. Several may watch at a time, since
/// passes may nest and one pass may be compared with several recorded ones: each sees every call.
class CallWatch {
 public:
  /// `graph` knows the model's tensors.
  explicit CallWatch(const StepGraph& graph);
  ~CallWatch() { stop(); }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// Sees no more. Known calls stay known.
  void stop();
  /// Equal for equal calls, in this process; 0: the call that made the node was not seen.
  [[nodiscard]] uint64_t call_of(uint64_t sequence) const;
  /// A number for the calls in this pass that wrote the tensor's memory without autograd; 0: none
  /// did.
  [[nodiscard]] uint64_t writes_to(const at::Tensor& tensor) const;
  /// The tensor's memory stands for memory of which writes_to() gave this number.
  void stands_for(const at::Tensor& tensor, uint64_t writes);

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  void note(const at::RecordFunction& function);
  void note_write(const at::RecordFunction& function);
  [[nodiscard]] const std::vector<size_t>& written_arguments(const at::RecordFunction& function);
  void forget();
  [[nodiscard]] uint64_t digest_of(const c10::IValue& argument) const;
  [[nodiscard]] uint64_t digest_of(const at::Tensor& tensor) const;
  /// The version that the model's memory had when the pass began; 0 for other memory.
  [[nodiscard]] int64_t version_before(const at::Tensor& tensor) const;

  static thread_local CallWatch* innermost_;

  CallWatch* outer_ = nullptr;
  bool watching_ = true;
  uint64_t first_sequence_;
  std::unordered_map<const c10::StorageImpl*, int64_t> model_;  ///< versions as the pass began
  std::vector<uint64_t> calls_;  ///< by sequence number, from first_sequence_ on
  /// They are found by the address of the operator's name, which outlives the pass.
  std::unordered_map<const void*, std::vector<size_t>> written_arguments_;
  /// Weak: the memory of the object is not used again, so its address stays its name.
  struct Written {
    uint64_t digest = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  std::unordered_map<const c10::StorageImpl*, Written> written_;
};

}  // namespace noisemark::memopt

namespace torch::autograd {
struct Node;
}

namespace noisemark::memopt {

/// Reads how tensors of one forward pass were made off autograd's nodes: their types, how they are
/// wired, the parameters that they end in, the numbers that they keep (autograd/nodes.h), and the
/// calls that made them (CallWatch). It goes no further back than the pass, and visits each node
/// once, so reading all saved tensors of a pass costs no more than its nodes. Keeps nothing alive.
/// Only the thread that runs the pass may use it.
class HistoryReader {
 public:
  /// The pass begins now. `graph` knows the model's tensors.
  explicit HistoryReader(const StepGraph& graph);
  /// It is over: what is still read was made before.
  void end() { calls_.stop(); }

  /// The place that the tensor came from. Nodes that were not met before are appended to nodes().
  [[nodiscard]] RecordedEdge read(const at::Tensor& tensor);
  /// Returns the same of CallWatch.
  [[nodiscard]] uint64_t writes_to(const at::Tensor& tensor) const {
    return calls_.writes_to(tensor);
  }
  void stands_for(const at::Tensor& tensor, uint64_t writes) { calls_.stands_for(tensor, writes); }
  /// Returns the nodes in the order in which they were met, which is the same in every pass of the
  /// same flow.
  [[nodiscard]] const std::vector<RecordedNode>& nodes() const { return nodes_; }

 private:
  /// Addresses are used again, sequence numbers are not.
  struct Known {
    uint64_t sequence = 0;
    int32_t index = kNone;
  };

  [[nodiscard]] RecordedEdge edge_to(torch::autograd::Node* node, uint32_t output);
  [[nodiscard]] ValueId leaf_of(const torch::autograd::Node& node) const;
  void read_inputs(torch::autograd::Node& node, size_t index);

  /// A storage and an offset: tensors without elements share the data pointer of none.
  using Place = std::pair<const c10::StorageImpl*, int64_t>;
  [[nodiscard]] static Place place_of(const at::Tensor& tensor);

  uint64_t first_sequence_;  ///< first sequence number of the pass
  CallWatch calls_;
  std::map<Place, ValueId> model_;
  std::unordered_map<const torch::autograd::Node*, Known> known_;
  std::vector<torch::autograd::Node*> unread_;  ///< appended to nodes_, inputs not yet read
  std::vector<RecordedNode> nodes_;
};

}  // namespace noisemark::memopt
