#pragma once

#include <cstdint>
#include <vector>

#include "memopt/plan/options.h"
#include "memopt/plan/peak_timeline.h"

namespace noisemark::memopt {

/// What it must cost at least to hold fewer bytes than are held when everything is kept: the linear
/// relaxation of a knapsack (Dantzig 1957) of the saved storages. Each of them is kept, encoded, or
/// made again, and a plan whose peak is lower by some bytes has freed at least so many of them,
/// wherever that peak is. What frees a storage costs at least its codec's time or that of the
/// operators that make it, of which those with several saved results are shared out among them.
///
/// It holds for every plan of the step, also for those that no choice of options by block gives, as
/// far as the codecs are the options' and the times are those of the timeline. It leaves out what a
/// plan needs beyond that: values on the way that nobody saved, what is live while a value is made
/// again, memory that the program itself still uses. So it can be far below the best plan.
class CostBound {
 public:
  CostBound(const BlockOptions& options, const CodecFigures& figures);

  /// Nanoseconds in a step; 0: nothing is known. Of more bytes than there are it is what freeing
  /// all of them costs.
  [[nodiscard]] double to_free(int64_t bytes) const;

 private:
  /// Bytes that can be freed at a price, by rising price.
  struct Step {
    double bytes = 0;
    double ns_per_byte = 0;
  };
  std::vector<Step> steps_;
};

}  // namespace noisemark::memopt
