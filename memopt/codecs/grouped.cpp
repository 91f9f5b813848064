#include "memopt/codecs/codecs.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/encoding.h"
#include "memopt/device/repeated_work.h"

namespace noisemark::memopt {
namespace {

using codecs::GroupJob;
using codecs::RoundingKey;

/// Folds 64 bits into 32: a program may count steps in tokens, or backwards.
uint32_t key_word(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  constexpr uint32_t kOdd = 0x9e3779b9;  // it spreads the upper half over all bits
  return static_cast<uint32_t>(bits) ^ (static_cast<uint32_t>(bits >> 32) * kOdd);
}

RoundingKey rounding_key(const EncodeKey& key) {
  return {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32),
          key_word(key.step), key_word(key.storage)};
}

class GroupedCodec final : public Codec {
 public:
  GroupedCodec(int bits, RoundedValues values) : bits_(bits), values_(values) {}
  std::string_view name() const override { return bits_ == 4 ? "q4" : "q2"; }
  bool lossless() const override { return false; }

  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& key) const override {
    const codecs::CodecDevice* device = codecs::device_for(x);
    const std::optional<codecs::Real> real = codecs::real_of(x.scalar_type());
    if (device == nullptr || !real) return std::nullopt;
    require_host("values are rounded at random, by the number of the step, which the host gives");
    GroupJob job;
    job.bits = bits_;
    job.real = *real;
    job.count = x.numel();
    job.key = rounding_key(key);
    const std::vector<PartSize> sizes = parts_of(job.count, x.scalar_type());
    if (codecs::bytes_of(sizes) >= static_cast<int64_t>(x.nbytes())) return std::nullopt;
    const c10::DeviceGuard guard(x.device());
    Encoded encoded = codecs::described(x);
    encoded.parts = codecs::new_parts(x, sizes);
    job.x = x.const_data_ptr();
    point_to_parts(job, encoded);
    device->find_extent({job.real, static_cast<int>(x.element_size()), job.x, job.count,
                         codecs::words_of(encoded.parts[2])});
    if (codecs::refuses(values_, encoded.parts[2])) return std::nullopt;
    device->encode(job);
    return encoded;
  }

  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType /*type*/) const override {
    GroupJob job;
    job.bits = bits_;
    const int64_t blocks = codecs::blocks_of(elements, job.elements_per_block());
    return {{blocks * codecs::kLanes}, {codecs::blocks_of(elements, codecs::kGroupElements)}, {1}};
  }

  at::Tensor decode(const Encoded& encoded) const override {
    const c10::DeviceGuard guard(encoded.parts.at(0).device());
    at::Tensor x = codecs::new_decoded(encoded);
    GroupJob job;
    job.bits = bits_;
    job.real = codecs::real_of(encoded.dtype).value();
    job.count = x.numel();
    job.y = x.mutable_data_ptr();
    point_to_parts(job, encoded);
    codecs::device_of(encoded).decode(job);
    return x;
  }

 private:
  static void point_to_parts(GroupJob& job, const Encoded& encoded) {
    job.words = codecs::words_of(encoded.parts.at(0));
    job.numbers = codecs::words_of(encoded.parts.at(1));
    job.extent = codecs::words_of(encoded.parts.at(2));
  }

  int bits_;
  RoundedValues values_;
};

}  // namespace

std::unique_ptr<Codec> make_grouped_codec(int bits, RoundedValues values) {
  TORCH_CHECK(bits == 4 || bits == 2, "q: the width must be 4 or 2 bits, but got ", bits);
  return std::make_unique<GroupedCodec>(bits, values);
}

}  // namespace noisemark::memopt
