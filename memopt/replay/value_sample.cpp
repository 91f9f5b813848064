#include "memopt/replay/value_sample.h"

#include <algorithm>
#include <cstring>

namespace noisemark::memopt {
namespace {

/// The golden ratio's multiples, modulo one, leave no gap much larger than another.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
/// Of a position's share of the tensor, so that it times the elements stays within 64 bits.
constexpr int kShareBits = 24;

int64_t position(int64_t sample, int64_t elements) {
  if (elements <= ValueSample::kElements) return sample;
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

/// Calls `visit(number, element)` for each element of the sample.
template <typename Visit>
void for_each_element(const at::Tensor& tensor, Visit visit) {
  if (!tensor.is_cpu() || !tensor.has_storage()) return;
  const int64_t elements = tensor.numel();
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  const auto size = static_cast<size_t>(tensor.element_size());
  // Where the elements fill their memory, its order is as good as that of the dimensions.
  const bool dense = tensor.is_non_overlapping_and_dense();
  for (int64_t i = 0; i < std::min(elements, ValueSample::kElements); ++i) {
    const int64_t at = position(i, elements);
    const int64_t offset = dense ? at : offset_of(tensor.sizes(), tensor.strides(), at);
    visit(static_cast<size_t>(i), data + static_cast<size_t>(offset) * size);
  }
}

}  // namespace

ValueSample::ValueSample(const at::Tensor& tensor) {
  const auto size = static_cast<size_t>(tensor.element_size());
  const int64_t count = tensor.is_cpu() ? std::min(tensor.numel(), kElements) : 0;
  elements_.resize(static_cast<size_t>(count) * size);
  for_each_element(tensor, [&](size_t number, const std::byte* element) {
    std::memcpy(elements_.data() + number * size, element, size);
  });
}

bool ValueSample::fits(const at::Tensor& tensor) const {
  const auto size = static_cast<size_t>(tensor.element_size());
  bool same = true;
  for_each_element(tensor, [&](size_t number, const std::byte* element) {
    same = same && (number + 1) * size <= elements_.size() &&
           std::memcmp(elements_.data() + number * size, element, size) == 0;
  });
  return same;
}

}  // namespace noisemark::memopt
