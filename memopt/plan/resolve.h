#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memopt/treatment/recipe.h"
#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

class OffloadPool;

/// The codecs to try for a value, in this order: when one refuses it the next is tried. Each has a
/// form (Codec::form()) of its own.
using CodecChoice =
    std::function<std::vector<std::shared_ptr<const Codec>>(const StepGraph&, ValueId)>;

/// The rules of a mode; resolve() makes a plan of them.
struct Policy {
  /// Operators that may be run again. Unrepeatable ones are excluded anyway.
  std::function<bool(const StepGraph&, const RecordedOperator&)> may_replay;
  /// Tells which of those are cheap: in a two-level plan their results are not kept while a block
  /// is replayed. Empty means one level.
  std::function<bool(const StepGraph&, const RecordedOperator&)> light;
  /// Mirror: what operators of other segments read is kept.
  bool keep_what_crosses_segments = false;
  /// Attention: what such an operator reads is not made by running another one, or backward would
  /// recompute all of a transformer at once. What crosses between the two, where the fewest bytes
  /// do (cuts.h), is kept. Empty means no operator.
  std::function<bool(const StepGraph&, const RecordedOperator&)> runs_apart;
  /// The missing inputs of an operator are cut out of its result where that holds fewer bytes.
  bool slices = true;
  CodecChoice codec;                       ///< is empty where no value is encoded
  bool rounds = false;                     ///< some codecs of it do
  std::shared_ptr<OffloadPool> host = {};  ///< host memory for `codec`; null: none
  /// Mirror: the segments are not the model's blocks but the square root of the number of saved
  /// storages in number, of equal bytes.
  bool segments_of_equal_bytes = false;
};

/// Decisions from outside the policy, by value.
struct Overrides {
  std::set<ValueId> keep;      ///< must not be recomputed: a recipe was found not to be exact
  std::set<ValueId> crossing;  ///< is kept because another segment reads it
  std::set<ValueId> spared;    ///< is kept because that costs less than to recompute it
  /// Codecs, by form, that were found not to take a value. Of values that share their memory the
  /// first to be saved counts.
  std::map<ValueId, std::set<std::string>> refused;
  std::set<ValueId> as_saved;     ///< must not be encoded: a codec was found not to be exact
  std::set<ValueId> tried_parts;  ///< are cut out of others, and codecs were tried on them
  std::set<StorageId> no_room;    ///< storages that found the host's memory full in at least one
                                  ///< pass
  std::set<ValueId> replay;  ///< its shortcut was found not to be exact: its operator is called
  std::map<ValueId, int64_t> shortcut_ns;  ///< measured time of each value's shortcut

  /// A tensor that A does not take is not taken by A+B either.
  [[nodiscard]] bool refuses(ValueId id, const Codec& codec) const;
};

/// Decides for every saved value whether to keep it or to recompute it from what is kept. A recipe
/// depends only on slots that were saved no later than the slot it serves, so that a step which
/// departs from the recorded one can be finished with what it has saved so far.
[[nodiscard]] TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                                    const Overrides& overrides = {});
/// The same with recipes that other plans for the graph share.
[[nodiscard]] TreatmentPlan resolve(std::shared_ptr<const StepGraph> graph, const Policy& policy,
                                    const Overrides& overrides, RecipeBook& recipes);

/// Gives values that can be recomputed in one pass, without what lies between them and what is held
/// (RecipeBook::shortcut()), such a recipe in place of the call of their operator. What nothing
/// reads any more is then made no more. Before encodings are chosen.
void take_shortcuts(TreatmentPlan& plan, const Overrides& overrides, RecipeBook& recipes);

/// The saved part of a storage, as codecs are given it.
struct SavedMemory {
  ValueId first = kNone;  ///< the first to be saved: it brings the memory, and its codecs count
  bool whole = false;  ///< all of the memory is encoded, not `first` alone: others that were saved
                       ///< share it, or `first` does not fill its part of it
};
/// Returns nothing where nothing was saved, where it is nobody's to drop, and where it cannot be
/// encoded as one.
[[nodiscard]] std::optional<SavedMemory> saved_memory(const StepGraph& graph,
                                                      const RecordedStorage& storage);

/// The value that codecs are given: the first, or as if it were all of the memory.
[[nodiscard]] RecordedValue form_to_encode(const StepGraph& graph, const RecordedStorage& storage,
                                           const SavedMemory& memory);

/// Gives what `plan` holds, recipes being decided, the codecs of the policy that were not refused
/// yet. Values that share their memory are encoded as one, with all of that memory: encoding one
/// of them alone would free nothing.
void choose_encodings(TreatmentPlan& plan, const Policy& policy, const Overrides& overrides);

}  // namespace noisemark::memopt
