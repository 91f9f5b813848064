#pragma once

#include <ATen/record_function.h>

#include <algorithm>

namespace noisemark::memopt {

/// Returns the handle of this thread's callback with that `start()`; INVALID_CALLBACK_HANDLE where
/// it is not there. Guards of thread state (at::ThreadLocalStateGuard) exchange the thread's list
/// of callbacks, after which it may lack one that was added, and have one that was removed, both
/// under handles of another time. So a callback is known by its `start()`.
[[nodiscard]] inline at::CallbackHandle handle_of(at::RecordFunctionCallback::StartCallback start) {
  const at::RecordFunctionCallbacks& all = at::get_record_function_tls_().sorted_tls_callbacks_;
  const auto found = std::find_if(
      all.begin(), all.end(), [start](const auto& one) { return one.callback_.start() == start; });
  return found == all.end() ? at::INVALID_CALLBACK_HANDLE : found->handle_;
}

/// Has LibTorch call `callback` for the operators of this thread; does nothing where it does so
/// already.
inline void add_operator_callback(const at::RecordFunctionCallback& callback) {
  if (handle_of(callback.start()) == at::INVALID_CALLBACK_HANDLE) {
    at::addThreadLocalCallback(callback);
  }
}

/// Ends that. Does nothing where the callback is not there.
inline void remove_operator_callback(at::RecordFunctionCallback::StartCallback start) {
  const at::CallbackHandle handle = handle_of(start);
  if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
}

}  // namespace noisemark::memopt
