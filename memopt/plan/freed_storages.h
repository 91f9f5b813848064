#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memopt/plan/peak_timeline.h"
#include "memopt/record/step_graph.h"
#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

/// Says at which moments a plan can do without a saved storage that would be live if everything
/// were kept: not while the program itself still uses it, nor while backward has just asked for it.
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
    Interval saved;                ///< time in which it is saved and the program no longer uses it
    std::vector<Interval> needed;  ///< whole, by the node that runs
  };
  friend class FreeableSearch;
  std::vector<Span> spans_;  ///< one for each storage
};

/// A storage that a plan does not hold as it was saved.
struct FreedStorage {
  StorageId storage = kNone;
  int64_t bytes = 0;  ///< bytes no longer held
  double ns = 0;      ///< its share of what the plan adds to a step

  [[nodiscard]] double ns_per_byte() const { return ns / static_cast<double>(bytes); }
};

/// The storages of which the plan holds fewer bytes, in the order of the graph. What is
/// run for several of them is shared out evenly: an operator that recomputes more than one, and
/// what nobody saved on the way to them. So the shares add up to no more than the plan costs.
[[nodiscard]] std::vector<FreedStorage> freed_storages(const TreatmentPlan& plan,
                                                       const CodecFigures& figures);

/// Returns whether backward asks for the value.
[[nodiscard]] bool is_asked_for(const StepGraph& graph, ValueId id);

/// A way to treat storages singly: what costs no more than so much for each byte is freed, the rest
/// is held. At a given price that is the best that can be done with each storage by itself (Dantzig
/// 1957): a block's options that differ in this price alone are points of its Pareto set.
struct PriceLimit {
  double most_ns_per_byte = 0;
  std::vector<StorageId> held;  ///< those that cost more, in the order of the graph
};

/// Returns the prices at which one third and two thirds of the bytes are freed, by rising price. A
/// limit is left out where held bytes cost hardly more than freed ones: otherwise to free only a
/// part of each block gains nothing over freeing all of some blocks.
[[nodiscard]] std::vector<PriceLimit> price_limits(const std::vector<FreedStorage>& freed);

/// Spells the limit as reports do: "up to 0.8 ns/B".
[[nodiscard]] std::string words_of(const PriceLimit& limit);

}  // namespace noisemark::memopt
