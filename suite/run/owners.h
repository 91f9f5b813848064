#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "reports/result.h"
#include "suite/probes/memory_probe.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

/// What a trainer holds, as the memory probe wants it.
[[nodiscard]] OwnerRoots owner_roots(const Trainer& trainer);

/// "weights 0.97 MiB, activations 12.51 MiB": who held something at the section's peak, in the
/// table's order.
[[nodiscard]] std::string holders(const reports::MemorySection& section);

/// Adds "weights 0.97 MiB" behind a comma; nothing for no bytes.
void append_holder(std::string& words, std::string_view name, int64_t bytes);

/// The same of this moment, by a walk over what the trainer holds; "rest" is what else is live.
[[nodiscard]] std::string holders_now(const Trainer& trainer);

/// Runs `action`. A failed allocation in it comes out as OutOfMemory with holders_now(): the step
/// that failed has been cleaned up by then, so it tells what stays, not the peak.
void name_owners_when_full(const Trainer& trainer, const std::function<void()>& action);

}  // namespace noisemark::suite
