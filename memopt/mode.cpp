#include "memopt/mode.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "memopt/budget_mode.h"
#include "memopt/mode_grammar.h"
#include "memopt/planned_mode.h"
#include "memopt/policies.h"

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

}  // namespace

const std::vector<ModeEntry>& modes() {
  static const std::vector<ModeEntry> table = {
      {"none", "autograd keeps every saved tensor", true},
      {"mirror", "keep what crosses blocks, replay blocks in backward", true},
      {"mirror:sqrt", "mirror, in the square root of n segments of equal bytes", true},
      {"mirror+echo", "mirror, whose replayed blocks keep what echo keeps", true},
      {"echo", "replay norms, activations, cat, upsampling and element-wise operators", true},
      {"echo+attn", "echo, and attention with its projections", true},
      {"gist", "ReLU's signs and masks in 1 bit, pooling maps in 4, sparse storage", true},
      {"dpr16", "floating tensors as float16", false},
      {"dpr10", "floating tensors in 10 bits, three in a word", false},
      {"dpr8", "floating tensors in 8 bits", false},
      {"q4", "floating tensors in 4 bits, groups of 256 rounded at random", false},
      {"q2", "floating tensors in 2 bits, groups of 256 rounded at random", false},
      {"offload", "convolution inputs in host memory", true},
      {"offload:all", "every saved tensor in host memory", true},
      {"offload:all,host=2GiB", "either, in any SIZE of host memory; what finds no room stays",
       true},
      {"budget:2GiB", "the cheapest exact plan within any SIZE of peak_bytes; or budget:saved=2GiB",
       true},
      {"budget:2GiB,error=0.01", "the same, rounding within an error of the gradient", false},
  };
  return table;
}

std::unique_ptr<Mode> make_mode(std::string_view spelling) {
  if (spelling.starts_with(kBudgetPrefix)) return make_budget_mode(spelling);
  const ModeParts parts = parse_mode(spelling);
  if (parts == ModeParts{}) return std::make_unique<NoneMode>();
  return std::make_unique<PlannedMode>(spelling_of(parts), parts.lossless(), policy_of(parts));
}

std::string why_host_is_needed(std::string_view spelling) {
  if (spelling.starts_with(kBudgetPrefix)) {
    (void)make_budget_mode(spelling);
    return "the host keeps an eye on the forms in which values are held";
  }
  const ModeParts parts = parse_mode(spelling);
  if (parts.offload != ModeParts::Offload::kNothing) {
    return "tensors go to the host's memory, whose pool the host keeps";
  }
  if (parts.gist) return "the host reads whether sparse tensors found room";
  if (parts.rounding == ModeParts::Rounding::kQ4 || parts.rounding == ModeParts::Rounding::kQ2) {
    return "values are rounded at random, by the number of the step, which the host gives";
  }
  return "";
}

}  // namespace noisemark::memopt
