#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "memopt/accounting/allocation_log.h"

namespace noisemark::suite {

/// Writes what Python's pickle reads, protocol 2, of the few types that a file of figures needs.
/// Only opcodes that LibTorch's own pickler writes are used, so readers made for that (PyTorch's
/// memory viewer is one, in a browser) read it too. Values are written in the order of the calls; a
/// dictionary's are key, value, key, value. What is left open or out of place makes no valid file.
class PickleWriter {
 public:
  PickleWriter();

  void begin_list();
  void end_list();
  void begin_dict();
  void end_dict();
  /// A string in UTF-8; an equal one is written once and then referred to.
  void text(std::string_view value);
  void integer(int64_t value);
  void number(double value);

  /// Refers to the value that was remembered under `key`; false, and nothing is written, when there
  /// is none.
  [[nodiscard]] bool recall(const std::string& key);
  /// Remembers the value that was just completed.
  void remember(const std::string& key);

  /// The file. Call once.
  [[nodiscard]] std::string finish();

 private:
  void put(char opcode) { bytes_ += opcode; }
  /// `count` bytes, the lowest first.
  void put_little_endian(uint64_t value, int count);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> remembered_;
};

/// A step's allocations as a file that PyTorch's memory viewer opens
/// (https://pytorch.org/memory_viz, `python -m torch.cuda._memory_viz`).

/// Addresses for blocks that are known by number only: each as low as there is room, in units of
/// 512 bytes, as CUDA's caching allocator rounds.
class AddressSpace {
 public:
  static constexpr int64_t kUnit = 512;
  static constexpr int64_t kBegin = int64_t{1} << 20;

  [[nodiscard]] static int64_t rounded(int64_t bytes);
  [[nodiscard]] int64_t take(int64_t bytes);
  void give_back(int64_t address, int64_t bytes);
  /// The length from kBegin to the highest end that there ever was.
  [[nodiscard]] int64_t extent() const { return end_ - kBegin; }

 private:
  std::map<int64_t, int64_t> gaps_;  ///< begin -> size, below end_
  int64_t end_ = kBegin;
};

/// The dictionary that torch.cuda.memory._snapshot() returns, pickled: the allocations and releases
/// of the step in `device_traces`, with what was live at its begin as allocations before it, and
/// what is live at its end in `segments`, as one segment. What the log has not seen of it is a
/// block for each owner in whose scope it was born, as results count it. Every block has a
/// `category`, the first owner in memopt's order that it had at any time ("unknown" where it had
/// none), by which the viewer colours it, and in `frames` its owner, the operators that made it,
/// the innermost first, and the phase. Sizes, order and times are those of the step; addresses are
/// those of AddressSpace. On a CPU it is device 0.
[[nodiscard]] std::string snapshot_of(const memopt::AllocationRecord& record, c10::Device device);

}  // namespace noisemark::suite
