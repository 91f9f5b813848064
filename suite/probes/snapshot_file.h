#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>

#include "memopt/allocation_log.h"

/// A step's allocations as a file that PyTorch's memory viewer opens
/// (https://pytorch.org/memory_viz, `python -m torch.cuda._memory_viz`).
namespace noisemark::suite {

/// Addresses for blocks that are known by number only: each as low as there is room, in units of
/// 512 bytes, as CUDA's caching allocator rounds.
class AddressSpace {
 public:
  static constexpr int64_t kUnit = 512;
  static constexpr int64_t kBegin = int64_t{1} << 20;

  [[nodiscard]] static int64_t rounded(int64_t bytes);
  [[nodiscard]] int64_t take(int64_t bytes);
  void give_back(int64_t address, int64_t bytes);
  /// From kBegin to the highest end that there ever was.
  [[nodiscard]] int64_t extent() const { return end_ - kBegin; }

 private:
  std::map<int64_t, int64_t> gaps_;  ///< begin -> size, below end_
  int64_t end_ = kBegin;
};

/// The dictionary that torch.cuda.memory._snapshot() returns, pickled: the allocations and releases
/// of the step in `device_traces`, with what was live at its begin as allocations before it, and
/// what is live at its end in `segments`, as one segment. Every block has a `category`, the first
/// owner in memopt's order that it had at any time ("unknown" where it had none), by which the
/// viewer colours it, and in `frames` its owner, the operators that made it, the innermost first,
/// and the phase. Sizes, order and times are those of the step; addresses are those of
/// AddressSpace. On a CPU it is device 0.
[[nodiscard]] std::string snapshot_of(const memopt::AllocationRecord& record, c10::Device device);

}  // namespace noisemark::suite
