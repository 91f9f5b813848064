#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memopt/allocation_source.h"
#include "memopt/operator_frames.h"
#include "memopt/owner.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// One thing that happened while a log was open. All times in a log are indices: event i happens at
/// instant i + 1, and instant 0 is the opening.
struct LogEvent {
  enum class Kind : uint8_t {
    kAllocate,
    kRelease,
    kSaved,    ///< the first saved variable now holds the block
    kUnsaved,  ///< the last one that held it is gone
    kMark,
  };
  Kind kind = Kind::kMark;
  uint32_t thread = 0;  ///< ordinal of the thread, by first appearance in the process
  uint32_t frame = 0;   ///< operator that the thread worked for, 0: none
  Block block;
  int64_t time_ns = 0;  ///< since the log was opened
};

/// A block found by walking one of its owners.
struct OwnedBlock {
  Block block;
  Owner owner = Owner::kUnattributed;
};

/// A phase began or ended.
struct LogMark {
  std::string name;
  size_t instant = 0;
  bool walked = false;            ///< owners were walked here: a boundary
  std::vector<OwnedBlock> owned;  ///< what the walk found
  int64_t live_bytes = 0;         ///< what the allocator itself says
};

/// One variable that autograd saved.
struct SavedRecord {
  uint64_t number = 0;
  int64_t bytes = 0;  ///< of the variable, which may be a part of its block
  size_t begin = 0;   ///< instant
  size_t end = 0;     ///< instant; the last one when it was still saved at the end
};

/// All that a log saw, in the order in which it happened.
struct AllocationRecord {
  AllocationBaseline baseline;
  std::vector<LogEvent> events;
  std::vector<OperatorFrame> frames;  ///< id i at index i - 1; times are instants
  std::vector<LogMark> marks;
  std::vector<SavedRecord> saved;
};

/// Tensors by owner, as a walk hands them over. Undefined tensors and foreign memory are skipped.
using OwnedTensors = std::vector<std::pair<Owner, std::vector<at::Tensor>>>;

/// While open, writes down every allocation and release of a device, the operator and the phase
/// that they belong to, and which blocks autograd has saved. Open, mark and close on the training
/// thread, outside operators; everything else may happen on any thread. It changes no result.
class AllocationLog {
 public:
  /// Opens. `parameters`: whose casts are to be recognised as such. Throws when the source is
  /// listened to already.
  AllocationLog(AllocationSource& source, const std::vector<at::Tensor>& parameters);
  ~AllocationLog();
  AllocationLog(const AllocationLog&) = delete;
  AllocationLog& operator=(const AllocationLog&) = delete;

  /// Ends the current phase without a walk.
  void mark(std::string name);
  /// Ends the current phase and notes who owns what.
  void walk(std::string name, const OwnedTensors& owned);

  /// Hooks that do what `hooks` do (null: keep the tensor, as autograd would) and tell the log.
  /// They may outlive it.
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> observe(
      std::unique_ptr<torch::autograd::SavedVariableHooks> hooks);

  /// Closes and hands over. Call once.
  [[nodiscard]] AllocationRecord close();

 private:
  class Recorder;
  class ObservingHooks;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace noisemark::memopt
