#include "memopt/codecs/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "memopt/codecs/async_verdict.h"
#include "memopt/device_parts.h"
#include "memopt/repeated_work.h"
#include "memopt/tracking_allocator.h"

namespace noisemark::memopt::codecs {

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

at::Tensor new_part(const at::Tensor& x, int64_t count, at::ScalarType type) {
  const OwnerScope owner(Owner::kEncoded);
  return at::empty({count}, at::TensorOptions().dtype(type).device(x.device()));
}

at::Tensor new_decoded(const Encoded& encoded) {
  const OwnerScope owner(Owner::kRematerialized);
  const auto options =
      at::TensorOptions().dtype(encoded.dtype).device(encoded.parts.at(0).device());
  return at::empty_strided(encoded.sizes, encoded.strides, options);
}

LossFlag::LossFlag(const at::Tensor& x) {
  require_host("in every step the host reads whether an encoding holds all of its tensor");
  const OwnerScope owner(Owner::kEncoded);
  flag_ = at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(x.device()));
}

bool LossFlag::settle(Encoded& encoded) const {
  if (flag_.is_cpu()) return *data() == 0;
  encoded.verdict = std::make_shared<AsyncVerdict>(flag_);
  return true;
}

void require_kept(const Codec& codec, const Encoded& encoded) {
  TORCH_CHECK(encoded.verdict == nullptr || encoded.verdict->wait() == Verdict::State::kHolds,
              codec.name(), ": the tensor did not fit, and was let go before that was known");
}

}  // namespace noisemark::memopt::codecs
