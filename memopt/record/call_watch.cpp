#include "memopt/record/call_watch.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

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
  return !c10::GradMode::is_enabled() ||
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

}  // namespace

thread_local CallWatch* CallWatch::innermost_ = nullptr;

CallWatch::CallWatch(const StepGraph& graph) : first_sequence_(at::sequence_number::peek()) {
  for (const RecordedValue& value : graph.values) {
    const at::Tensor& tensor = value.model_tensor;
    if (value.origin != RecordedValue::Origin::kModel || !tensor.has_storage()) continue;
    model_.insert(tensor.storage().unsafeGetStorageImpl());
  }
  outer_ = std::exchange(innermost_, this);
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

void CallWatch::stop() {
  if (!std::exchange(watching_, false)) return;
  at::removeCallback(handle_);
  for (CallWatch** link = &innermost_; *link != nullptr; link = &(*link)->outer_) {
    if (*link != this) continue;
    *link = outer_;
    break;
  }
}

uint64_t CallWatch::call_of(uint64_t sequence) const {
  const uint64_t index = sequence - first_sequence_;
  return sequence >= first_sequence_ && index < calls_.size() ? calls_[index] : 0;
}

std::unique_ptr<at::ObserverContext> CallWatch::on_begin(const at::RecordFunction& function) {
  if (innermost_ != nullptr && !makes_no_node()) innermost_->note(function);
  return nullptr;
}

void CallWatch::on_end(const at::RecordFunction& /*function*/, at::ObserverContext* /*none*/) {
  if (innermost_ != nullptr && !makes_no_node()) innermost_->forget();
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

/// An operator that ends while its number is still to be taken made no node. Whoever takes it then,
/// such as a function of the program's own, was not called with that.
void CallWatch::forget() {
  const uint64_t index = at::sequence_number::peek() - first_sequence_;
  if (index < calls_.size()) calls_[index] = 0;
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
    // Autograd knows who made it, and parameters count the steps.
    return tensor.is_leaf() ? 6 : mixed(7, static_cast<uint64_t>(tensor._version()));
  }
  uint64_t digest = mixed(8, static_cast<uint64_t>(tensor.scalar_type()));
  if (!tensor.has_storage()) return digest;
  digest = mixed(digest, digest_of_list(tensor.sizes()));
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (model_.count(storage) == 0) return digest;
  digest = mixed(digest, reinterpret_cast<uintptr_t>(storage));
  digest = mixed(digest, static_cast<uint64_t>(tensor.storage_offset()));
  return mixed(digest, digest_of_list(tensor.strides()));
}

}  // namespace noisemark::memopt
