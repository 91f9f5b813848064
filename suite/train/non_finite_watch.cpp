#include "suite/train/non_finite_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <span>
#include <string_view>

namespace noisemark::suite {
namespace {

/// Callbacks are plain functions without a place for our data, so the watch is found here.
thread_local NonFiniteWatch* active = nullptr;

/// Of an operator whose inputs are finite.
struct FiniteInputs final : at::ObserverContext {};

/// What is in it is nobody's result.
bool gives_raw_memory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize");
}

bool value_finite(const c10::IValue& value) {
  if (value.isTensor()) return all_finite(value.toTensor());
  if (!value.isTensorList()) return true;
  for (const at::Tensor& tensor : value.toTensorVector()) {
    if (!all_finite(tensor)) return false;
  }
  return true;
}

/// Empty where it cannot be found out, such as for want of memory: what a callback throws, LibTorch
/// prints.
std::optional<bool> values_finite(std::span<const c10::IValue> values) {
  const at::DisableRecordFunctionGuard unseen;
  const at::NoGradGuard no_grad;
  try {
    for (const c10::IValue& value : values) {
      if (!value_finite(value)) return false;
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return true;
}

}  // namespace

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return true;
  return at::isfinite(tensor).all().item<bool>();
}

NonFiniteWatch::NonFiniteWatch() : handle_(0) {
  TORCH_CHECK(active == nullptr, "operators are being looked at already");
  active = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

NonFiniteWatch::~NonFiniteWatch() {
  at::removeCallback(handle_);
  active = nullptr;
}

std::unique_ptr<at::ObserverContext> NonFiniteWatch::on_begin(const at::RecordFunction& function) {
  if (active == nullptr || !active->first_.empty()) return nullptr;
  // Ranges that are no operators have no schema.
  if (!function.operator_name().has_value() || gives_raw_memory(function.name())) return nullptr;
  if (values_finite({function.inputs().data(), function.inputs().size()}) != true) return nullptr;
  return std::make_unique<FiniteInputs>();
}

void NonFiniteWatch::on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr || active == nullptr || !active->first_.empty()) return;
  if (values_finite(function.outputs()) == false) active->first_ = function.name();
}

}  // namespace noisemark::suite
