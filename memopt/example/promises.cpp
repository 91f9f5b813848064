#include "memopt/example/promises.h"

#include <vector>

#include "memopt/budget.h"

namespace example {
namespace {

namespace memopt = noisemark::memopt;

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return a.size() == b.size();
}

bool same_bits(const Outcome& a, const Outcome& b) {
  return same_bits(a.losses, b.losses) && same_bits(a.weights, b.weights);
}

bool is_budget(const std::string& mode) {
  return mode.starts_with(memopt::kBudgetPrefix);
}

bool within_budget(const std::string& mode, const Outcome& outcome) {
  const memopt::Budget budget = memopt::parse_budget(mode);
  const bool all = budget.target == memopt::BudgetTarget::kPeak;
  return (all ? outcome.peak_bytes : outcome.peak_saved_bytes) <= budget.bytes;
}

bool has_to_save(const std::string& mode, const Outcome& none) {
  if (mode == "none" || mode.find("offload") != std::string::npos) return false;
  return !is_budget(mode) || !within_budget(mode, none);
}

}  // namespace

std::string broken_promise(const std::string& mode, const Outcome& outcome, const Outcome& none) {
  if (outcome.lossless && !same_bits(outcome, none)) return "not the bits of mode none";
  if (is_budget(mode) && !within_budget(mode, outcome)) return "above its budget";
  if (has_to_save(mode, none) && outcome.saved_bytes >= none.saved_bytes) return "saved no memory";
  const double first = outcome.losses.front().item<double>();
  const double last = outcome.losses.back().item<double>();
  return last < 0.9 * first ? "" : "learned nothing";
}

}  // namespace example
