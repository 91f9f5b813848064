#include "memopt/codecs/async_verdict.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace noisemark::memopt::codecs {

AsyncVerdict::AsyncVerdict(const at::Tensor& flag) : arrived_(flag.device().type()) {
  const c10::DeviceGuard guard(flag.device());
  answer_ = at::empty({1}, at::TensorOptions().dtype(at::kInt).pinned_memory(true));
  answer_.copy_(flag, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl device(flag.device().type());
  arrived_.record(device.getStream(flag.device()));
}

Verdict::State AsyncVerdict::poll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kPending) return state_;
  try {
    return arrived_.query() ? read() : state_;
  } catch (const c10::Error&) {
    // A kernel failed, maybe another one: whoever waits next is told. This may be asked while
    // something is taken apart, which must not throw.
    return State::kPending;
  }
}

Verdict::State AsyncVerdict::wait() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kPending) return state_;
  arrived_.synchronize();
  return read();
}

Verdict::State AsyncVerdict::read() {
  state_ = *answer_.const_data_ptr<int32_t>() == 0 ? State::kHolds : State::kLost;
  answer_.reset();
  return state_;
}

}  // namespace noisemark::memopt::codecs
