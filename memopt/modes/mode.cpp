#include "memopt/modes/mode.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "memopt/modes/budget_mode.h"
#include "memopt/modes/mode_grammar.h"
#include "memopt/modes/planned_mode.h"
#include "memopt/modes/policies.h"
#include "memopt/modes/rounding_mode.h"

namespace noisemark::memopt {
namespace {

/// Autograd keeps every tensor itself.
class NoneMode final : public Mode {
 public:
  std::string name() const override { return "none"; }
  bool lossless() const override { return true; }
  void attach(const ModelView& /*model*/) override {}
  void begin_step(int64_t /*step*/) override {}
  void end_step() override {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override { return nullptr; }
};

std::vector<ModeEntry> make_table() {
  std::vector<ModeEntry> table = {{"none", "autograd keeps every saved tensor", true}};
  for (const ModeWord& part : mode_words()) {
    if (part.summary.empty()) continue;
    table.push_back({part.word, part.summary, part.place != ModeWord::Place::kRounding});
  }
  table.push_back({"offload:all,host=2GiB",
                   "either, in any SIZE of host memory; what finds no room stays", true});
  table.push_back({"budget:2GiB",
                   "the cheapest exact plan within any SIZE of peak_bytes; or budget:saved=2GiB",
                   true});
  table.push_back(
      {"budget:2GiB,error=0.01", "the same, rounding within an error of the gradient", false});
  return table;
}

}  // namespace

const std::vector<ModeEntry>& modes() {
  static const std::vector<ModeEntry> table = make_table();
  return table;
}

std::unique_ptr<Mode> make_mode(std::string_view spelling) {
  if (spelling.starts_with(kBudgetPrefix)) return make_budget_mode(spelling);
  const ModeComposition parts = parse_mode(spelling);
  if (parts == ModeComposition{}) return std::make_unique<NoneMode>();
  if (const ModeWord* rounding = parts.rounding()) {
    return std::make_unique<RoundingMode>(spelling_of(parts), policy_of(parts),
                                          rounding->gradient_bound);
  }
  return std::make_unique<PlannedMode>(spelling_of(parts), /*lossless=*/true, policy_of(parts));
}

std::string why_host_is_needed(std::string_view spelling) {
  if (spelling.starts_with(kBudgetPrefix)) {
    (void)make_budget_mode(spelling);
    return "the host keeps an eye on the forms in which values are held";
  }
  const ModeComposition parts = parse_mode(spelling);
  for (const ModeWord* part : {parts.offload(), parts.gist(), parts.rounding(), parts.replay()}) {
    if (part != nullptr && !part->needs_host.empty()) return std::string(part->needs_host);
  }
  return "";
}

}  // namespace noisemark::memopt
