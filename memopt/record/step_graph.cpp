#include "memopt/record/step_graph.h"

#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>
#include <string>

namespace noisemark::memopt {
namespace {

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.tagKind() != b.tagKind()) return false;
  // Generators and other objects compare by identity, doubles by value: NaN would differ from
  // itself, which only costs a replay.
  return a.is(b) || (a.isDouble() && a.toDouble() == b.toDouble()) ||
         (a.isDoubleList() && a.toDoubleVector() == b.toDoubleVector()) ||
         (a.isIntList() && a.toIntVector() == b.toIntVector()) ||
         (a.isBoolList() && a.toBoolList().vec() == b.toBoolList().vec()) ||
         (a.isString() && a.toStringRef() == b.toStringRef()) ||
         (a.isScalar() && a.toScalar().equal(b.toScalar().toComplexDouble()));
}

bool same_flow(const RecordedOperator& a, const RecordedOperator& b) {
  if (a.name != b.name || a.results != b.results || a.overwrites != b.overwrites ||
      a.arguments.size() != b.arguments.size()) {
    return false;
  }
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    if (a.arguments[i].kind != b.arguments[i].kind ||
        a.arguments[i].values != b.arguments[i].values) {
      return false;
    }
  }
  return true;
}

bool same_constants(const RecordedOperator& a, const RecordedOperator& b) {
  return std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(),
                    [](const Argument& x, const Argument& y) {
                      return x.kind != Argument::Kind::kConstant ||
                             same_constant(x.constant, y.constant);
                    });
}

bool same_slot(const RecordedSlot& a, const RecordedSlot& b) {
  return a.value == b.value && a.form == b.form && a.saved_by == b.saved_by && a.node == b.node &&
         a.came_from == b.came_from && a.nodes == b.nodes && a.writes.size() == b.writes.size() &&
         a.call.size() == b.call.size();
}

bool same_wiring(const RecordedNode& a, const RecordedNode& b) {
  return a.type == b.type && a.inputs == b.inputs && a.numbers.size() == b.numbers.size() &&
         a.call.size() == b.call.size();
}

void mark_what_varies(CallParts& first, const CallParts& second) {
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] != second[i]) first[i] = kVaries;
  }
}

void mark_what_varies(RecordedNode& first, const RecordedNode& second) {
  mark_what_varies(first.call, second.call);
  for (size_t i = 0; i < first.numbers.size(); ++i) {
    if (first.numbers[i] == second.numbers[i]) continue;
    first.numbers_vary.resize(first.numbers.size(), false);
    first.numbers_vary[i] = true;
  }
}

/// The rules for rounding read the constants of one pass, such as an exponent, and nobody compares
/// those that vary, or calls that were not seen.
void leave_exact_what_unknown_calls_save(StepGraph& graph) {
  for (RecordedSlot& slot : graph.slots) {
    const bool varies = std::find(slot.call.begin(), slot.call.end(), kVaries) != slot.call.end();
    if (!varies && !slot.call.empty()) continue;
    slot.exact = true;
    graph.storages[static_cast<size_t>(graph.value(slot.value).storage)].exact = true;
  }
}

bool is_written_in_place(const StepGraph& graph, const RecordedOperator& op,
                         const std::vector<bool>& storages) {
  if (op.overwrites == kNone || op.results.front() == kNone) return false;
  return storages[static_cast<size_t>(graph.value(op.results.front()).storage)];
}

/// A reader has one digest of all writes, so that nobody could tell which of them varies.
void keep_what_varying_writes_make(StepGraph& first, const StepGraph& second) {
  std::vector<bool> vary(first.storages.size(), false);
  for (size_t s = 0; s < first.storages.size(); ++s) {
    vary[s] = first.storages[s].writes != second.storages[s].writes;
  }
  for (RecordedOperator& op : first.operators) {
    if (is_written_in_place(first, op, vary)) op.repeatable = false;
  }
}

bool same_value(const RecordedValue& a, const RecordedValue& b) {
  return a.origin == b.origin && a.producer == b.producer && a.storage == b.storage &&
         a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype && a.form == b.form;
}

bool is_cast(const std::string& name) {
  return name == "aten::_to_copy" || name == "aten::to";
}

bool casts_model(const StepGraph& graph, const RecordedValue& value) {
  const RecordedOperator& producer = graph.operators[static_cast<size_t>(value.producer)];
  if (!is_cast(producer.name) || producer.arguments.empty()) return false;
  const std::vector<ValueId>& sources = producer.arguments.front().values;
  return !sources.empty() && sources.front() != kNone &&
         graph.values[static_cast<size_t>(sources.front())].origin == RecordedValue::Origin::kModel;
}

/// The only tensor an operator reads; kNone when there are several, or one of the model's.
ValueId only_input(const StepGraph& graph, const RecordedOperator& op) {
  ValueId only = kNone;
  for (const Argument& argument : op.arguments) {
    for (const ValueId value : argument.values) {
      if (value == kNone || value == only) continue;
      if (only != kNone) return kNone;
      only = value;
    }
  }
  if (only == kNone) return kNone;
  const RecordedValue& value = graph.values[static_cast<size_t>(only)];
  return value.origin == RecordedValue::Origin::kComputed ? only : kNone;
}

/// The segment that all readers of all results share; kNone when there is none.
SegmentId segment_of_readers(const StepGraph& graph, const RecordedOperator& op) {
  SegmentId shared = kNone;
  for (const ValueId result : op.results) {
    if (result == kNone) continue;
    for (const OperatorId reader : graph.values[static_cast<size_t>(result)].readers) {
      const SegmentId segment = graph.operators[static_cast<size_t>(reader)].segment;
      if (segment == kNone || (shared != kNone && segment != shared)) return kNone;
      shared = segment;
    }
  }
  return shared;
}

bool grows(const StepGraph& graph, const RecordedOperator& op, ValueId input) {
  int64_t result_bytes = 0;
  for (const ValueId result : op.results) {
    if (result != kNone) result_bytes += graph.values[static_cast<size_t>(result)].bytes();
  }
  return result_bytes >= graph.values[static_cast<size_t>(input)].bytes();
}

/// This many times smaller than what it was computed from.
constexpr int64_t kSmallResult = 16;

/// The model's own tensors are left out; 0 where there is no other.
int64_t largest_input_bytes(const StepGraph& graph, const RecordedOperator& op) {
  int64_t largest = 0;
  for (const Argument& argument : op.arguments) {
    for (const ValueId id : argument.values) {
      if (id == kNone) continue;
      const RecordedValue& input = graph.values[static_cast<size_t>(id)];
      if (input.origin != RecordedValue::Origin::kModel) largest = std::max(largest, input.bytes());
    }
  }
  return largest;
}

/// Tensors of these keys are more than their memory: subclasses, and what function transforms wrap.
constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper,
                                         c10::DispatchKey::Batched, c10::DispatchKey::ZeroTensor});

}  // namespace

MemoryForm form_of(const at::Tensor& tensor) {
  const bool other = tensor.layout() != at::kStrided || !tensor.has_storage() ||
                     tensor.is_quantized() || tensor.is_nested() || tensor.has_names() ||
                     tensor.key_set().has_any(kWrappers);
  if (other) return MemoryForm::kOther;
  if (tensor.is_conj()) {
    return tensor.is_neg() ? MemoryForm::kNegativeConjugate : MemoryForm::kConjugate;
  }
  return tensor.is_neg() ? MemoryForm::kNegative : MemoryForm::kPlain;
}

namespace {

/// Holds a dimension with the range of its index in a numbering of memory by strides.
struct Digit {
  int64_t stride = 0;
  int64_t first = 0;
  int64_t size = 0;
};

/// Returns the tensor's place in its memory, by digits from the largest stride down; empty where an
/// element has no digits of its own, as one that is expanded.
std::vector<Digit> digits_of(const ElementsRead& read) {
  std::vector<Digit> digits;
  for (size_t d = 0; d < read.sizes.size(); ++d) {
    if (read.sizes[d] != 1) digits.push_back({read.strides[d], 0, read.sizes[d]});
  }
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  int64_t left = read.offset;
  for (Digit& digit : digits) {
    if (digit.stride <= 0) return {};
    digit.first = left / digit.stride;
    left %= digit.stride;
  }
  int64_t below = left;  // the most that lies beneath a digit
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (below >= digit->stride) return {};
    below += (digit->first + digit->size - 1) * digit->stride;
  }
  return digits;
}

/// Returns the last element of a tensor without negative strides.
int64_t last_element(const ElementsRead& read) {
  int64_t last = read.offset;
  for (size_t d = 0; d < read.sizes.size(); ++d) last += (read.sizes[d] - 1) * read.strides[d];
  return last;
}

}  // namespace

bool may_overlap(const ElementsRead& a, const ElementsRead& b) {
  const bool known = a.strides.size() == a.sizes.size() && b.strides.size() == b.sizes.size();
  if (!known || a.dtype != b.dtype) return true;
  if (c10::multiply_integers(a.sizes) == 0 || c10::multiply_integers(b.sizes) == 0) return false;
  if (last_element(a) < b.offset || last_element(b) < a.offset) return false;
  const std::vector<Digit> of_a = digits_of(a);
  const std::vector<Digit> of_b = digits_of(b);
  const bool alike = !of_a.empty() && std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                                                 [](const Digit& x, const Digit& y) {
                                                   return x.stride == y.stride;
                                                 });
  if (!alike) return true;
  for (size_t d = 0; d < of_a.size(); ++d) {
    const bool apart = of_a[d].first + of_a[d].size <= of_b[d].first ||
                       of_b[d].first + of_b[d].size <= of_a[d].first;
    if (apart) return false;
  }
  return true;
}

int64_t RecordedValue::bytes() const {
  return static_cast<int64_t>(c10::elementSize(dtype)) * c10::multiply_integers(sizes);
}

bool RecordedValue::fills_its_memory() const {
  if (form == MemoryForm::kOther) return false;  // it has no strides
  // The distance between the first and the last element when there is neither gap nor overlap.
  int64_t extent = 1;
  for (size_t d = 0; d < sizes.size(); ++d) extent += (sizes[d] - 1) * strides[d];
  return extent == c10::multiply_integers(sizes);
}

const RecordedOperator* StepGraph::producer_of(ValueId value) const {
  const OperatorId producer = values[static_cast<size_t>(value)].producer;
  return producer == kNone ? nullptr : &operators[static_cast<size_t>(producer)];
}

bool StepGraph::is_saved_by(ValueId value, OperatorId op) const {
  if (value == kNone) return false;
  const std::vector<SlotId>& saved = values[static_cast<size_t>(value)].slots;
  return !saved.empty() && slots[static_cast<size_t>(saved.front())].saved_by == op;
}

std::optional<c10::Device> StepGraph::model_device() const {
  const auto tensor = std::find_if(values.begin(), values.end(),
                                   [](const auto& value) { return value.model_tensor.defined(); });
  if (tensor == values.end()) return std::nullopt;
  return tensor->model_tensor.device();
}

bool StepGraph::holds_saved(const RecordedStorage& storage) const {
  return !storage.external && std::any_of(storage.values.begin(), storage.values.end(),
                                          [this](ValueId id) { return !value(id).slots.empty(); });
}

int64_t StepGraph::saved_bytes() const {
  int64_t sum = 0;
  for (const RecordedStorage& storage : storages) {
    if (holds_saved(storage)) sum += storage.bytes;
  }
  return sum;
}

std::string StepGraph::words_for(ValueId value) const {
  const RecordedValue& recorded = values[static_cast<size_t>(value)];
  if (recorded.origin == RecordedValue::Origin::kModel) {
    return "parameter or buffer \"" + recorded.model_name + "\"";
  }
  const RecordedOperator* producer = producer_of(value);
  return producer == nullptr ? "a tensor from outside the model"
                             : "the result of " + producer->name;
}

bool are_the_recorded(const CallParts& parts, const CallParts& recorded) {
  return std::equal(parts.begin(), parts.end(), recorded.begin(), recorded.end(),
                    [](uint64_t x, uint64_t y) { return y == kVaries || x == y; });
}

std::string StepGraph::saver_of(SlotId slot) const {
  const OperatorId saver = slots[static_cast<size_t>(slot)].saved_by;
  return saver == kNone ? "an operator" : operators[static_cast<size_t>(saver)].name;
}

void mark_storages(StepGraph& graph) {
  for (RecordedStorage& storage : graph.storages) {
    const RecordedValue& first = graph.values[static_cast<size_t>(storage.values.front())];
    storage.external = first.origin != RecordedValue::Origin::kComputed;
    const bool plain =
        std::all_of(storage.values.begin(), storage.values.end(), [&](ValueId value) {
          return graph.values[static_cast<size_t>(value)].form == MemoryForm::kPlain;
        });
    storage.kept_as_is = !plain || (!storage.external && casts_model(graph, first));
  }
}

void mark_small_results(StepGraph& graph) {
  for (RecordedValue& value : graph.values) {
    if (value.producer == kNone) continue;
    const RecordedOperator& producer = graph.operators[static_cast<size_t>(value.producer)];
    value.small_result = value.bytes() * kSmallResult <= largest_input_bytes(graph, producer);
  }
}

void pass_on_to_readers(StepGraph& graph) {
  // The loop goes from the last to the first, so that a chain of such operators moves as one.
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const ValueId input = only_input(graph, *op);
    if (input == kNone || op->in_scope || op->overwrites != kNone) continue;
    if (!grows(graph, *op, input)) continue;
    const SegmentId segment = segment_of_readers(graph, *op);
    if (segment != kNone) op->segment = segment;
  }
}

void take_measurements(StepGraph& graph, const StepGraph& warm) {
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    // Other work on the machine only adds to what an operator takes.
    int64_t& cost_ns = graph.operators[i].cost_ns;
    cost_ns = std::min(cost_ns, warm.operators[i].cost_ns);
    graph.operators[i].scratch_bytes = warm.operators[i].scratch_bytes;
  }
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    graph.slots[s].at_save = warm.slots[s].at_save;
    graph.slots[s].at_unpack = warm.slots[s].at_unpack;
  }
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    graph.storages[s].gone_at_operator = warm.storages[s].gone_at_operator;
    graph.storages[s].gone_at_unpack = warm.storages[s].gone_at_unpack;
  }
  graph.begin_gradient_bytes = warm.begin_gradient_bytes;
  graph.at_end = warm.at_end;
}

bool reconcile(StepGraph& first, const StepGraph& second, int& unrepeatable) {
  unrepeatable = 0;
  if (!std::equal(first.operators.begin(), first.operators.end(), second.operators.begin(),
                  second.operators.end(), same_flow) ||
      !std::equal(first.slots.begin(), first.slots.end(), second.slots.begin(), second.slots.end(),
                  same_slot) ||
      !std::equal(first.values.begin(), first.values.end(), second.values.begin(),
                  second.values.end(), same_value) ||
      !std::equal(first.nodes.begin(), first.nodes.end(), second.nodes.begin(), second.nodes.end(),
                  same_wiring)) {
    return false;
  }
  for (size_t i = 0; i < first.nodes.size(); ++i) {
    mark_what_varies(first.nodes[i], second.nodes[i]);
  }
  for (size_t s = 0; s < first.slots.size(); ++s) {
    if (first.slots[s].version != second.slots[s].version) first.slots[s].version = kNone;
    mark_what_varies(first.slots[s].writes, second.slots[s].writes);
    mark_what_varies(first.slots[s].call, second.slots[s].call);
  }
  leave_exact_what_unknown_calls_save(first);
  keep_what_varying_writes_make(first, second);
  for (size_t i = 0; i < first.operators.size(); ++i) {
    if (same_constants(first.operators[i], second.operators[i])) continue;
    first.operators[i].repeatable = false;
    ++unrepeatable;
  }
  return true;
}

namespace {

/// "a.b.c" -> "a.b"; a name without a dot has no parent: "".
std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

bool is_weight_matrix(const std::string& name, const at::Tensor& tensor) {
  constexpr std::string_view kSuffix = "weight";
  return tensor.dim() >= 2 && name.size() >= kSuffix.size() &&
         name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

}  // namespace

std::unordered_map<std::string, std::string> segments_of(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  std::unordered_map<std::string, int> matrices_below;
  for (const auto& [name, tensor] : parameters) {
    if (!is_weight_matrix(name, tensor)) continue;
    for (std::string module = parent_of(name); !module.empty(); module = parent_of(module)) {
      ++matrices_below[module];
    }
  }
  // Modules that hold a block somewhere below are too large to be one.
  std::set<std::string> too_large;
  for (const auto& [module, count] : matrices_below) {
    if (count < 2) continue;
    for (std::string above = parent_of(module); !above.empty(); above = parent_of(above)) {
      too_large.insert(above);
    }
  }
  std::unordered_map<std::string, std::string> segment;
  for (const auto& [name, tensor] : parameters) {
    std::string found = parent_of(name);
    for (std::string module = found; !module.empty(); module = parent_of(module)) {
      const auto count = matrices_below.find(module);
      if (count == matrices_below.end() || count->second < 2) continue;
      if (too_large.count(module) == 0) found = module;
      break;
    }
    segment.emplace(name, found);
  }
  return segment;
}

}  // namespace noisemark::memopt
