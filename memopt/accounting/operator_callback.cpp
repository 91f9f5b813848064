#include "memopt/accounting/operator_callback.h"

#include <algorithm>

namespace noisemark::memopt {
namespace {

/// INVALID_CALLBACK_HANDLE: it is not there.
at::CallbackHandle handle_of(at::RecordFunctionCallback::StartCallback start) {
  const at::RecordFunctionCallbacks& all = at::get_record_function_tls_().sorted_tls_callbacks_;
  const auto found = std::find_if(
      all.begin(), all.end(), [start](const auto& one) { return one.callback_.start() == start; });
  return found == all.end() ? at::INVALID_CALLBACK_HANDLE : found->handle_;
}

}  // namespace

void add_operator_callback(const at::RecordFunctionCallback& callback) {
  if (handle_of(callback.start()) != at::INVALID_CALLBACK_HANDLE) return;
  at::addThreadLocalCallback(callback);
}

void remove_operator_callback(at::RecordFunctionCallback::StartCallback start) {
  const at::CallbackHandle handle = handle_of(start);
  if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
}

}  // namespace noisemark::memopt
