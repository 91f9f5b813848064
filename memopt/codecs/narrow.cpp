#include "memopt/codecs/narrow.h"

#include <c10/util/Exception.h>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/field_codec.h"

namespace noisemark::memopt {
namespace {

using codecs::FieldForm;
using codecs::FieldJob;

class NarrowCodec final : public Codec {
 public:
  explicit NarrowCodec(at::ScalarType to) : to_(to) {
    job_.form = to == at::kBFloat16 ? FieldForm::kNarrowBFloat16 : FieldForm::kNarrowFloat16;
  }
  std::string_view name() const override { return to_ == at::kBFloat16 ? "narrow" : "narrow_fp16"; }
  bool lossless() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& key) const override {
    if (x.scalar_type() != at::kFloat) return std::nullopt;
    return codecs::encode_fields(x, job_, key.cast_from == to_);
  }
  at::Tensor decode(const Encoded& encoded) const override {
    return codecs::decode_fields(*this, encoded, job_);
  }

 private:
  at::ScalarType to_;
  FieldJob job_;
};

}  // namespace

std::unique_ptr<Codec> make_narrow_codec(at::ScalarType to) {
  TORCH_CHECK(to == at::kBFloat16 || to == at::kHalf,
              "narrow: the narrow type must be bfloat16 or float16, but got ", to);
  return std::make_unique<NarrowCodec>(to);
}

}  // namespace noisemark::memopt
