#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memopt/plan/freed_storages.h"
#include "memopt/plan/options.h"
#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {

/// The least cost of holding fewer bytes than are held when everything is kept: the linear
/// relaxation of a knapsack (Dantzig 1957) of the saved storages. Each of them is kept, encoded, or
/// recomputed. What frees a storage costs at least its codec's time or that of the operators that
/// make it and what nobody saved on the way; an operator that several storages need is shared out
/// among them.
///
/// It holds for every plan of the step, also for those that no choice of options by block gives, as
/// far as the codecs are the options' and the times are those of the timeline. It leaves out what a
/// plan needs beyond that: a saved value on the way that was dropped as well and is recomputed only
/// for this one, what is live while a value is recomputed, that a storage is freed as a whole, and
/// that one choice must serve all moments. So it can be below the best plan.
class CostBound {
 public:
  /// `kept`: the timeline of the step when everything is kept, `other`: what it does not count.
  /// `live`: bytes are those of all owners, otherwise only what is held for backward.
  CostBound(const BlockOptions& options, const CodecFigures& figures, const PeakTimeline& kept,
            const std::vector<OtherBytes>& other, bool live);

  /// The bound of a plan whose timeline is within so many bytes: at every moment it has freed what
  /// was above them, and of storages that can be freed then (plan/freed_storages.h). Nanoseconds in
  /// a step; 0: nothing is known. Where there is less to free it is what freeing all of it costs.
  [[nodiscard]] double within(int64_t bytes) const;

 private:
  /// Bytes of a storage that can be freed at a price.
  struct PricedBytes {
    StorageId storage = kNone;
    double bytes = 0;
    double ns_per_byte = 0;
  };
  /// A moment of the step, and what it holds when everything is kept.
  struct Moment {
    size_t at = 0;
    int64_t bytes = 0;
  };
  /// The least cost of freeing so many bytes of the storages that can be freed at the moment.
  [[nodiscard]] double cheapest(int64_t bytes, size_t moment) const;

  std::vector<PricedBytes> by_price_;  ///< is sorted by rising price
  FreeableStorages freeable_;
  std::vector<Moment> moments_;  ///< the highest of each part of the step
};

}  // namespace noisemark::memopt
