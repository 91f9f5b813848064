#include "tests/memopt/programs/known.h"

#include <algorithm>
#include <initializer_list>

namespace noisemark::memopt::programs {
namespace {

bool uses(const Program& program, std::initializer_list<std::string_view> names) {
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const Call& call) {
    return std::find(names.begin(), names.end(), call.op) != names.end();
  });
}

bool sets_grad(const Program& program) {
  return uses(program, {"grad_setting_linear"});
}

}  // namespace

const std::vector<KnownKind>& known_kinds() {
  static const std::vector<KnownKind> table = {
      {"a backward pass sets .grad of what it saved", "26, item 5: not promised", sets_grad, 142,
       "bits"},
  };
  return table;
}

const KnownKind* known_kind(const Program& program) {
  const auto& table = known_kinds();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const KnownKind& kind) { return kind.matches(program); });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace noisemark::memopt::programs
