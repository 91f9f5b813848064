#pragma once

#include "suite/parallel/rank.h"

/// The agreement between --ranks and the ranks that it starts.
namespace noisemark::suite {

/// The variable by which a rank knows that --ranks started it and chose its address. It begins like
/// none of those that a result lists.
inline constexpr const char* kStartedHere = "RANK_STARTED_BY_NOISEMARK";
[[nodiscard]] bool is_started_here();

/// Returns whether a rank listens for the others: torchrun's agent does so for all.
[[nodiscard]] bool serves_store(const Rank& rank);

/// Throws Error, exit code 71, where fewer files can be opened than joining the others takes: the
/// libraries below end the process then, or say anything at all.
void require_descriptors(const Rank& rank);

}  // namespace noisemark::suite
