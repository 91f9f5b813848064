#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memopt/record/step_graph.h"
#include "memopt/replay/recipe.h"

namespace noisemark::memopt {

/// The recipes of one graph, each made when it is first asked for: many plans for the same graph
/// share them. Not thread-safe.
class RecipeBook {
 public:
  /// `shortcut_ns`: what shortcuts were found to take, by the value that each gives.
  explicit RecipeBook(std::shared_ptr<const StepGraph> graph,
                      std::map<ValueId, int64_t> shortcut_ns = {});

  /// Calls the operator again, which must be repeatable.
  [[nodiscard]] const std::shared_ptr<const Recipe>& replay(OperatorId id);
  /// Makes the value in another way; null where there is none.
  [[nodiscard]] const std::shared_ptr<const Recipe>& shortcut(ValueId id);

 private:
  std::shared_ptr<const StepGraph> graph_;
  std::map<ValueId, int64_t> shortcut_ns_;
  std::vector<std::shared_ptr<const Recipe>> replays_;
  std::vector<std::shared_ptr<const Recipe>> shortcuts_;
  std::vector<bool> looked_up_;  ///< by value: shortcuts_ knows
};

}  // namespace noisemark::memopt
