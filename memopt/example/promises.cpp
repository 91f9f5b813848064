#include "memopt/example/promises.h"

#include <vector>

#include "memopt/modes/budget.h"

namespace example {
namespace {

namespace memopt = noisemark::memopt;

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return a.size() == b.size();
}

bool is_budget(const std::string& mode) {
  return mode.starts_with(memopt::kBudgetPrefix);
}

bool within_budget(const std::string& mode, const Outcome& outcome) {
  const memopt::Budget budget = memopt::parse_budget(mode);
  const bool all = budget.target == memopt::BudgetTarget::kPeak;
  return (all ? outcome.peak_bytes : outcome.peak_saved_bytes) <= budget.bytes;
}

bool moves_bytes(const std::string& mode) {
  return mode.find("offload") != std::string::npos;
}

}  // namespace

bool same_bits_as(const Outcome& a, const Outcome& b) {
  return same_bits(a.losses, b.losses) && same_bits(a.weights, b.weights);
}

std::string broken_promise(const std::string& mode, const Outcome& outcome, const Outcome& none) {
  if (outcome.lossless && !same_bits_as(outcome, none)) return "not the bits of mode none";
  if (is_budget(mode) && !within_budget(mode, outcome)) return "above its budget";
  if (!moves_bytes(mode) && outcome.saved_bytes > none.saved_bytes) return "held more memory";
  const int64_t most = (moves_bytes(mode) ? 2 : 1) * none.peak_saved_bytes;
  if (outcome.peak_saved_bytes > most) return "held more memory at the peak";
  const double first = outcome.losses.front().item<double>();
  const double last = outcome.losses.back().item<double>();
  return last < 0.9 * first ? "" : "learned nothing";
}

}  // namespace example
