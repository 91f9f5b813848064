#include "tests/memopt/codecs/bits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cstring>

#include "memopt/codecs/codecs.h"
#include "memopt/modes/mode_grammar.h"

namespace noisemark::memopt::test {

at::Tensor float_tensor(const std::vector<uint32_t>& bits) {
  const at::Tensor x = at::empty({static_cast<int64_t>(bits.size())});
  std::memcpy(x.mutable_data_ptr(), bits.data(), x.nbytes());
  return x;
}

at::Tensor half_tensor(const std::vector<uint16_t>& bits, at::ScalarType type) {
  const at::Tensor x = at::empty({static_cast<int64_t>(bits.size())}, type);
  std::memcpy(x.mutable_data_ptr(), bits.data(), x.nbytes());
  return x;
}

std::vector<uint32_t> float_classes() {
  const uint32_t magnitudes[] = {
      0x00000000,                                      // zero
      0x00000001, 0x00000002, 0x00400000, 0x007fffff,  // subnormals
      0x00800000, 0x00800001, 0x33000000, 0x38800000,  // small normals
      0x3f800000, 0x3f800001, 0x3fc00000, 0x40490fdb,  // around one
      0x477fe000, 0x47800000, 0x7f7f0000, 0x7f7fffff,  // large ones
      0x7f800000,                                      // infinity
      0x7f800001, 0x7f801fff, 0x7f802000, 0x7fbfffff,  // signalling NaN
      0x7fc00000, 0x7fc00001, 0x7fd55555, 0x7fffffff,  // quiet NaN
  };
  std::vector<uint32_t> all;
  for (const uint32_t magnitude : magnitudes) {
    all.push_back(magnitude);
    all.push_back(magnitude | 0x80000000);
  }
  return all;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool same_parts(const Encoded& a, const Encoded& b) {
  if (a.parts.size() != b.parts.size()) return false;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    if (!same_bits(a.parts[i], b.parts[i])) return false;
  }
  return true;
}

at::Tensor flat(const at::Tensor& x) {
  return at::as_strided(x, {x.numel()}, {1}, x.storage_offset());
}

at::Tensor normals(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed));
}

at::Tensor in_memory_order(const at::Tensor& x, at::IntArrayRef dims) {
  std::vector<int64_t> back(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) back[static_cast<size_t>(dims[i])] = i;
  return x.permute(dims).contiguous().permute(back);
}

std::vector<NamedCodec> all_codecs() {
  std::vector<NamedCodec> all = {{"narrow", make_narrow_codec()},
                                 {"narrow_fp16", make_narrow_codec(at::kHalf)},
                                 {"mask1", make_mask_codec()},
                                 {"sign1", make_sign_codec()}};
  for (const ModeWord& part : mode_words()) {
    if (part.make_codec != nullptr) all.push_back({std::string(part.word), part.make_codec()});
  }
  all.push_back({"ssdc", make_sparse_codec(0.6)});
  all.push_back(
      {"ssdc+dpr8", make_chained_codec(make_sparse_codec(0.6), make_reduced_codec(8), 2)});
  return all;
}

at::Tensor suitable_for(const std::string& codec, const at::Tensor& normals) {
  if (codec == "narrow") return normals.to(at::kBFloat16).to(at::kFloat);
  if (codec == "narrow_fp16") return normals.to(at::kHalf).to(at::kFloat);
  if (codec == "mask1") {
    return at::where(normals.gt(-1.0), at::zeros_like(normals).fill_(1.25), 0.0);
  }
  if (codec.starts_with("ssdc") || codec == "sign1") return at::relu(normals);
  return normals;
}

}  // namespace noisemark::memopt::test
