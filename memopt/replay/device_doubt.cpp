#include "memopt/replay/device_doubt.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include "memopt/codecs/async_verdict.h"
#include "memopt/tracking_allocator.h"

namespace noisemark::memopt {
namespace {

/// Nothing of this is the program's.
class OwnWork {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  at::DisableRecordFunctionGuard no_callbacks_;
  OwnerScope owner_{Owner::kEncoded};
};

/// Of a device whose work is done when it has been issued.
class KnownVerdict final : public Verdict {
 public:
  explicit KnownVerdict(State state) : state_(state) {}
  State poll() override { return state_; }
  State wait() override { return state_; }

 private:
  State state_;
};

}  // namespace

DeviceDoubt::DeviceDoubt(c10::Device device, const replay::SampleDevice& kernels)
    : kernels_(kernels) {
  const OwnWork own;
  flag_ = at::zeros({1}, at::device(device).dtype(at::kInt));
}

int32_t DeviceDoubt::take() {
  const OwnWork own;
  const auto number = flag_.item<int32_t>();
  if (number != 0) flag_.zero_();
  return number;
}

std::unique_ptr<Verdict> DeviceDoubt::ask() const {
  const OwnWork own;
  if (!device().is_cpu()) return std::make_unique<codecs::AsyncVerdict>(flag_);
  const bool none = *flag_.const_data_ptr<int32_t>() == 0;
  return std::make_unique<KnownVerdict>(none ? Verdict::State::kHolds : Verdict::State::kLost);
}

}  // namespace noisemark::memopt
