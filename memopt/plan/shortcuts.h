#pragma once

#include "memopt/plan/resolve.h"
#include "memopt/plan/treatment.h"

namespace noisemark::memopt {

/// Gives values that can be made again in one pass, without what lies between them and what is held
/// (RecipeBook::shortcut()), such a recipe in place of the call of their operator. What nothing
/// reads any more is then made no more. Before encodings are chosen.
void take_shortcuts(TreatmentPlan& plan, const Overrides& overrides, RecipeBook& recipes);

}  // namespace noisemark::memopt
