#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>

#include "suite/parallel/group.h"

/// Only files of this folder include this header, because it shows c10d.
namespace noisemark::suite {

/// The counts that the backend's own threads and the group's thread share.
class Seen {
 public:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point time;
    double busy_s = 0;
  };

  void begin(int64_t bytes);
  void end(bool failed);
  [[nodiscard]] Mark mark();
  /// The group's thread has only waited since then, or copied what was on its way.
  void waited_since(const Mark& begin);

  [[nodiscard]] Traffic traffic();
  [[nodiscard]] bool failed() const;
  /// Returns when the last operation began.
  [[nodiscard]] Mark last_begin() const;

 private:
  void settle();  // under the lock

  mutable std::mutex mutex_;
  Traffic traffic_;
  int64_t open_ = 0;
  Clock::time_point settled_;
  Mark last_begin_;
  bool failed_ = false;
};

/// c10d's process group, whose sums are counted. It exchanges tensors of the CPU by Gloo.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Rank& rank, std::chrono::milliseconds limit,
    const std::shared_ptr<Seen>& seen);

/// Lets the group exchange tensors of `device`, a GPU, by NCCL, and connects the ranks. To be
/// called only where has_nccl().
void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const Rank& rank, std::chrono::milliseconds limit, const std::shared_ptr<Seen>& seen,
              at::Device device);

/// The counts that the group's process group has seen.
[[nodiscard]] Seen& seen_by(const Group& group);

/// The process group of a joined group.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group_of(const Group& group);

/// Does an operation of the group, or begins it. Throws GroupLost.
template <class Operation>
auto in_group(Group& group, const Operation& operation) {
  try {
    return operation();
  } catch (const std::exception& error) {
    throw group.lost(error);
  }
}

/// The same for one in which the group's thread does nothing but wait, which is counted.
template <class Operation>
void wait_in_group(Group& group, const Operation& operation) {
  const Seen::Mark begin = seen_by(group).mark();
  in_group(group, operation);
  seen_by(group).waited_since(begin);
}

}  // namespace noisemark::suite
