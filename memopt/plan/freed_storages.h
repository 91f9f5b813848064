#pragma once

#include <cstdint>
#include <vector>

#include "memopt/plan/peak_timeline.h"
#include "memopt/plan/treatment.h"

namespace noisemark::memopt {

/// A storage that a plan does not hold as it was saved.
struct FreedStorage {
  StorageId storage = kNone;
  int64_t bytes = 0;  ///< how many fewer are held
  double ns = 0;      ///< its share of what the plan adds to a step

  [[nodiscard]] double ns_per_byte() const { return ns / static_cast<double>(bytes); }
};

/// Of the plan's storages those of which it holds fewer bytes, in the order of the graph. What is
/// run for several of them is shared out evenly: an operator that makes more than one again, and
/// what nobody saved on the way to them. So the shares add up to no more than the plan costs.
[[nodiscard]] std::vector<FreedStorage> freed_storages(const TreatmentPlan& plan,
                                                       const CodecFigures& figures);

/// Whether backward asks for the value.
[[nodiscard]] bool is_asked_for(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
