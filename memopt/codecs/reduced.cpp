#include "memopt/codecs/reduced.h"

#include <c10/util/Exception.h>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/field_codec.h"
#include "memopt/codecs/tensors.h"

namespace noisemark::memopt {
namespace {

using codecs::FieldForm;
using codecs::FieldJob;
using codecs::Real;

class ReducedCodec final : public Codec {
 public:
  ReducedCodec(std::string_view name, FieldForm form) : name_(name), form_(form) {}
  std::string_view name() const override { return name_; }
  bool lossless() const override { return false; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    const std::optional<Real> real = codecs::real_of(x.scalar_type());
    if (!real || (form_ == FieldForm::kReduced16 && *real != Real::kFloat32)) return std::nullopt;
    return codecs::encode_fields(x, job_of(*real));
  }
  at::Tensor decode(const Encoded& encoded) const override {
    return codecs::decode_fields(*this, encoded, job_of(codecs::real_of(encoded.dtype).value()));
  }

 private:
  FieldJob job_of(Real real) const {
    FieldJob job;
    job.form = form_;
    job.real = real;
    return job;
  }

  std::string_view name_;
  FieldForm form_;
};

}  // namespace

std::unique_ptr<Codec> make_reduced_codec(int bits) {
  switch (bits) {
    case 16:
      return std::make_unique<ReducedCodec>("dpr16", FieldForm::kReduced16);
    case 10:
      return std::make_unique<ReducedCodec>("dpr10", FieldForm::kReduced10);
    case 8:
      return std::make_unique<ReducedCodec>("dpr8", FieldForm::kReduced8);
    default:
      TORCH_CHECK(false, "dpr: the width must be 16, 10 or 8 bits, but got ", bits);
  }
}

}  // namespace noisemark::memopt
