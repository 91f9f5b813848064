#include "memopt/record/history.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/function_schema.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "memopt/accounting/operator_callback.h"
#include "memopt/autograd/nodes.h"

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

uint64_t digest_of_parts(const CallParts& parts) {
  uint64_t digest = parts.size();
  for (const uint64_t part : parts) digest = mixed(digest, part);
  return digest;
}

/// Returns a part that is not taken for one that varies.
uint64_t part_of(uint64_t digest) {
  return digest == kVaries ? 1 : digest;
}

/// The part of its memory that a tensor is.
uint64_t place_of(const at::Tensor& tensor) {
  if (form_of(tensor) == MemoryForm::kOther) return static_cast<uint64_t>(tensor.layout());
  uint64_t digest = mixed(digest_of_list(tensor.sizes()), digest_of_list(tensor.strides()));
  digest = mixed(digest, static_cast<uint64_t>(tensor.storage_offset()));
  return mixed(digest, static_cast<uint64_t>(tensor.scalar_type()));
}

/// The parts of the writes to one memory that are told apart. The last stands for all that follow.
constexpr size_t kMostParts = 256;

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

/// An operator that writes a part of a memory has its node within that of the memory.
const Node& called_as(const Node& node) {
  if (typeid(node) != typeid(torch::autograd::CopySlices)) return node;
  const Node* written = static_cast<const torch::autograd::CopySlices&>(node).fn.get();
  return written == nullptr ? node : *written;
}

const CallParts kNotSeen;

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
    model_[tensor.storage().unsafeGetStorageImpl()].emplace(tensor.storage_offset(),
                                                            tensor._version());
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

const CallParts& CallWatch::call_of(uint64_t sequence) const {
  const uint64_t index = sequence - first_sequence_;
  return sequence >= first_sequence_ && index < calls_.size() ? calls_[index] : kNotSeen;
}

const CallParts& CallWatch::call_that_saves() const {
  return running_.empty() ? kNotSeen : call_of(running_.back().sequence);
}

std::unique_ptr<at::ObserverContext> CallWatch::on_begin(const at::RecordFunction& function) {
  if (below_autograd()) return nullptr;
  for (CallWatch* watch = innermost_; watch != nullptr; watch = watch->outer_) {
    watch->begin(function);
  }
  return nullptr;
}

void CallWatch::on_end(const at::RecordFunction& function, at::ObserverContext* /*none*/) {
  for (CallWatch* watch = innermost_; watch != nullptr; watch = watch->outer_) watch->end(function);
}

void CallWatch::begin(const at::RecordFunction& function) {
  running_.push_back({&function, at::sequence_number::peek()});
  if (c10::GradMode::is_enabled()) {
    note(function);
  } else {
    note_write(function);
  }
}

/// A watch may have begun while the operator ran.
void CallWatch::end(const at::RecordFunction& function) {
  if (!running_.empty() && running_.back().function == &function) running_.pop_back();
  if (!makes_no_node()) forget();
}

/// The node takes the number that is next while its operator runs. Operators that are made of
/// others begin earlier: the last one to begin has the word.
void CallWatch::note(const at::RecordFunction& function) {
  const uint64_t sequence = at::sequence_number::peek();
  if (sequence < first_sequence_) return;
  const uint64_t index = sequence - first_sequence_;
  if (index >= calls_.size()) calls_.resize(index + 1);
  CallParts& call = calls_[index];
  call.reserve(1 + 2 * function.inputs().size());
  call.assign(1, part_of(digest_of_text(function.name())));
  for (const c10::IValue& argument : function.inputs()) {
    call.push_back(part_of(digest_of(argument)));
    call.push_back(part_of(writes_digest_of(argument)));
  }
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

/// Memory that was written holds what the call made of it from its constants and from what it read,
/// and autograd keeps nothing of them.
void CallWatch::note_write(const at::RecordFunction& function) {
  const std::vector<size_t>& written = written_arguments(function);
  if (written.empty()) return;
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  CallParts call{part_of(digest_of_text(function.name()))};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_written = std::find(written.begin(), written.end(), i) != written.end();
    call.push_back(is_written ? 1 : part_of(identity_of(inputs[i])));
    call.push_back(part_of(is_written ? 1 : writes_digest_of(inputs[i])));
  }
  for (const size_t i : written) {
    if (i >= inputs.size()) continue;
    if (inputs[i].isTensor()) note_write_to(inputs[i].toTensor(), call, 0);
    if (!inputs[i].isTensorList()) continue;
    const std::vector<at::Tensor> tensors = inputs[i].toTensorVector();
    for (size_t place = 0; place < tensors.size(); ++place) {
      note_write_to(tensors[place], call, place);
    }
  }
}

/// `place`: each tensor of a list is written with its own constant.
void CallWatch::note_write_to(const at::Tensor& tensor, const CallParts& call, size_t place) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  CallParts writes = writes_to(tensor);
  const uint64_t where = part_of(mixed(place_of(tensor), place));
  if (writes.size() + call.size() < kMostParts) {
    writes.insert(writes.end(), call.begin(), call.end());
    writes.push_back(where);
  } else {
    const uint64_t digest = mixed(digest_of_parts(call), where);
    writes.resize(kMostParts, 1);
    writes.back() = part_of(mixed(writes.back(), digest));
  }
  stands_for(tensor, std::move(writes));
}

void CallWatch::stands_for(const at::Tensor& tensor, CallParts writes) {
  if (writes.empty() || !tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto written = written_.find(storage);
  if (written != written_.end()) {
    written->second.calls = std::move(writes);
    return;
  }
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  const auto strong = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  written_.emplace(storage, Written{std::move(writes), Weak(strong)});
}

const CallParts& CallWatch::writes_to(const c10::StorageImpl* storage) const {
  static const CallParts none;
  const auto written = written_.find(storage);
  return written == written_.end() ? none : written->second.calls;
}

const CallParts& CallWatch::writes_to(const at::Tensor& tensor) const {
  const bool known = !written_.empty() && tensor.has_storage();
  return writes_to(known ? tensor.storage().unsafeGetStorageImpl() : nullptr);
}

uint64_t CallWatch::writes_digest_of(const c10::IValue& argument) const {
  if (written_.empty()) return 1;
  if (argument.isTensor()) {
    const at::Tensor& tensor = argument.toTensor();
    return tensor.defined() ? digest_of_parts(writes_to(tensor)) : 1;
  }
  if (!argument.isList()) return 1;
  uint64_t digest = 1;
  for (const c10::IValue& item : argument.toListRef()) {
    digest = mixed(digest, writes_digest_of(item));
  }
  return digest;
}

/// An operator that ends while its number is still to be taken made no node. Whoever takes it then,
/// such as a function of the program's own, was not called with that.
void CallWatch::forget() {
  const uint64_t index = at::sequence_number::peek() - first_sequence_;
  if (index < calls_.size()) calls_[index].clear();
}

int64_t CallWatch::version_before(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return 0;
  const auto model = model_.find(tensor.storage().unsafeGetStorageImpl());
  if (model == model_.end()) return 0;
  const at::TensorBase& counted = tensor.is_view() ? tensor._base() : tensor;
  const auto part = model->second.find(counted.storage_offset());
  return part == model->second.end() ? 0 : part->second;
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

uint64_t CallWatch::identity_of(const c10::IValue& argument) {
  if (argument.isTensor()) return identity_of(argument.toTensor());
  if (!argument.isList()) return digest_of(argument);
  uint64_t digest = 4;
  for (const c10::IValue& item : argument.toListRef()) digest = mixed(digest, identity_of(item));
  return digest;
}

/// Tells who is read by a call that autograd keeps nothing of. To ask a view for its history may
/// make a node.
uint64_t CallWatch::identity_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return digest_of(tensor);
  at::Tensor root = tensor;
  if (tensor.is_view()) root = at::Tensor(tensor._base());
  if (!root.requires_grad()) return digest_of(tensor);
  const uint64_t place = place_of(tensor);
  if (root.is_leaf()) return mixed(place, leaf_identity_of(root));
  return mixed(mixed(place, root.output_nr()), history_of(root.grad_fn().get()));
}

uint64_t CallWatch::leaf_identity_of(const at::Tensor& leaf) const {
  if (!leaf.defined() || !leaf.has_storage()) return 9;
  const c10::StorageImpl* storage = leaf.storage().unsafeGetStorageImpl();
  if (model_.count(storage) == 0) return 9;
  return mixed(reinterpret_cast<uintptr_t>(storage), static_cast<uint64_t>(leaf.storage_offset()));
}

/// Returns nothing for a node of this pass that was not met before.
std::optional<uint64_t> CallWatch::known_history_of(const Node& node) const {
  const Node& source = behind_cast(node);
  if (is_leaf(source)) return leaf_identity_of(static_cast<const AccumulateGrad&>(source).variable);
  if (node.sequence_nr() < first_sequence_) return typeid(node).hash_code();
  const auto known = histories_.find({&node, node.sequence_nr()});
  if (known == histories_.end()) return std::nullopt;
  return known->second;
}

/// The node's number in the pass. Casts do not count, since autocast may have made them in an
/// earlier one.
uint64_t CallWatch::number_of(uint64_t sequence) {
  static const uint64_t cast = part_of(digest_of_text("aten::_to_copy"));
  const uint64_t index = sequence - first_sequence_;
  const size_t seen = std::min<size_t>(index, calls_.size());
  while (casts_before_.size() <= seen) {
    const CallParts& call = calls_[casts_before_.size() - 1];
    const bool is_cast = !call.empty() && call.front() == cast;
    casts_before_.push_back(casts_before_.back() + (is_cast ? 1 : 0));
  }
  return index - casts_before_[seen];
}

/// All operators of the pass that lead to the node, and which of them in the pass it is: two may be
/// called alike. Without recursion, since histories may be long.
uint64_t CallWatch::history_of(Node* node) {
  std::vector<Node*> open{node};
  while (!open.empty()) {
    Node* next = open.back();
    if (known_history_of(*next)) {
      open.pop_back();
      continue;
    }
    const uint64_t sequence = next->sequence_nr();
    const Node& called = called_as(*next);
    uint64_t digest = mixed(typeid(called).hash_code(), number_of(sequence));
    digest = mixed(digest, digest_of_parts(call_of(called.sequence_nr())));
    for (const double number : numbers_of(called)) digest = mixed(digest, bits_of(number));
    const size_t known = open.size();
    for (const torch::autograd::Edge& edge : next->next_edges()) {
      if (edge.function == nullptr) continue;
      const std::optional<uint64_t> input = known_history_of(*edge.function);
      if (!input) open.push_back(edge.function.get());
      digest = mixed(mixed(digest, edge.input_nr), input.value_or(0));
    }
    if (open.size() > known) continue;
    histories_[{next, sequence}] = digest;
    open.pop_back();
  }
  return *known_history_of(*node);
}

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
  const Node& called = called_as(*node);
  nodes_.push_back(
      {typeid(called), {}, numbers_of(called), {}, calls_.call_of(called.sequence_nr())});
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
