#include "memopt/record/history.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/function_schema.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "memopt/autograd/nodes.h"
#include "memopt/autograd/operator_callback.h"

namespace noisemark::memopt {
namespace {

/// The multiplier is 2^64 over the golden ratio, whose multiples are spread evenly.
uint64_t mixed(uint64_t digest, uint64_t next) {
  digest = (digest ^ next) * 0x9E3779B97F4A7C15;
  return digest ^ (digest >> 32);
}

uint64_t digest_of_text(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

uint64_t bits_of(double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

uint64_t digest_of_list(at::IntArrayRef list) {
  uint64_t digest = list.size();
  for (const int64_t item : list) digest = mixed(digest, static_cast<uint64_t>(item));
  return digest;
}

/// Operators that make no node of autograd: those that a kernel calls, and those without history.
bool makes_no_node() {
  return !c10::GradMode::is_enabled() || below_autograd();
}

}  // namespace

bool below_autograd() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

thread_local CallWatch* CallWatch::innermost_ = nullptr;

CallWatch::CallWatch(const StepGraph& graph) : first_sequence_(at::sequence_number::peek()) {
  for (const RecordedValue& value : graph.values) {
    const at::Tensor& tensor = value.model_tensor;
    if (value.origin != RecordedValue::Origin::kModel || !tensor.has_storage()) continue;
    model_.emplace(tensor.storage().unsafeGetStorageImpl(), tensor._version());
  }
  outer_ = std::exchange(innermost_, this);
  add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

void CallWatch::stop() {
  if (!std::exchange(watching_, false)) return;
  for (CallWatch** link = &innermost_; *link != nullptr; link = &(*link)->outer_) {
    if (*link != this) continue;
    *link = outer_;
    break;
  }
  if (innermost_ == nullptr) remove_operator_callback(&on_begin);
}

uint64_t CallWatch::call_of(uint64_t sequence) const {
  const uint64_t index = sequence - first_sequence_;
  return sequence >= first_sequence_ && index < calls_.size() ? calls_[index] : 0;
}

std::unique_ptr<at::ObserverContext> CallWatch::on_begin(const at::RecordFunction& function) {
  if (below_autograd()) return nullptr;
  for (CallWatch* watch = innermost_; watch != nullptr; watch = watch->outer_) {
    if (c10::GradMode::is_enabled()) {
      watch->note(function);
    } else {
      watch->note_write(function);
    }
  }
  return nullptr;
}

void CallWatch::on_end(const at::RecordFunction& /*function*/, at::ObserverContext* /*none*/) {
  if (makes_no_node()) return;
  for (CallWatch* watch = innermost_; watch != nullptr; watch = watch->outer_) watch->forget();
}

/// The node takes the number that is next while its operator runs. Operators that are made of
/// others begin earlier: the last one to begin has the word.
void CallWatch::note(const at::RecordFunction& function) {
  const uint64_t sequence = at::sequence_number::peek();
  if (sequence < first_sequence_) return;
  const uint64_t index = sequence - first_sequence_;
  if (index >= calls_.size()) calls_.resize(index + 1, 0);
  uint64_t digest = digest_of_text(function.name());
  for (const c10::IValue& argument : function.inputs()) {
    digest = mixed(digest, digest_of(argument));
  }
  calls_[index] = digest;
}

/// The schema tells what a call writes: `clamp_` its first argument, `clamp_out` its last,
/// `_foreach_mul_` a list. To ask for it copies it, so that is done once for each operator: its
/// name is a part of its schema, and lies where no other does.
const std::vector<size_t>& CallWatch::written_arguments(const at::RecordFunction& function) {
  static const std::vector<size_t> none;
  const auto known = written_arguments_.find(function.name());
  if (known != written_arguments_.end()) return known->second;
  const std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return none;
  std::vector<size_t> written;
  for (size_t i = 0; i < schema->arguments().size(); ++i) {
    const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written.push_back(i);
  }
  return written_arguments_.emplace(function.name(), std::move(written)).first->second;
}

/// Memory that was written holds what the constants of the call made of it, and autograd keeps
/// nothing of them.
void CallWatch::note_write(const at::RecordFunction& function) {
  const std::vector<size_t>& written = written_arguments(function);
  if (written.empty()) return;
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  uint64_t digest = digest_of_text(function.name());
  for (const c10::IValue& argument : inputs) digest = mixed(digest, digest_of(argument));
  const auto note = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    digest = mixed(digest, 1);  // each tensor of a list is written with its own constant
    const uint64_t before = writes_to(tensor);
    stands_for(tensor, before == 0 ? digest : mixed(before, digest));
  };
  for (const size_t i : written) {
    if (i >= inputs.size()) continue;
    if (inputs[i].isTensor()) note(inputs[i].toTensor());
    if (!inputs[i].isTensorList()) continue;
    for (const at::Tensor& tensor : inputs[i].toTensorVector()) note(tensor);
  }
}

void CallWatch::stands_for(const at::Tensor& tensor, uint64_t writes) {
  if (writes == 0 || !tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto written = written_.find(storage);
  if (written != written_.end()) {
    written->second.digest = writes;
    return;
  }
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  const auto strong = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  written_.emplace(storage, Written{writes, Weak(strong)});
}

uint64_t CallWatch::writes_to(const at::Tensor& tensor) const {
  if (written_.empty() || !tensor.has_storage()) return 0;
  const auto written = written_.find(tensor.storage().unsafeGetStorageImpl());
  return written == written_.end() ? 0 : written->second.digest;
}

/// An operator that ends while its number is still to be taken made no node. Whoever takes it then,
/// such as a function of the program's own, was not called with that.
void CallWatch::forget() {
  const uint64_t index = at::sequence_number::peek() - first_sequence_;
  if (index < calls_.size()) calls_[index] = 0;
}

int64_t CallWatch::version_before(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return 0;
  const auto model = model_.find(tensor.storage().unsafeGetStorageImpl());
  return model == model_.end() ? 0 : model->second;
}

uint64_t CallWatch::digest_of(const c10::IValue& argument) const {
  if (argument.isTensor()) return digest_of(argument.toTensor());
  if (argument.isDouble()) return bits_of(argument.toDouble());
  if (argument.isInt()) return static_cast<uint64_t>(argument.toInt());
  if (argument.isBool()) return argument.toBool() ? 1 : 2;
  if (argument.isString()) return digest_of_text(argument.toStringRef());
  if (argument.isComplexDouble()) {
    const c10::complex<double> number = argument.toComplexDouble();
    return mixed(bits_of(number.real()), bits_of(number.imag()));
  }
  if (!argument.isList()) return 3;  // nothing, a device, or a generator, whose state moves on
  uint64_t digest = 4;
  for (const c10::IValue& item : argument.toListRef()) digest = mixed(digest, digest_of(item));
  return digest;
}

uint64_t CallWatch::digest_of(const at::Tensor& tensor) const {
  if (!tensor.defined()) return 5;
  const uint64_t writes = writes_to(tensor);
  if (writes != 0) return mixed(writes, static_cast<uint64_t>(tensor.scalar_type()));
  if (tensor.requires_grad()) {
    // Autograd knows who made it. Parameters and their views count the steps.
    if (tensor.is_leaf()) return 6;
    return mixed(7, static_cast<uint64_t>(tensor._version() - version_before(tensor)));
  }
  uint64_t digest = mixed(8, static_cast<uint64_t>(tensor.scalar_type()));
  digest = mixed(digest, static_cast<uint64_t>(form_of(tensor)));
  // The sizes of a nested tensor are those of its parts, and to ask for them is an error.
  if (!tensor.has_storage() || tensor.is_nested()) return digest;
  digest = mixed(digest, digest_of_list(tensor.sizes()));
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (model_.count(storage) == 0) return digest;
  digest = mixed(digest, reinterpret_cast<uintptr_t>(storage));
  digest = mixed(digest, static_cast<uint64_t>(tensor.storage_offset()));
  return mixed(digest, digest_of_list(tensor.strides()));
}

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
  // Nodes that are found on the way are appended, and read in their turn.
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
