#include "memopt/codecs/field_codec.h"

#include <c10/core/DeviceGuard.h>

#include <cstdint>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/tensors.h"

namespace noisemark::memopt::codecs {
namespace {

bool needs_extent(FieldForm form) {
  return form == FieldForm::kReduced16 || form == FieldForm::kReduced10 ||
         form == FieldForm::kReduced8;
}
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
  needs_extent(job.form) ? device.find_extent(search) : device.find_nonzero(search);
}

}  // namespace

std::optional<Encoded> encode_fields(const at::Tensor& x, FieldJob job, bool fits) {
  const CodecDevice* device = device_for(x);
  if (device == nullptr) return std::nullopt;
  const bool has_number = needs_extent(job.form) || needs_nonzero(job.form);
  const int64_t words = blocks_of(x.numel(), elements_per_block(job.form)) * kLanes;
  const int64_t numbers = has_number ? 1 : 0;
  if ((words + numbers) * static_cast<int64_t>(sizeof(uint32_t)) >=
      static_cast<int64_t>(x.nbytes())) {
    return std::nullopt;
  }
  const c10::DeviceGuard guard(x.device());
  Encoded encoded = described(x);
  encoded.parts.push_back(new_part(x, words, at::kInt));
  job.x = x.const_data_ptr();
  job.words = words_of(encoded.parts[0]);
  job.count = x.numel();
  if (has_number) {
    encoded.parts.push_back(new_part(x, 1, at::kInt));
    uint32_t* number = words_of(encoded.parts[1]);
    find_number(*device, job, static_cast<int>(x.element_size()), number);
    job.common.number = number;
  }
  if (fits || !may_lose(job.form)) {
    device->encode(job);
    return encoded;
  }
  const LossFlag flag(x);
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
