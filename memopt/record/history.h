#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/record/call_watch.h"
#include "memopt/record/step_graph.h"

namespace torch::autograd {
struct Node;
}

namespace noisemark::memopt {

/// Reads how tensors of one forward pass were made off autograd's nodes: their types, how they are
/// wired, the parameters that they end in, the numbers that they keep (node_numbers.h), and the
/// calls that made them (call_watch.h). It goes no further back than the pass, and visits each node
/// once, so reading all saved tensors of a pass costs no more than its nodes. Keeps nothing alive.
/// For the thread that runs the pass.
class HistoryReader {
 public:
  /// The pass begins now. `graph` knows the model's tensors.
  explicit HistoryReader(const StepGraph& graph);
  /// It is over: what is still read was made before.
  void end() { calls_.stop(); }

  /// Where the tensor came from. Nodes that were not met before are appended to nodes().
  [[nodiscard]] RecordedEdge read(const at::Tensor& tensor);
  /// In the order in which they were met, which is the same in every pass of the same flow.
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

  uint64_t first_sequence_;  ///< of the pass
  CallWatch calls_;
  std::map<Place, ValueId> model_;
  std::unordered_map<const torch::autograd::Node*, Known> known_;
  std::vector<torch::autograd::Node*> unread_;  ///< appended to nodes_, inputs not yet read
  std::vector<RecordedNode> nodes_;
};

}  // namespace noisemark::memopt
