#include "suite/probes/wide_operators.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "memopt/accounting/operator_callback.h"
#include "memopt/record/history.h"

namespace noisemark::suite {
namespace {

/// Callbacks are plain functions without a place for our data, so the watch is found here.
thread_local WideOperators* active_watch = nullptr;

/// An operator above autograd that has not returned yet.
struct OpenOperator final : at::ObserverContext {
  OpenOperator* outer = nullptr;
  bool under_autocast = false;  ///< itself, or the operator that it works for
  bool calls_others = false;
};
thread_local OpenOperator* innermost = nullptr;

bool gives_raw_memory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

/// Its result is a view of an argument, or the argument itself.
bool gives_an_argument(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema) return true;  // a range that is no operator
  const auto& returns = schema->returns();
  return returns.empty() || returns.front().alias_info() != nullptr;
}

/// The results that an operator gave.
struct Results {
  int64_t bytes = 0;  ///< size of the results in a wider type
  bool any = false;   ///< a floating-point one
};

void add(const at::Tensor& tensor, at::ScalarType narrow, Results& results) {
  if (!tensor.defined() || !tensor.is_floating_point()) return;
  results.any = true;
  if (tensor.element_size() <= static_cast<int64_t>(c10::elementSize(narrow))) return;
  results.bytes += tensor.numel() * tensor.element_size();
}

}  // namespace

WideOperators::WideOperators(c10::DeviceType device, at::ScalarType narrow)
    : device_(device), narrow_(narrow) {
  TORCH_CHECK(active_watch == nullptr, "operators under autocast are being looked at already");
  active_watch = this;
  memopt::add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                                    .needsOutputs(true)
                                    .scopes({at::RecordScope::FUNCTION}));
}

WideOperators::~WideOperators() {
  memopt::remove_operator_callback(&on_begin);
  active_watch = nullptr;
  innermost = nullptr;
}

std::unique_ptr<at::ObserverContext> WideOperators::on_begin(
    const at::RecordFunction& /*function*/) {
  if (active_watch == nullptr || memopt::below_autograd()) return nullptr;
  auto context = std::make_unique<OpenOperator>();
  context->outer = std::exchange(innermost, context.get());
  if (context->outer != nullptr) {
    context->outer->calls_others = true;
    // Autocast turns itself off for what it calls.
    context->under_autocast = context->outer->under_autocast;
  } else {
    context->under_autocast = at::autocast::is_autocast_enabled(active_watch->device_);
  }
  return context;
}

void WideOperators::on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* open = static_cast<OpenOperator*>(context);
  if (open == nullptr || active_watch == nullptr) return;
  innermost = open->outer;
  if (open->under_autocast && !open->calls_others) active_watch->count(function);
}

void WideOperators::count(const at::RecordFunction& function) {
  if (gives_raw_memory(function.name()) || gives_an_argument(function)) return;
  Results results;
  for (const c10::IValue& value : function.outputs()) {
    if (value.isTensor()) add(value.toTensor(), narrow_, results);
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) add(tensor, narrow_, results);
  }
  if (results.any) ++operators_;
  if (results.bytes == 0) return;
  reports::WideOperator& row = wide_[function.name()];
  row.name = function.name();
  ++row.calls;
  row.result_bytes += results.bytes;
}

std::vector<reports::WideOperator> WideOperators::wide() const {
  std::vector<reports::WideOperator> rows;
  rows.reserve(wide_.size());
  for (const auto& [name, row] : wide_) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.result_bytes > b.result_bytes; });
  return rows;
}

}  // namespace noisemark::suite
