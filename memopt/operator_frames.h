#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

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

  /// Id i is at index i - 1. Not while operators run.
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
  std::vector<at::Tensor> parameters_;  ///< held, so that no address below is used again
  std::unordered_set<const c10::StorageImpl*> parameter_storages_;
  std::vector<OperatorFrame> frames_;
  at::CallbackHandle handle_;
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

}  // namespace noisemark::memopt
