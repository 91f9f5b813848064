#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace noisemark::memopt {

/// The owner of a storage. A storage counts once, under the first that claims it: the order below
/// is the order of precedence.
enum class Owner : uint8_t {
  kWeights,
  kOptimizer,
  kEma,
  kGradients,       ///< `.grad`, and the buckets in which ranks exchange it
  kInput,           ///< the batch and what the loader holds ready
  kAutocastCache,   ///< casts of weights
  kEncoded,         ///< stored by a mode instead of a saved tensor
  kRematerialized,  ///< decoded or recomputed during backward
  kActivations,     ///< kept for backward
  kCommunication,   ///< other tensors on their way between ranks
  kWorkspace,       ///< scratch of an operator's library call
  kTemporary,       ///< made by an operator in the current phase, kept by nobody
  kUnattributed,
};

inline constexpr int kOwnerCount = static_cast<int>(Owner::kUnattributed) + 1;

/// The name in results: "autocast_cache".
[[nodiscard]] std::string_view owner_name(Owner owner);

/// All but kUnattributed, in precedence order.
[[nodiscard]] std::vector<Owner> all_owners();

}  // namespace noisemark::memopt
