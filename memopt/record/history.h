#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/record/step_graph.h"

namespace torch::autograd {
struct Node;
}

namespace noisemark::memopt {

/// Returns whether a kernel is running, so that what is called now is no call of the program's.
[[nodiscard]] bool below_autograd();

/// Sees with what the operators of one forward pass are called, as far as autograd may not keep it:
/// the operator's name, its constants (the summand of an addition, the epsilon of a norm), which of
/// the model's buffers it reads, how often and by which calls without autograd the memory of its
/// inputs was written, and the shapes of what has no history. Each call becomes a few numbers: one
/// for the operator, two for each argument, of which one tells of its writes. They are kept by the
/// number of the autograd node that the call makes; operators that make no node say nothing, but
/// what they write. Reads no values and keeps nothing alive. It is for the thread that makes it.
/// Several may watch at a time, since passes may nest and one pass may be compared with several
/// recorded ones: each sees every call.
class CallWatch {
 public:
  /// `graph` knows the model's tensors.
  explicit CallWatch(const StepGraph& graph);
  ~CallWatch() { stop(); }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// Sees no more. Known calls stay known.
  void stop();
  /// Equal for equal calls, in this process; empty: the call that made the node was not seen.
  [[nodiscard]] const CallParts& call_of(uint64_t sequence) const;
  /// The call of the operator that saves a tensor now: the innermost that runs. It is empty where
  /// none does.
  [[nodiscard]] const CallParts& call_that_saves() const;
  /// The calls in this pass that wrote the memory without autograd, as far as they are over; empty:
  /// none did.
  [[nodiscard]] const CallParts& writes_to(const at::Tensor& tensor) const;
  [[nodiscard]] const CallParts& writes_to(const c10::StorageImpl* storage) const;
  /// The tensor's memory stands for memory of which writes_to() gave this.
  void stands_for(const at::Tensor& tensor, CallParts writes);

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  void begin(const at::RecordFunction& function);
  void end(const at::RecordFunction& function);
  void note(const at::RecordFunction& function);
  void note_write(const at::RecordFunction& function);
  [[nodiscard]] const std::vector<size_t>& written_arguments(const at::RecordFunction& function);
  void note_write_to(const at::Tensor& tensor, const CallParts& call, size_t place);
  void forget();
  [[nodiscard]] uint64_t digest_of(const c10::IValue& argument) const;
  [[nodiscard]] uint64_t digest_of(const at::Tensor& tensor) const;
  [[nodiscard]] uint64_t writes_digest_of(const c10::IValue& argument) const;
  [[nodiscard]] uint64_t identity_of(const c10::IValue& argument);
  [[nodiscard]] uint64_t identity_of(const at::Tensor& tensor);
  [[nodiscard]] uint64_t leaf_identity_of(const at::Tensor& leaf) const;
  [[nodiscard]] uint64_t history_of(torch::autograd::Node* node);
  [[nodiscard]] uint64_t number_of(uint64_t sequence);
  [[nodiscard]] std::optional<uint64_t> known_history_of(const torch::autograd::Node& node) const;
  /// The version that the model's memory had when the pass began; 0 for other memory.
  [[nodiscard]] int64_t version_before(const at::Tensor& tensor) const;

  static thread_local CallWatch* innermost_;

  CallWatch* outer_ = nullptr;
  bool watching_ = true;
  uint64_t first_sequence_;
  /// Versions as the pass began, by offset: parts of one memory may count apart.
  std::unordered_map<const c10::StorageImpl*, std::map<int64_t, int64_t>> model_;
  std::vector<CallParts> calls_;              ///< calls in the order of their nodes' sequence
                                              ///< numbers, which begin with first_sequence_
  std::vector<uint64_t> casts_before_ = {0};  ///< casts before each of these nodes, as far as
                                              ///< somebody asked
  /// An operator that runs, and the number of the node that it was about to make.
  struct Running {
    const at::RecordFunction* function;
    uint64_t sequence;
  };
  std::vector<Running> running_;
  /// They are found by the address of the operator's name, which outlives the pass.
  std::unordered_map<const void*, std::vector<size_t>> written_arguments_;
  /// Weak: the memory of the object is not used again, so its address stays its name.
  struct Written {
    CallParts calls;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  std::unordered_map<const c10::StorageImpl*, Written> written_;
  /// By node and its sequence number, since addresses are used again.
  std::map<std::pair<const torch::autograd::Node*, uint64_t>, uint64_t> histories_;
};

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
  [[nodiscard]] const CallParts& call_that_saves() const { return calls_.call_that_saves(); }
  [[nodiscard]] const CallParts& writes_to(const at::Tensor& tensor) const {
    return calls_.writes_to(tensor);
  }
  [[nodiscard]] const CallParts& writes_to(const c10::StorageImpl* storage) const {
    return calls_.writes_to(storage);
  }
  void stands_for(const at::Tensor& tensor, const CallParts& writes) {
    calls_.stands_for(tensor, writes);
  }
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
  std::vector<torch::autograd::Node*> unread_;  ///< the end of nodes_, whose inputs are not yet
                                                ///< read
  std::vector<RecordedNode> nodes_;
};

}  // namespace noisemark::memopt
