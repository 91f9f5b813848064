#pragma once

#include <optional>

#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// What is saved of a storage, as codecs are given it.
struct SavedMemory {
  ValueId first = kNone;  ///< the first to be saved: it brings the memory, and its codecs count
  bool whole = false;  ///< all of the memory is encoded, not `first` alone: others that were saved
                       ///< share it, or `first` does not fill its part of it
};
/// Empty where nothing was saved, where it is nobody's to drop, and where it cannot be encoded as
/// one.
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
