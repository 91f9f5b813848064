#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/owner.h"

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// One call of an operator, as LibTorch's dispatcher reports it.
struct OperatorFrame {
  static constexpr size_t kOpen = std::numeric_limits<size_t>::max();
  std::string name;      ///< "aten::convolution"
  uint32_t parent = 0;   ///< id of the operator that called it, 0: none
  size_t opened_at = 0;  ///< time as told by the tracker's clock
  size_t closed_at = kOpen;
  bool calls_library = false;  ///< hands its work to a library that may want scratch memory
  bool casts_weight = false;   ///< a conversion of a parameter to another type
};

/// While alive, follows the operators of the thread that made it, and of autograd's threads that
/// work for it. One at a time in a process; must die on the thread that made it. Ids begin at 1.
class OperatorTracker {
 public:
  /// `clock` is asked when an operator begins and ends; `parameters` are those whose casts are to
  /// be recognised.
  OperatorTracker(std::function<size_t()> clock, const std::vector<at::Tensor>& parameters);
  ~OperatorTracker();
  OperatorTracker(const OperatorTracker&) = delete;
  OperatorTracker& operator=(const OperatorTracker&) = delete;

  /// The innermost operator for which the calling thread works, 0: none. A thread of a parallel
  /// region works for the operator that opened the region. Any thread may ask.
  [[nodiscard]] uint32_t current() const noexcept;

  /// Id i is at index i - 1. Do not call it while operators run.
  [[nodiscard]] std::vector<OperatorFrame> take_frames();

 private:
  friend class OperatorCall;
  /// Returns the new frame's id.
  uint32_t open(std::string name, bool casts_weight);
  void close(uint32_t id, uint32_t thread_parent);
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  [[nodiscard]] bool is_cast_of_parameter(const at::RecordFunction& function) const;

  std::function<size_t()> clock_;
  std::vector<at::Tensor> parameters_;  ///< they live, so that no address below is used again
  std::unordered_set<const c10::StorageImpl*> parameter_storages_;
  std::vector<OperatorFrame> frames_;
};

/// While alive, the calling thread works for an operator that the dispatcher's callbacks do not
/// see: one that is run again. Does nothing where no tracker follows this thread.
class [[nodiscard]] OperatorCall {
 public:
  explicit OperatorCall(const std::string& name);
  ~OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

 private:
  OperatorTracker* tracker_ = nullptr;
  uint32_t id_ = 0;
  uint32_t thread_parent_ = 0;
};

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
  int64_t time_ns = 0;  ///< time from the opening of the log
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
  std::vector<OwnedBlock> owned;  ///< blocks found by the walk
  int64_t live_bytes = 0;         ///< the allocator's own count
};

/// One variable that autograd saved.
struct SavedRecord {
  uint64_t number = 0;
  int64_t bytes = 0;  ///< size of the variable, which may be a part of its block
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
using OwnedTensors = std::map<Owner, std::vector<at::Tensor>>;

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

  /// Hooks that do what `hooks` do and tell the log. They may outlive it.
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
