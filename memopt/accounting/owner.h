#pragma once

#include <array>
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
  kEncoded,         ///< is stored by a mode instead of a saved tensor
  kRematerialized,  ///< is decoded or recomputed during backward
  kActivations,     ///< is kept for backward
  kCommunication,   ///< other tensors on their way between ranks
  kWorkspace,       ///< scratch of an operator's library call
  kTemporary,       ///< is made by an operator in the current phase, and nobody keeps it
  kUnattributed,
};

inline constexpr int kOwnerCount = static_cast<int>(Owner::kUnattributed) + 1;

/// The names in results, in the same order.
inline constexpr std::array<std::string_view, kOwnerCount> kOwnerNames = {
    "weights",     "optimizer",      "ema",         "gradients",     "input",     "autocast_cache",
    "encoded",     "rematerialized", "activations", "communication", "workspace", "temporary",
    "unattributed"};
static_assert(kOwnerNames.back() == "unattributed", "there is an owner without a name");

[[nodiscard]] constexpr std::string_view owner_name(Owner owner) {
  return kOwnerNames[static_cast<size_t>(owner)];
}

/// Returns whether it holds bytes only for the backward pass. What a mode saves is counted by
/// these.
[[nodiscard]] constexpr bool is_held_for_backward(Owner owner) {
  return owner == Owner::kActivations || owner == Owner::kEncoded ||
         owner == Owner::kRematerialized;
}

/// Returns all but kUnattributed, in precedence order.
[[nodiscard]] inline std::vector<Owner> all_owners() {
  std::vector<Owner> owners;
  for (int i = 0; i < kOwnerCount - 1; ++i) owners.push_back(static_cast<Owner>(i));
  return owners;
}

}  // namespace noisemark::memopt
