#include "memopt/codecs/mask.h"

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/field_codec.h"
#include "memopt/codecs/tensors.h"

namespace noisemark::memopt {
namespace {

using codecs::FieldForm;
using codecs::FieldJob;
using codecs::Real;

std::optional<FieldJob> mask_job(at::ScalarType type) {
  FieldJob job;
  if (type == at::kBool) return job;
  const std::optional<Real> real = codecs::real_of(type);
  if (!real) return std::nullopt;
  job.form = *real == Real::kFloat32 ? FieldForm::kTwoValues32 : FieldForm::kTwoValues16;
  return job;
}

class MaskCodec final : public Codec {
 public:
  std::string_view name() const override { return "mask1"; }
  bool lossless() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    const std::optional<FieldJob> job = mask_job(x.scalar_type());
    return job ? codecs::encode_fields(x, *job) : std::nullopt;
  }
  at::Tensor decode(const Encoded& encoded) const override {
    return codecs::decode_fields(*this, encoded, mask_job(encoded.dtype).value());
  }
};

class SignCodec final : public Codec {
 public:
  std::string_view name() const override { return "sign1"; }
  bool lossless() const override { return false; }
  bool keeps_sign() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    const std::optional<Real> real = codecs::real_of(x.scalar_type());
    return real ? codecs::encode_fields(x, job_of(*real)) : std::nullopt;
  }
  at::Tensor decode(const Encoded& encoded) const override {
    return codecs::decode_fields(*this, encoded, job_of(codecs::real_of(encoded.dtype).value()));
  }

 private:
  static FieldJob job_of(Real real) {
    FieldJob job;
    job.form = FieldForm::kPositive;
    job.real = real;
    return job;
  }
};

}  // namespace

std::unique_ptr<Codec> make_mask_codec() {
  return std::make_unique<MaskCodec>();
}

std::unique_ptr<Codec> make_sign_codec() {
  return std::make_unique<SignCodec>();
}

}  // namespace noisemark::memopt
