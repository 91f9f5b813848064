#pragma once

#include <ATen/record_function.h>

namespace noisemark::memopt {

/// Has LibTorch call `callback` for the operators of this thread; does nothing where it does so
/// already. The callback is known by its `start()`: guards of thread state
/// (at::ThreadLocalStateGuard) exchange the thread's list of callbacks, after which it may lack one
/// that was added, and have one that was removed, both under handles of another time.
void add_operator_callback(const at::RecordFunctionCallback& callback);

/// Ends that. Does nothing where the callback is not there.
void remove_operator_callback(at::RecordFunctionCallback::StartCallback start);

}  // namespace noisemark::memopt
