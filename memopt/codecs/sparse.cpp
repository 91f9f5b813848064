#include "memopt/codecs/codecs.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/encoding.h"

namespace noisemark::memopt {
namespace {

using codecs::SparseJob;

class SparseCodec final : public Codec {
 public:
  explicit SparseCodec(double capacity_frac) : capacity_frac_(capacity_frac) {}
  std::string_view name() const override { return "ssdc"; }
  std::string form() const override { return "ssdc, room " + std::to_string(capacity_frac_); }
  bool lossless() const override { return true; }

  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    const codecs::CodecDevice* device = codecs::device_for(x);
    if (device == nullptr || !codecs::real_of(x.scalar_type()) ||
        x.numel() > std::numeric_limits<uint32_t>::max()) {
      return std::nullopt;
    }
    const std::vector<PartSize> sizes = parts_of(x.numel(), x.scalar_type());
    if (codecs::bytes_of(sizes) >= static_cast<int64_t>(x.nbytes())) return std::nullopt;
    const c10::DeviceGuard guard(x.device());
    Encoded encoded = codecs::described(x);
    encoded.parts = codecs::new_parts(x, sizes);
    SparseJob job = job_of(encoded);
    const codecs::LostFlag flag(x);
    job.x = x.const_data_ptr();
    job.count = x.numel();
    job.lost = flag.data();
    device->encode(job);
    if (!flag.settle(encoded)) return std::nullopt;
    return encoded;
  }

  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType type) const override {
    const int64_t blocks = codecs::blocks_of(elements, SparseJob::kBlock);
    const double capacity = std::ceil(capacity_frac_ * static_cast<double>(elements));
    return {{blocks * codecs::kLanes}, {blocks}, {static_cast<int64_t>(capacity), type}};
  }

  /// Returns how full all of the tensor would be, were the last block like those before it.
  double filled(const Encoded& encoded) const override {
    const at::Tensor& offsets = encoded.parts.at(1);
    const int64_t blocks = offsets.numel() - 1;
    if (blocks < 1) return 1;
    const auto values = static_cast<double>(offsets.select(0, blocks).item<int32_t>());
    const auto elements = static_cast<double>(c10::multiply_integers(encoded.sizes));
    const auto room = static_cast<double>(encoded.parts.at(2).numel());
    return std::min(1.0,
                    values / static_cast<double>(blocks * SparseJob::kBlock) * elements / room);
  }

  at::Tensor decode(const Encoded& encoded) const override {
    codecs::require_kept(*this, encoded);
    const c10::DeviceGuard guard(encoded.parts.at(0).device());
    at::Tensor x = codecs::new_decoded(encoded);
    SparseJob job = job_of(encoded);
    job.y = x.mutable_data_ptr();
    job.count = x.numel();
    codecs::device_of(encoded).decode(job);
    return x;
  }

 private:
  static SparseJob job_of(const Encoded& encoded) {
    SparseJob job;
    job.element_bytes = static_cast<int>(c10::elementSize(encoded.dtype));
    job.words = codecs::words_of(encoded.parts.at(0));
    job.offsets = codecs::words_of(encoded.parts.at(1));
    job.values = encoded.parts.at(2).mutable_data_ptr();
    job.capacity = encoded.parts[2].numel();
    return job;
  }

  double capacity_frac_;
};

}  // namespace

std::unique_ptr<Codec> make_sparse_codec(double capacity_frac) {
  TORCH_CHECK(capacity_frac > 0 && capacity_frac <= 1,
              "ssdc: the capacity must be a fraction above 0 and at most 1, but got ",
              capacity_frac);
  return std::make_unique<SparseCodec>(capacity_frac);
}

}  // namespace noisemark::memopt
