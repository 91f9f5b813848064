#include "memopt/record/history.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <memory>
#include <typeinfo>
#include <utility>

#include "memopt/record/node_numbers.h"

namespace noisemark::memopt {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

bool is_leaf(const Node& node) {
  return typeid(node) == typeid(AccumulateGrad);
}

/// Autocast makes the cast of a parameter once and keeps it, perhaps for several passes: whoever
/// reads it reads the parameter.
const Node& behind_cast(const Node& node) {
  if (!is_cast(node) || node.num_outputs() != 1) return node;
  const Node* source = node.next_edge(0).function.get();
  return source != nullptr && is_leaf(*source) ? *source : node;
}

}  // namespace

HistoryReader::HistoryReader(const StepGraph& graph)
    : first_sequence_(at::sequence_number::peek()), calls_(graph) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const RecordedValue& value = graph.values[v];
    const at::Tensor& tensor = value.model_tensor;
    if (value.origin != RecordedValue::Origin::kModel || !tensor.has_storage()) continue;
    model_.emplace(place_of(tensor), static_cast<ValueId>(v));
  }
}

HistoryReader::Place HistoryReader::place_of(const at::Tensor& tensor) {
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset()};
}

RecordedEdge HistoryReader::read(const at::Tensor& tensor) {
  const std::shared_ptr<Node> node = tensor.grad_fn();
  const size_t before = nodes_.size();
  const RecordedEdge edge = edge_to(node.get(), static_cast<uint32_t>(tensor.output_nr()));
  // What is found on the way is appended, and read in its turn.
  for (size_t i = 0; i < unread_.size(); ++i) read_inputs(*unread_[i], before + i);
  unread_.clear();
  return edge;
}

RecordedEdge HistoryReader::edge_to(Node* node, uint32_t output) {
  if (node == nullptr) return {};
  const Node& source = behind_cast(*node);
  if (is_leaf(source)) return {RecordedEdge::kLeaf, output, leaf_of(source)};
  const uint64_t sequence = node->sequence_nr();
  if (sequence < first_sequence_) return {RecordedEdge::kEarlier, output, kNone};
  const auto known = known_.find(node);
  if (known != known_.end() && known->second.sequence == sequence) {
    return {known->second.index, output, kNone};
  }
  const auto index = static_cast<int32_t>(nodes_.size());
  known_[node] = {sequence, index};
  nodes_.push_back({typeid(*node), {}, numbers_of(*node), false, calls_.call_of(sequence), false});
  unread_.push_back(node);
  return {index, output, kNone};
}

ValueId HistoryReader::leaf_of(const Node& node) const {
  const at::Tensor& variable = static_cast<const AccumulateGrad&>(node).variable;
  if (!variable.has_storage()) return kNone;
  const auto known = model_.find(place_of(variable));
  return known == model_.end() ? kNone : known->second;
}

void HistoryReader::read_inputs(Node& node, size_t index) {
  std::vector<RecordedEdge> inputs;
  inputs.reserve(node.num_outputs());
  for (const torch::autograd::Edge& edge : node.next_edges()) {
    inputs.push_back(edge_to(edge.function.get(), edge.input_nr));
  }
  nodes_[index].inputs = std::move(inputs);
}

}  // namespace noisemark::memopt
