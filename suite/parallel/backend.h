#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

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
  void settle();  // its caller holds the lock

  mutable std::mutex mutex_;
  Traffic traffic_;
  int64_t open_ = 0;
  Clock::time_point settled_;
  Mark last_begin_;
  bool failed_ = false;
};

/// Counts the sums, broadcasts and gatherings of one of c10d's backends.
template <typename Backend>
class Counted final : public Backend {
 public:
  template <typename... Arguments>
  explicit Counted(std::shared_ptr<Seen> seen, Arguments&&... arguments)
      : Backend(std::forward<Arguments>(arguments)...), seen_(std::move(seen)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return counted(tensors, [&] { return Backend::allreduce(tensors, options); });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return counted(tensors, [&] { return Backend::broadcast(tensors, options); });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& taken,
                                           std::vector<at::Tensor>& given,
                                           const c10d::AllgatherOptions& options) override {
    return counted(given, [&] { return Backend::allgather(taken, given, options); });
  }

 private:
  template <typename Begin>
  c10::intrusive_ptr<c10d::Work> counted(const std::vector<at::Tensor>& tensors,
                                         const Begin& begin) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    seen_->begin(bytes);
    auto work = begin();
    work->getFuture()->addCallback(
        [seen = seen_](c10::ivalue::Future& future) { seen->end(future.hasError()); });
    return work;
  }

  std::shared_ptr<Seen> seen_;
};

/// c10d's process group, whose sums are counted. It exchanges tensors of the CPU by Gloo.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Rank& rank, std::chrono::milliseconds limit,
    const std::shared_ptr<Seen>& seen);

/// Lets the group exchange tensors of `device`, a GPU, by NCCL, and connects the ranks. Call it
/// only where has_nccl().
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
