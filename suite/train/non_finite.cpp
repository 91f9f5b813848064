#include "suite/train/non_finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "memopt/accounting/operator_callback.h"

namespace noisemark::suite {
namespace {

using torch::autograd::Node;

/// 1 + the highest sequence number among the nodes that hand a gradient to each node. Autograd runs
/// nodes from the highest number down.
std::unordered_map<const Node*, uint64_t> last_uses(const Node* root) {
  std::unordered_map<const Node*, uint64_t> uses;
  std::unordered_set<const Node*> seen{root};
  std::vector<const Node*> open{root};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      const Node* next = edge.function.get();
      if (next == nullptr) continue;
      uint64_t& use = uses[next];
      use = std::max(use, node->sequence_nr() + 1);
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return uses;
}

}  // namespace

NamedTensors in_backward_order(const at::Tensor& root, NamedTensors parameters) {
  if (!root.defined() || root.grad_fn() == nullptr) return parameters;
  const auto uses = last_uses(root.grad_fn().get());
  const auto use_of = [&uses](const at::Tensor& parameter) {
    const auto found = uses.find(torch::autograd::impl::try_get_grad_accumulator(parameter).get());
    return found == uses.end() ? uint64_t{0} : found->second;
  };
  std::stable_sort(parameters.begin(), parameters.end(), [&](const auto& a, const auto& b) {
    return use_of(a.second) > use_of(b.second);
  });
  return parameters;
}

namespace {

/// Callbacks are plain functions without a place for our data, so the watch is found here.
thread_local NonFiniteWatch* active = nullptr;

/// Marks an operator whose inputs are finite.
struct FiniteInputs final : at::ObserverContext {};

/// Tells whether an operator gives memory whose contents are nobody's result.
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

/// Returns nothing where it cannot be found out, such as for want of memory: what a callback
/// throws, LibTorch prints.
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

NonFiniteWatch::NonFiniteWatch() {
  TORCH_CHECK(active == nullptr, "operators are being looked at already");
  active = this;
  memopt::add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                                    .needsInputs(true)
                                    .needsOutputs(true)
                                    .scopes({at::RecordScope::FUNCTION}));
}

NonFiniteWatch::~NonFiniteWatch() {
  memopt::remove_operator_callback(&on_begin);
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
