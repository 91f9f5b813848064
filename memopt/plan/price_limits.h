#pragma once

#include <string>
#include <vector>

#include "memopt/plan/freed_storages.h"

namespace noisemark::memopt {

/// A way to treat storages singly: what costs no more than so much for each byte is freed, the rest
/// is held. At a given price that is the best that can be done with each storage by itself (Dantzig
/// 1957): a block's options that differ in this price alone are points of its Pareto set.
struct PriceLimit {
  double most_ns_per_byte = 0;
  std::vector<StorageId> held;  ///< those that cost more, in the order of the graph
};

/// At thirds of the bytes that are freed, by rising price. Only where what is held costs clearly
/// more than what is freed: otherwise to free only a part of each block gains nothing over freeing
/// all of some blocks.
[[nodiscard]] std::vector<PriceLimit> price_limits(const std::vector<FreedStorage>& freed);

/// As in reports: "up to 0.8 ns/B".
[[nodiscard]] std::string words_of(const PriceLimit& limit);

}  // namespace noisemark::memopt
