#include "memopt/replay/value_sample.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "memopt/replay/sample_device.h"

namespace noisemark::memopt {
namespace {

using replay::SampledElements;

/// The golden ratio's multiples, modulo one, leave no gap much larger than another.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
/// Of a position's share of the tensor, so that it times the elements stays within 64 bits.
constexpr int kShareBits = 24;

int64_t position(int64_t sample, int64_t elements) {
  if (elements <= SampledElements::kMost) return sample;
  const uint64_t share = (static_cast<uint64_t>(sample) * kGolden) >> (64 - kShareBits);
  return static_cast<int64_t>((share * static_cast<uint64_t>(elements)) >> kShareBits);
}

/// In elements, of the element that is `index`-th in the order of the dimensions.
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
  // Where the elements fill their memory, its order is as good as that of the dimensions.
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

}  // namespace noisemark::memopt
