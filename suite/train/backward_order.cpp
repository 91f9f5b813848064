#include "suite/train/backward_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

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

}  // namespace noisemark::suite
