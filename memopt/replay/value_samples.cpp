#include "memopt/replay/value_samples.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/codecs/encoding.h"
#include "memopt/replay/sample_device.h"

namespace noisemark::memopt {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.strides() != b.strides() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  if (a.numel() == 0) return true;  // there is no address to compare at
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  if (x.is_cpu()) return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  return x.view(-1).view(at::kByte).equal(y.view(-1).view(at::kByte));
}

at::Tensor real_elements(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
  if (!dense.is_complex()) return dense;
  const at::Tensor pairs = at::view_as_real(dense.resolve_conj());
  return dense.dim() == 0 ? pairs : pairs.flatten(-2);
}

namespace {

using replay::SampledElements;

/// The golden ratio's multiples, modulo one, leave no gap much larger than another.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
/// The bits of a position's share of the tensor, so that it times the elements stays within 64
/// bits.
constexpr int kShareBits = 24;

int64_t position(int64_t sample, int64_t elements) {
  if (elements <= SampledElements::kMost) return sample;
  const uint64_t share = (static_cast<uint64_t>(sample) * kGolden) >> (64 - kShareBits);
  return static_cast<int64_t>((share * static_cast<uint64_t>(elements)) >> kShareBits);
}

/// Returns the offset, in elements, of the element that is `index`-th in the order of the
/// dimensions.
int64_t offset_of(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t index) {
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    offset += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return offset;
}

uint64_t digest_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu(), "a sample of a tensor of ", tensor.device(), " on the CPU");
  uint64_t digest = 0;
  replay::cpu_sample_device().take(sample_of(tensor), &digest);
  return digest;
}

}  // namespace

SampledElements sample_of(const at::Tensor& tensor) {
  SampledElements sample;
  if (!tensor.has_storage() || tensor.numel() == 0) return sample;
  sample.data = static_cast<const unsigned char*>(tensor.const_data_ptr());
  sample.element_bytes = static_cast<int32_t>(tensor.element_size());
  sample.count =
      static_cast<int32_t>(std::min(tensor.numel(), static_cast<int64_t>(SampledElements::kMost)));
  // If the elements fill their memory, its order is as good as that of the dimensions.
  const bool dense = tensor.is_non_overlapping_and_dense();
  for (int32_t i = 0; i < sample.count; ++i) {
    const int64_t at = position(i, tensor.numel());
    const int64_t offset = dense ? at : offset_of(tensor.sizes(), tensor.strides(), at);
    sample.offsets[i] = offset * sample.element_bytes;
  }
  return sample;
}

ValueSample::ValueSample(const at::Tensor& tensor) : digest_(digest_of(tensor)) {}

bool ValueSample::fits(const at::Tensor& tensor) const {
  return digest_of(tensor) == digest_;
}

namespace {

/// Nothing of this is the program's.
class OwnWork {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  at::DisableRecordFunctionGuard no_callbacks_;
  OwnerScope owner_{Owner::kEncoded};
};

/// The answer of a device whose work is done when it has been issued.
class KnownAnswer final : public DeviceAnswer {
 public:
  explicit KnownAnswer(State state) : state_(state) {}
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

std::unique_ptr<DeviceAnswer> DeviceDoubt::ask() const {
  const OwnWork own;
  if (!device().is_cpu()) return std::make_unique<codecs::AsyncAnswer>(flag_);
  const bool none = *flag_.const_data_ptr<int32_t>() == 0;
  return std::make_unique<KnownAnswer>(none ? DeviceAnswer::State::kHolds
                                            : DeviceAnswer::State::kLost);
}

ValueSamples::ValueSamples(size_t slots, std::shared_ptr<DeviceDoubt> doubt)
    : here_(slots), late_(slots, false), doubt_(std::move(doubt)) {}

bool ValueSamples::is_compared_late(const at::Tensor& tensor) const {
  return doubt_ != nullptr && tensor.device() == doubt_->device();
}

uint64_t* ValueSamples::digest_at(SlotId slot) {
  return reinterpret_cast<uint64_t*>(digests_.mutable_data_ptr<int64_t>()) +
         static_cast<size_t>(slot);
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
                  "recomputed: an argument of an operator that it is made from has changed since ",
                  "the forward pass was recorded. From the next step on all that it is made from ",
                  "is kept");
}

}  // namespace noisemark::memopt

namespace noisemark::memopt::replay {
namespace {

uint64_t digest_of(const SampledElements& sample) {
  uint64_t digest = 0;
  for (int32_t i = 0; i < sample.count; ++i) digest += share_of_digest(sample, i);
  return digest;
}

class CpuSampleDevice final : public SampleDevice {
 public:
  void take(const SampledElements& sample, uint64_t* digest) const override {
    *digest = digest_of(sample);
  }
  void compare(const SampledElements& sample, const uint64_t* digest, int32_t number,
               int32_t* flag) const override {
    if (*flag == 0 && digest_of(sample) != *digest) *flag = number;
  }
};

}  // namespace

const SampleDevice& cpu_sample_device() {
  static const CpuSampleDevice device;
  return device;
}

}  // namespace noisemark::memopt::replay
