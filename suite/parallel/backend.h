#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <chrono>
#include <memory>

#include "suite/parallel/group.h"

/// For this folder's own files: what knows c10d.
namespace noisemark::suite {

/// What the backend's own threads and the group's thread share.
struct Seen {
  std::atomic<int64_t> operations = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<bool> failed = false;
};

/// c10d's process group over Gloo, whose sums are counted.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Rank& rank, std::chrono::milliseconds limit,
    const std::shared_ptr<Seen>& seen);

/// The process group of a joined group.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group_of(const Group& group);

}  // namespace noisemark::suite
