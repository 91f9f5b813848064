#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "memopt/accounting/owner.h"

namespace noisemark::memopt {

/// Live bytes by owner at one instant of a log.
struct OwnedInstant {
  size_t instant = 0;
  int64_t time_ns = 0;
  std::array<int64_t, kOwnerCount> bytes{};  ///< one sum for each owner, kUnattributed included
  int64_t live_bytes = 0;  ///< sum of the allocator's events, to which the owners must add up

  [[nodiscard]] int64_t of(Owner owner) const { return bytes[static_cast<size_t>(owner)]; }
  /// Bytes of the owners of is_held_for_backward().
  [[nodiscard]] int64_t saved_bytes() const;
};

/// A walk of the owners, with what was live then.
struct OwnedBoundary {
  std::string name;
  OwnedInstant at;
  int64_t allocator_bytes = 0;    ///< the allocator's own sum
  int64_t naive_saved_bytes = 0;  ///< activations summed per saved variable instead of per block
};

/// The owner of every byte at every instant of a log.
struct Attribution {
  std::vector<OwnedBoundary> boundaries;
  OwnedInstant peak;          ///< the first with the most live bytes
  std::string peak_after;     ///< name of the last mark before the peak
  std::string peak_operator;  ///< outermost and innermost operator that ran: "a > b"
  int64_t peak_saved_bytes = 0;
  int64_t allocations = 0;
  std::vector<OwnedInstant> timeline;  ///< the opening, and every change of any owner
};

/// Finds the owner of every block at every instant, by these claims, of which the first in Owner's
/// order counts:
/// - a walk found it: from its birth, or as activations from the first saved variable where there
///   was one, until the first walk that does not;
/// - it was born in an OwnerScope: all its life;
/// - autograd has saved it: from the first saved variable until the last is gone (kActivations);
/// - an operator that casts a parameter made it as its result: all its life (kAutocastCache);
/// - an operator that calls a library made and released it: all its life (kWorkspace);
/// - an operator made it: until the phase ends (kTemporary).
/// A block that crosses the end of a phase without a claim is unattributed, as is what was live at
/// the opening and never seen since: that is how an owner that was forgotten shows.
[[nodiscard]] Attribution attribute(const AllocationRecord& record);

/// One block of a log, from birth to release.
struct BlockLife {
  static constexpr size_t kStillLive = std::numeric_limits<size_t>::max();
  Block block;
  size_t birth = 0;  ///< instant; 0: live at the opening
  size_t death = kStillLive;
  uint32_t frame = 0;                  ///< operator that made it, 0: none
  Owner owner = Owner::kUnattributed;  ///< the first in Owner's order that it had at any time
};

/// Every block that the log knows of, by birth and then by number, with the claims of attribute().
[[nodiscard]] std::vector<BlockLife> block_lives(const AllocationRecord& record);

}  // namespace noisemark::memopt
