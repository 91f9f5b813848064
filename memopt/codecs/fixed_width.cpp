#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/codecs.h"
#include "memopt/codecs/encoding.h"

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
  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType type) const override {
    return codecs::parts_of_fields(elements, mask_job(type).value().form);
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
  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType /*type*/) const override {
    return codecs::parts_of_fields(elements, FieldForm::kPositive);
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
  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType /*type*/) const override {
    return codecs::parts_of_fields(elements, job_.form);
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

namespace {

using codecs::FieldForm;
using codecs::FieldJob;
using codecs::Real;

class ReducedCodec final : public Codec {
 public:
  ReducedCodec(FieldForm form, RoundedValues values)
      : name_("dpr" + std::to_string(codecs::bits_of(form))), form_(form), values_(values) {}
  std::string_view name() const override { return name_; }
  bool lossless() const override { return false; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    const std::optional<Real> real = codecs::real_of(x.scalar_type());
    if (!real || !codecs::gains(form_, *real)) return std::nullopt;
    std::optional<Encoded> encoded = codecs::encode_fields(x, job_of(*real));
    if (encoded && codecs::refuses(values_, encoded->parts.back())) return std::nullopt;
    return encoded;
  }
  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType /*type*/) const override {
    return codecs::parts_of_fields(elements, form_);
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

  std::string name_;
  FieldForm form_;
  RoundedValues values_;
};

}  // namespace

std::unique_ptr<Codec> make_reduced_codec(int bits, RoundedValues values) {
  std::string known;
  for (const FieldForm form : codecs::kReducedForms) {
    const int of_form = codecs::bits_of(form);
    if (of_form == bits) return std::make_unique<ReducedCodec>(form, values);
    known.append(known.empty() ? "" : ", ").append(std::to_string(of_form));
  }
  TORCH_CHECK(false, "dpr: width: ", bits, " bits (", known, ")");
}

namespace {

using codecs::FieldForm;
using codecs::FieldJob;
using codecs::PoolWindows;

constexpr int64_t kLargestKernel = 4;
constexpr int64_t kLargestFigure = 1 << 20;

bool fits_int32(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}

/// Neighbouring elements in memory that belong to one window; empty where there is no such order.
std::optional<int64_t> inner_of(const at::Tensor& map) {
  if (map.is_contiguous()) return 1;
  if (map.dim() == 4 && map.is_contiguous(at::MemoryFormat::ChannelsLast)) return map.size(1);
  return std::nullopt;
}

class PoolMapCodec final : public Codec {
 public:
  explicit PoolMapCodec(const PoolGeometry& geometry) : geometry_(geometry) {}
  std::string_view name() const override { return "pool4"; }
  bool lossless() const override { return true; }
  std::optional<Encoded> encode(const at::Tensor& x, const EncodeKey& /*key*/) const override {
    if (x.scalar_type() != at::kLong || x.dim() < 3 || x.dim() > 4) return std::nullopt;
    const std::optional<int64_t> inner = inner_of(x);
    if (!inner || !positions_fit(x)) return std::nullopt;
    std::optional<Encoded> encoded = codecs::encode_fields(x, job_for(x.sizes(), *inner));
    if (encoded) encoded->state = std::make_shared<int64_t>(*inner);
    return encoded;
  }
  /// The map of planes of zeros.
  at::Tensor example(int64_t elements) const override {
    const at::Tensor plane = at::zeros({1, geometry_.input[0], geometry_.input[1]});
    const at::Tensor map = std::get<1>(at::max_pool2d_with_indices(
        plane, geometry_.kernel, geometry_.stride, geometry_.padding, geometry_.dilation));
    const int64_t planes = elements / std::max<int64_t>(map.numel(), 1);
    return map.repeat({std::max<int64_t>(planes, 1), 1, 1});
  }
  std::vector<PartSize> parts_of(int64_t elements, at::ScalarType /*type*/) const override {
    return codecs::parts_of_fields(elements, FieldForm::kPoolPosition);
  }
  at::Tensor decode(const Encoded& encoded) const override {
    const int64_t inner = *static_cast<const int64_t*>(encoded.state.get());
    return codecs::decode_fields(*this, encoded, job_for(encoded.sizes, inner));
  }

 private:
  bool positions_fit(const at::Tensor& map) const {
    const int64_t lines = map.size(-2) * geometry_.stride[0] + geometry_.padding[0] +
                          kLargestKernel * geometry_.dilation[0];
    const int64_t columns = map.size(-1) * geometry_.stride[1] + geometry_.padding[1] +
                            kLargestKernel * geometry_.dilation[1];
    return fits_int32(lines) && fits_int32(columns) && fits_int32(map.numel()) &&
           fits_int32(lines * geometry_.input[1] + columns);
  }
  FieldJob job_for(at::IntArrayRef sizes, int64_t inner) const {
    const int64_t width = geometry_.input[1];
    PoolWindows windows;
    windows.rows = static_cast<int32_t>(sizes[sizes.size() - 2]);
    windows.columns = static_cast<int32_t>(sizes[sizes.size() - 1]);
    windows.inner = static_cast<int32_t>(inner);
    windows.row_step = static_cast<int32_t>(geometry_.stride[0] * width);
    windows.column_step = static_cast<int32_t>(geometry_.stride[1]);
    windows.origin = static_cast<int32_t>(-geometry_.padding[0] * width - geometry_.padding[1]);
    windows.row_pitch = static_cast<int32_t>(geometry_.dilation[0] * width);
    windows.column_pitch = static_cast<int32_t>(geometry_.dilation[1]);
    FieldJob job;
    job.form = FieldForm::kPoolPosition;
    job.common.windows = windows;
    return job;
  }

  PoolGeometry geometry_;
};

}  // namespace

std::unique_ptr<Codec> make_pool_map_codec(const PoolGeometry& geometry) {
  const auto require = [](const char* what, int64_t value, int64_t least, int64_t most) {
    TORCH_CHECK(value >= least && value <= most, "pool4: ", what, " must be ", least, " to ", most,
                ", but got ", value);
  };
  for (size_t i = 0; i < 2; ++i) {
    require("an input size", geometry.input[i], 1, kLargestFigure);
    require("a kernel size", geometry.kernel[i], 1, kLargestKernel);
    require("a stride", geometry.stride[i], 1, kLargestFigure);
    require("a padding", geometry.padding[i], 0, kLargestFigure);
    require("a dilation", geometry.dilation[i], 1, kLargestFigure);
  }
  return std::make_unique<PoolMapCodec>(geometry);
}

}  // namespace noisemark::memopt
