#include "memopt/codecs/encoding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/device/repeated_work.h"

namespace noisemark::memopt::codecs {

AsyncAnswer::AsyncAnswer(const at::Tensor& flag) : arrived_(flag.device().type()) {
  const c10::DeviceGuard guard(flag.device());
  answer_ = at::empty({1}, at::TensorOptions().dtype(at::kInt).pinned_memory(true));
  answer_.copy_(flag, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl device(flag.device().type());
  arrived_.record(device.getStream(flag.device()));
}

DeviceAnswer::State AsyncAnswer::poll() {
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

DeviceAnswer::State AsyncAnswer::wait() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kPending) return state_;
  arrived_.synchronize();
  return read();
}

DeviceAnswer::State AsyncAnswer::read() {
  state_ = *answer_.const_data_ptr<int32_t>() == 0 ? State::kHolds : State::kLost;
  answer_.reset();
  return state_;
}

bool is_dense(const at::Tensor& x) {
  return x.layout() == at::kStrided && x.numel() > 0 && !x.is_neg() && !x.is_conj() &&
         x.is_non_overlapping_and_dense();
}

const CodecDevice* device_for(const at::Tensor& x) {
  return is_dense(x) ? find_codec_device(x.device()) : nullptr;
}

const CodecDevice& device_of(const Encoded& encoded) {
  const CodecDevice* device = find_codec_device(encoded.parts.at(0).device());
  TORCH_CHECK(device != nullptr, "codecs: no device for ", encoded.parts[0].device());
  return *device;
}

std::optional<Real> real_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Real::kFloat32;
    case at::kBFloat16:
      return Real::kBFloat16;
    case at::kHalf:
      return Real::kFloat16;
    default:
      return std::nullopt;
  }
}

Encoded described(const at::Tensor& x) {
  Encoded encoded;
  encoded.sizes = x.sizes().vec();
  encoded.strides = x.strides().vec();
  encoded.dtype = x.scalar_type();
  return encoded;
}

std::vector<at::Tensor> new_parts(const at::Tensor& x, const std::vector<PartSize>& sizes) {
  const OwnerScope owner(Owner::kEncoded);
  std::vector<at::Tensor> parts;
  for (const PartSize& size : sizes) {
    const auto options = at::TensorOptions().dtype(size.type).device(x.device());
    parts.push_back(at::empty({size.elements}, options));
  }
  return parts;
}

int64_t bytes_of(const std::vector<PartSize>& parts) {
  int64_t bytes = 0;
  for (const PartSize& part : parts) bytes += part.bytes();
  return bytes;
}

at::Tensor new_decoded(const Encoded& encoded) {
  const OwnerScope owner(Owner::kRematerialized);
  const auto options =
      at::TensorOptions().dtype(encoded.dtype).device(encoded.parts.at(0).device());
  return at::empty_strided(encoded.sizes, encoded.strides, options);
}

LostFlag::LostFlag(const at::Tensor& x) {
  require_host("in every step the host reads whether an encoding holds all of its tensor");
  const OwnerScope owner(Owner::kEncoded);
  flag_ = at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(x.device()));
}

bool LostFlag::settle(Encoded& encoded) const {
  if (flag_.is_cpu()) return *data() == 0;
  encoded.answer = std::make_shared<AsyncAnswer>(flag_);
  return true;
}

void require_kept(const Codec& codec, const Encoded& encoded) {
  TORCH_CHECK(encoded.answer == nullptr || encoded.answer->wait() == DeviceAnswer::State::kHolds,
              codec.name(), ": the tensor did not fit, and was let go before that was known");
}

bool refuses(RoundedValues values, const at::Tensor& extent) {
  return values == RoundedValues::kFinite && extent.is_cpu() && !all_finite(*words_of(extent));
}

namespace {

bool needs_nonzero(FieldForm form) {
  return form == FieldForm::kTwoValues16 || form == FieldForm::kTwoValues32;
}
bool may_lose(FieldForm form) {
  return needs_nonzero(form) || form == FieldForm::kNarrowBFloat16 ||
         form == FieldForm::kNarrowFloat16 || form == FieldForm::kPoolPosition;
}

void find_number(const CodecDevice& device, const FieldJob& job, int element_bytes,
                 uint32_t* number) {
  const SearchJob search{job.real, element_bytes, job.x, job.count, number};
  is_reduced(job.form) ? device.find_extent(search) : device.find_nonzero(search);
}

}  // namespace

std::vector<PartSize> parts_of_fields(int64_t elements, FieldForm form) {
  std::vector<PartSize> parts = {{blocks_of(elements, elements_per_block(form)) * kLanes}};
  if (is_reduced(form) || needs_nonzero(form)) parts.push_back({1});
  return parts;
}

std::optional<Encoded> encode_fields(const at::Tensor& x, FieldJob job, bool fits) {
  const CodecDevice* device = device_for(x);
  if (device == nullptr) return std::nullopt;
  const std::vector<PartSize> sizes = parts_of_fields(x.numel(), job.form);
  if (bytes_of(sizes) >= static_cast<int64_t>(x.nbytes())) return std::nullopt;
  const c10::DeviceGuard guard(x.device());
  Encoded encoded = described(x);
  encoded.parts = new_parts(x, sizes);
  job.x = x.const_data_ptr();
  job.words = words_of(encoded.parts[0]);
  job.count = x.numel();
  if (sizes.size() > 1) {
    uint32_t* number = words_of(encoded.parts[1]);
    find_number(*device, job, static_cast<int>(x.element_size()), number);
    job.common.number = number;
  }
  if (fits || !may_lose(job.form)) {
    device->encode(job);
    return encoded;
  }
  const LostFlag flag(x);
  job.lost = flag.data();
  device->encode(job);
  if (!flag.settle(encoded)) return std::nullopt;
  return encoded;
}

at::Tensor decode_fields(const Codec& codec, const Encoded& encoded, FieldJob job) {
  require_kept(codec, encoded);
  const c10::DeviceGuard guard(encoded.parts.at(0).device());
  at::Tensor x = new_decoded(encoded);
  job.y = x.mutable_data_ptr();
  job.words = words_of(encoded.parts[0]);
  job.count = x.numel();
  if (encoded.parts.size() > 1) job.common.number = words_of(encoded.parts[1]);
  device_of(encoded).decode(job);
  return x;
}

}  // namespace noisemark::memopt::codecs
