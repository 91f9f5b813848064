#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "memopt/plan/treatment.h"
#include "memopt/replay/recipe_book.h"

namespace noisemark::memopt {

class OffloadPool;

/// The codecs to try for a value, in this order: when one refuses it the next is tried. Each has a
/// form (Codec::form()) of its own.
using CodecChoice =
    std::function<std::vector<std::shared_ptr<const Codec>>(const StepGraph&, ValueId)>;

/// What a mode allows; resolve() makes a plan of it.
struct Policy {
  /// Operators that may be run again. Unrepeatable ones are excluded anyway.
  std::function<bool(const StepGraph&, const RecordedOperator&)> may_replay;
  /// Of those, the ones that are cheap: in a two-level plan their results are not kept while a
  /// block is replayed. Empty: one level.
  std::function<bool(const StepGraph&, const RecordedOperator&)> light;
  /// Mirror: what operators of other segments read is kept.
  bool keep_what_crosses_segments = false;
  /// Cut the missing inputs of an operator out of its result where that holds fewer bytes.
  bool slices = true;
  CodecChoice codec;                       ///< empty: no value is encoded
  std::shared_ptr<OffloadPool> host = {};  ///< what `codec` takes host memory from; null: nothing
  /// Mirror: the segments are not the model's blocks but the square root of the number of saved
  /// storages in number, of equal bytes.
  bool segments_of_equal_bytes = false;
};

/// Decisions from outside the policy, by value.
struct Overrides {
  std::set<ValueId> keep;      ///< must not be made again: a recipe was found not to be exact
  std::set<ValueId> crossing;  ///< is kept because another segment reads it
  std::set<ValueId> spared;    ///< is kept because that costs less than to make it again
  /// Codecs, by form, that were found not to take a value. Of values that share their memory the
  /// first to be saved counts.
  std::map<ValueId, std::set<std::string>> refused;
  std::set<ValueId> as_saved;     ///< must not be encoded: a codec was found not to be exact
  std::set<ValueId> tried_parts;  ///< are cut out of others, and codecs were tried on them
  std::set<StorageId> no_room;    ///< found the host's memory full, in at least one pass
  std::set<ValueId> replay;  ///< its shortcut was found not to be exact: its operator is called
  std::map<ValueId, int64_t> shortcut_ns;  ///< what the shortcut of a value took

  /// What A does not take A+B does not take either.
  [[nodiscard]] bool refuses(ValueId id, const Codec& codec) const;
};

/// For every saved value: keep it, or make it again from what is kept. A recipe depends only on
/// slots that were saved no later than the slot it serves, so that a step which departs from the
/// recorded one can be finished with what it has saved so far.
[[nodiscard]] TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                                    const Overrides& overrides = {});
/// The same with recipes that other plans for the graph share.
[[nodiscard]] TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                                    const Overrides& overrides, RecipeBook& recipes);

}  // namespace noisemark::memopt
