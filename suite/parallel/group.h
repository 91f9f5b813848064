#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "suite/parallel/rank.h"

namespace noisemark::suite {

/// The ranks cannot go on together. what() is the first cause that any of them knew, and all of
/// them throw the same one where the store can still be asked.
class GroupLost : public Error {
 public:
  using Error::Error;
};

/// The sums, broadcasts and gatherings that a rank took part in.
struct Traffic {
  int64_t operations = 0;
  int64_t bytes = 0;     ///< size of the tensors, once; in a gathering, of those the rank gives
  double busy_s = 0;     ///< time in which at least one of them was on its way, or copied
  double exposed_s = 0;  ///< part of busy_s in which the rank did nothing but wait
};

Traffic& operator+=(Traffic& to, const Traffic& more);
[[nodiscard]] Traffic operator-(const Traffic& a, const Traffic& b);

/// Returns whether this build has NCCL, by which ranks on GPUs exchange tensors.
[[nodiscard]] bool has_nccl();

/// The ranks of one training, joined: c10d's process group, and the store by which they found each
/// other. Every wait ends within the time limit: a rank that fails says why (leave()), one that was
/// killed or stopped gives no sign of life any more, and the others name it. It is used by one
/// thread; all ranks must call the same functions in the same order.
class Group {
 public:
  /// Waits for all ranks. Each computes on its own `device`, which becomes the current one; a GPU
  /// needs has_nccl(). Throws Error, exit code 2, for an address or port that cannot be used;
  /// GroupLost with the ranks that did not come.
  static std::shared_ptr<Group> join(const Rank& rank, std::chrono::milliseconds limit,
                                     at::Device device = at::kCPU);

  /// Waits, within the limit, until all ranks are here: rank 0 keeps the store.
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] const Rank& rank() const { return rank_; }
  [[nodiscard]] BatchShare share() const { return {rank_.rank, rank_.ranks}; }
  /// Returns "gloo" on CPUs, "nccl" on GPUs.
  [[nodiscard]] virtual std::string backend() const = 0;
  /// Returns whether traffic() has seconds. NCCL works on a stream, which the host does not see.
  [[nodiscard]] bool times_traffic() const { return backend() == "gloo"; }

  /// Gives all ranks the values that the tensors have on rank 0.
  virtual void broadcast(const std::vector<at::Tensor>& tensors) = 0;
  /// The mean over the ranks; the same bits on each of them.
  [[nodiscard]] virtual double mean(double value) = 0;
  /// The texts of all ranks, in their order.
  [[nodiscard]] virtual std::vector<std::string> exchange(const std::string& text) = 0;
  /// Throws Error, exit code 3, on every rank when one has another `value` than rank 0.
  void require_equal(const std::string& what, const std::string& value);

  /// Returns what was exchanged since the beginning.
  [[nodiscard]] virtual Traffic traffic() const = 0;
  /// A sum did not come to its end.
  [[nodiscard]] virtual bool failed() const = 0;

  /// Tells the others why this rank ends before its time. The first word stands.
  virtual void leave(ExitCode code, const std::string& cause) noexcept = 0;
  /// The cause of `failure`, which an operation of the group threw.
  [[nodiscard]] virtual GroupLost lost(const std::exception& failure) noexcept = 0;

 protected:
  explicit Group(Rank rank) : rank_(std::move(rank)) {}

 private:
  Rank rank_;
};

}  // namespace noisemark::suite
