#include "memopt/replay/recipe_book.h"

#include <optional>
#include <utility>

#include "memopt/replay/from_statistics.h"
#include "memopt/replay/norm_chain.h"

namespace noisemark::memopt {

RecipeBook::RecipeBook(std::shared_ptr<const StepGraph> graph,
                       std::map<ValueId, int64_t> shortcut_ns)
    : graph_(std::move(graph)),
      shortcut_ns_(std::move(shortcut_ns)),
      replays_(graph_->operators.size()),
      shortcuts_(graph_->values.size()),
      looked_up_(graph_->values.size(), false) {}

const std::shared_ptr<const Recipe>& RecipeBook::replay(OperatorId id) {
  std::shared_ptr<const Recipe>& known = replays_[static_cast<size_t>(id)];
  if (known == nullptr) known = std::make_shared<const Recipe>(replay_recipe(*graph_, id));
  return known;
}

const std::shared_ptr<const Recipe>& RecipeBook::shortcut(ValueId id) {
  const auto at = static_cast<size_t>(id);
  if (!looked_up_[at]) {
    looked_up_[at] = true;
    std::optional<Recipe> recipe = norm_chain_recipe(*graph_, id);
    if (!recipe) recipe = from_statistics_recipe(*graph_, id);
    if (recipe) {
      const auto measured = shortcut_ns_.find(id);
      if (measured != shortcut_ns_.end()) recipe->cost_ns = measured->second;
      shortcuts_[at] = std::make_shared<const Recipe>(*std::move(recipe));
    }
  }
  return shortcuts_[at];
}

}  // namespace noisemark::memopt
