#include "memopt/replay/value_samples.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/StringUtil.h>

#include <utility>

#include "memopt/tracking_allocator.h"

namespace noisemark::memopt {

ValueSamples::ValueSamples(size_t slots, std::shared_ptr<DeviceDoubt> doubt)
    : here_(slots), late_(slots, false), doubt_(std::move(doubt)) {}

bool ValueSamples::is_compared_late(const at::Tensor& tensor) const {
  return doubt_ != nullptr && tensor.device() == doubt_->device();
}

uint64_t* ValueSamples::digest_at(SlotId slot) {
  return reinterpret_cast<uint64_t*>(digests_.mutable_data_ptr<int64_t>()) + slot;
}

void ValueSamples::take(SlotId slot, const at::Tensor& tensor) {
  const auto at = static_cast<size_t>(slot);
  if (is_compared_late(tensor)) {
    const c10::DeviceGuard guard(tensor.device());
    if (!digests_.defined()) {
      const at::DisableRecordFunctionGuard no_callbacks;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const OwnerScope owner(Owner::kEncoded);
      digests_ = at::empty({static_cast<int64_t>(late_.size())},
                           at::device(tensor.device()).dtype(at::kLong));
    }
    doubt_->kernels().take(sample_of(tensor), digest_at(slot));
    late_[at] = true;
  } else if (tensor.is_cpu()) {
    here_[at].emplace(tensor);
  }
}

bool ValueSamples::fits(SlotId slot, const at::Tensor& made_again) {
  const auto at = static_cast<size_t>(slot);
  if (here_[at].has_value()) return here_[at]->fits(made_again);
  if (!late_[at]) return true;
  const c10::DeviceGuard guard(made_again.device());
  doubt_->kernels().compare(sample_of(made_again), digest_at(slot), number_of(slot),
                            doubt_->flag().mutable_data_ptr<int32_t>());
  return true;
}

std::string not_what_forward_had(const StepGraph& graph, SlotId slot) {
  const ValueId value = graph.slots[static_cast<size_t>(slot)].value;
  return c10::str(graph.words_for(value), ", of shape ",
                  at::IntArrayRef(graph.values[static_cast<size_t>(value)].sizes), ", which ",
                  graph.saver_of(slot), " saved for backward, is not what forward had when it is ",
                  "made again: an argument of an operator that it is made from has changed since ",
                  "the forward pass was recorded. From the next step on all that it is made from ",
                  "is kept");
}

}  // namespace noisemark::memopt
