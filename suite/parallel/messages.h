#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "suite/parallel/group.h"

namespace noisemark::suite {

/// Tensors on their way from one rank to another (c10d's send and recv). Of the traffic a rank
/// counts the bytes that it gives, and the time for which it waits. It is used by one thread.
class Messages {
 public:
  explicit Messages(std::shared_ptr<Group> group);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Begins to give `tensor` to rank `to`, does not wait, and keeps the tensor until settle().
  /// Messages to one rank that are on their way together have different tags. Throws GroupLost.
  void send(const at::Tensor& tensor, int64_t to, int64_t tag);
  /// Waits until that message has been taken, and lets go of its tensor. Does nothing if there is
  /// no such message. Throws GroupLost.
  void settle(int64_t to, int64_t tag);
  /// Settles all messages. Throws GroupLost.
  void settle_all();
  /// Waits for a message and writes it into `tensor`, which has the layout of what was sent. Throws
  /// GroupLost.
  void receive(at::Tensor& tensor, int64_t from, int64_t tag);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A tensor of every rank, of one shape and type, on its way to all of them (c10d's allgather). All
/// ranks must begin their gatherings in the same order. Of the traffic a rank counts the bytes that
/// it gives.
class Gathering {
 public:
  /// Begins, and does not wait. `own` must keep its values until wait() has returned.
  Gathering(std::shared_ptr<Group> group, const at::Tensor& own);

  /// Returns the tensors by rank, row-major. Throws GroupLost.
  [[nodiscard]] const std::vector<at::Tensor>& wait();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace noisemark::suite
