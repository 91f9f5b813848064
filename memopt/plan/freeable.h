#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// When a plan can do without a saved storage that would be live if everything were kept. Not while
/// the program itself still uses it, nor while backward has just asked for it.
///
/// Moments are those of a timeline (plan/peak_timeline.h): 2 e is the one between event e and the
/// event before it, when the operators ran that lie there, 2 e + 1 is event e. A plan is never
/// given less than it can do without: where that is hard to tell, the storage counts as freeable.
class FreeableStorages {
 public:
  explicit FreeableStorages(const StepGraph& graph);

  [[nodiscard]] bool at(StorageId storage, size_t moment) const;

 private:
  struct Interval {
    size_t from = 0;
    size_t until = 0;  ///< the first moment beyond it
  };
  struct Span {
    Interval saved;                ///< and no longer used by the program
    std::vector<Interval> needed;  ///< whole, by the node that runs
  };
  friend class FreeableSearch;
  std::vector<Span> spans_;  ///< by storage
};

}  // namespace noisemark::memopt
