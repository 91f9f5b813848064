#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memopt/codecs/codec.h"

/// Tensors by their bits.
namespace noisemark::memopt::test {

[[nodiscard]] at::Tensor float_tensor(const std::vector<uint32_t>& bits);
/// `type` bfloat16 or float16.
[[nodiscard]] at::Tensor half_tensor(const std::vector<uint16_t>& bits, at::ScalarType type);

/// The key of an encoding whose draws are not looked at.
inline const EncodeKey kAnyKey;

/// Every kind of binary32: zeros, subnormals, normals, the ends of each, infinities, quiet and
/// signalling NaN with payloads in every part, both signs.
[[nodiscard]] std::vector<uint32_t> float_classes();

/// Sizes, strides, type and every byte. Both dense.
[[nodiscard]] bool same_bits(const at::Tensor& a, const at::Tensor& b);
[[nodiscard]] bool same_parts(const Encoded& a, const Encoded& b);

/// x's memory as a vector, and as a tensor of one dimension. x is dense.
[[nodiscard]] at::Tensor flat(const at::Tensor& x);

/// Seeded standard normals.
[[nodiscard]] at::Tensor normals(at::IntArrayRef sizes, uint64_t seed = 1);

/// The same elements, the same sizes, and memory in the order of `dims`.
[[nodiscard]] at::Tensor in_memory_order(const at::Tensor& x, at::IntArrayRef dims);

struct NamedCodec {
  std::string name;
  std::shared_ptr<Codec> codec;
};
/// All codecs but the one that takes only index maps; ssdc with room for 60 %.
[[nodiscard]] std::vector<NamedCodec> all_codecs();
/// Float32 that the codec takes, made of normals.
[[nodiscard]] at::Tensor suitable_for(const std::string& codec, const at::Tensor& normals);

}  // namespace noisemark::memopt::test
