#include "memopt/mode.h"

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "memopt/budget_mode.h"
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

template <typename T>
std::unique_ptr<Mode> make() {
  return std::make_unique<T>();
}

std::unique_ptr<Mode> make_mirror() {
  return std::make_unique<PlannedMode>("mirror", true, mirror_policy());
}
std::unique_ptr<Mode> make_mirror_echo() {
  return std::make_unique<PlannedMode>("mirror+echo", true, mirror_echo_policy());
}
std::unique_ptr<Mode> make_echo() {
  return std::make_unique<PlannedMode>("echo", true, echo_policy());
}
std::unique_ptr<Mode> make_echo_attention() {
  return std::make_unique<PlannedMode>("echo+attn", true, echo_attention_policy());
}

/// Levenshtein's distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

const std::vector<ModeEntry>& modes() {
  static const std::vector<ModeEntry> table = {
      {"none", "autograd keeps every saved tensor", true, &make<NoneMode>},
      {"mirror", "keep what crosses blocks, replay blocks in backward", true, &make_mirror},
      {"mirror+echo", "mirror, whose replayed blocks keep what echo keeps", true,
       &make_mirror_echo},
      {"echo", "replay norms, activations, cat, upsampling and element-wise operators", true,
       &make_echo},
      {"echo+attn", "echo, and attention with its projections", true, &make_echo_attention},
  };
  return table;
}

std::unique_ptr<Mode> make_mode(std::string_view spelling) {
  if (spelling.starts_with(kBudgetPrefix)) return make_budget_mode(spelling);
  const auto& table = modes();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const ModeEntry& entry) { return entry.name == spelling; });
  if (found != table.end()) return found->make();
  const auto nearest =
      std::min_element(table.begin(), table.end(), [&](const ModeEntry& a, const ModeEntry& b) {
        return edit_distance(a.name, spelling) < edit_distance(b.name, spelling);
      });
  throw std::invalid_argument("mode: \"" + std::string(spelling) + "\" (nearest valid: \"" +
                              std::string(nearest->name) + "\")");
}

}  // namespace noisemark::memopt
