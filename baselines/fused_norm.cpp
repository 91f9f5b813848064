#include "baselines/fused_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <cmath>

#include "baselines/device_parts.h"

namespace noisemark::baselines {
namespace {

constexpr double kRmsEps = 1e-12;  // eps of torch.nn.functional.normalize

at::Tensor arranged(const at::Tensor& x, bool channels_last) {
  return channels_last ? x.movedim(1, -1).contiguous().movedim(-1, 1) : x.contiguous();
}

/// x in one of the two orders that the kernels know.
struct Arranged {
  at::Tensor values;
  kernels::Shape shape;

  explicit Arranged(const at::Tensor& x) {
    shape = {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1)), false};
    shape.channels_last =
        shape.pixels == 1 || (!x.is_contiguous() && x.movedim(1, -1).is_contiguous());
    values = arranged(x, shape.channels_last);
  }

  [[nodiscard]] at::Tensor like(const at::Tensor& other) const {
    return arranged(other.to(values.scalar_type()), shape.channels_last);
  }
};

/// Makes a float32 tensor on the device of x.
at::Tensor floats(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kFloat));
}

at::Tensor as_floats(const at::Tensor& x, at::IntArrayRef sizes) {
  return x.reshape(sizes).to(at::kFloat).contiguous();
}

template <typename T>
const T* input(const at::Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}

template <typename T>
T* output(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

const NormDevice& device_of(const Arranged& x) {
  const NormDevice* device = find_norm_device(x.values.device());
  TORCH_CHECK(device != nullptr, "fused norms: ", x.values.device().str(),
              " is not supported by this build");
  return *device;
}

/// Calls `body` with the kernels' storage type for x.
template <typename Body>
void with_storage_type(const at::Tensor& x, const Body& body) {
  x.scalar_type() == at::kFloat ? body(float{}) : body(kernels::BFloat16{});
}

template <typename T>
kernels::GroupNorm<T> group_norm_job(const Arranged& x, int64_t groups, const at::Tensor& weight,
                                     const at::Tensor& bias, const at::Tensor& scratch) {
  kernels::GroupNorm<T> job;
  job.shape = x.shape;
  job.groups = groups;
  job.groups_per_task = device_of(x).groups_per_task(x.shape, groups, x.values.element_size());
  job.x = input<T>(x.values);
  job.weight = input<float>(weight);
  job.bias = input<float>(bias);
  job.scratch = output<float>(scratch);
  return job;
}

void expect_groups(const at::Tensor& x, int64_t groups) {
  TORCH_CHECK(groups > 0 && x.size(1) % groups == 0, "group norm: ", x.size(1),
              " channels do not divide into ", groups, " groups");
}

void expect_both_or_neither(const std::optional<at::Tensor>& scale,
                            const std::optional<at::Tensor>& shift) {
  TORCH_CHECK(scale.has_value() == shift.has_value(), "rms norm: scale without shift, or reverse");
}

/// z = x / |x| * alpha + beta: what g, scale and shift amount to.
struct Affine {
  at::Tensor root_g;  ///< [C]: g * sqrt(C)
  at::Tensor gain;    ///< [N, C]: scale + 1, undefined without one
  at::Tensor alpha;   ///< [N, C] or [C]
  at::Tensor beta;

  Affine(const kernels::Shape& shape, const at::Tensor& g, const std::optional<at::Tensor>& scale,
         const std::optional<at::Tensor>& shift)
      : root_g(as_floats(g, {shape.channels}) * std::sqrt(static_cast<double>(shape.channels))) {
    if (scale.has_value()) {
      gain = as_floats(*scale, {shape.samples, shape.channels}) + 1;
      alpha = gain * root_g;
      beta = as_floats(*shift, {shape.samples, shape.channels});
    } else {
      alpha = root_g;
      beta = at::zeros({shape.channels}, root_g.options());
    }
  }
};

template <typename T>
kernels::RmsNorm<T> rms_norm_job(const Arranged& x, const Affine& affine, kernels::Act act) {
  kernels::RmsNorm<T> job;
  job.shape = x.shape;
  job.eps = kRmsEps;
  job.act = act;
  job.x = input<T>(x.values);
  job.alpha = input<float>(affine.alpha);
  job.beta = input<float>(affine.beta);
  job.row_stride = affine.gain.defined() ? x.shape.channels : 0;
  return job;
}

int64_t rms_norm_tasks_per_sample(const Arranged& x) {
  kernels::RmsNorm<float> job;
  job.shape = x.shape;
  return job.tasks_per_sample();
}

}  // namespace

bool fused_norm_takes(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return find_norm_device(x.device()) != nullptr && x.layout() == at::kStrided && type &&
         x.dim() >= 3 && x.numel() > 0;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act(const at::Tensor& x, int64_t groups,
                                                              const at::Tensor& weight,
                                                              const at::Tensor& bias, double eps,
                                                              kernels::Act act) {
  expect_groups(x, groups);
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const at::Tensor mean = floats(in.values, {in.shape.samples, groups});
  const at::Tensor rstd = floats(in.values, {in.shape.samples, groups});
  const at::Tensor scratch = floats(in.values, {in.shape.samples, 4, in.shape.channels});
  const at::Tensor w = as_floats(weight, {in.shape.channels});
  const at::Tensor b = as_floats(bias, {in.shape.channels});
  const at::Tensor y = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = group_norm_job<T>(in, groups, w, b, scratch);
    job.eps = eps;
    job.act = act;
    job.mean = output<float>(mean);
    job.rstd = output<float>(rstd);
    job.y = output<T>(y);
    device_of(in).forward(job);
  });
  return {y, mean, rstd};
}

at::Tensor group_norm_act_from_statistics(const at::Tensor& x, int64_t groups,
                                          const at::Tensor& weight, const at::Tensor& bias,
                                          kernels::Act act, const at::Tensor& mean,
                                          const at::Tensor& rstd) {
  expect_groups(x, groups);
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const at::Tensor scratch = floats(in.values, {in.shape.samples, 4, in.shape.channels});
  const at::Tensor w = as_floats(weight, {in.shape.channels});
  const at::Tensor b = as_floats(bias, {in.shape.channels});
  const at::Tensor means = as_floats(mean, {in.shape.samples, groups});
  const at::Tensor rstds = as_floats(rstd, {in.shape.samples, groups});
  const at::Tensor y = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = group_norm_job<T>(in, groups, w, b, scratch);
    job.act = act;
    job.mean = output<float>(means);
    job.rstd = output<float>(rstds);
    job.y = output<T>(y);
    device_of(in).from_statistics(job);
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
    const at::Tensor& mean, const at::Tensor& rstd, int64_t groups, kernels::Act act) {
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const at::Tensor dy_like_x = in.like(dy);
  const at::Tensor scratch = floats(in.values, {in.shape.samples, 4, in.shape.channels});
  const at::Tensor dweight = floats(in.values, {in.shape.samples, in.shape.channels});
  const at::Tensor dbias = floats(in.values, {in.shape.samples, in.shape.channels});
  const at::Tensor w = as_floats(weight, {in.shape.channels});
  const at::Tensor b = as_floats(bias, {in.shape.channels});
  const at::Tensor dx = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = group_norm_job<T>(in, groups, w, b, scratch);
    job.act = act;
    job.mean = output<float>(mean);
    job.rstd = output<float>(rstd);
    job.dy = input<T>(dy_like_x);
    job.dx = output<T>(dx);
    job.dweight = output<float>(dweight);
    job.dbias = output<float>(dbias);
    device_of(in).backward(job);
  });
  return {dx, dweight.sum(0).to(weight.scalar_type()), dbias.sum(0).to(bias.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_act(const at::Tensor& x, const at::Tensor& g,
                                                const std::optional<at::Tensor>& scale,
                                                const std::optional<at::Tensor>& shift,
                                                kernels::Act act) {
  expect_both_or_neither(scale, shift);
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const Affine affine(in.shape, g, scale, shift);
  const at::Tensor inverse_norm = floats(in.values, {in.shape.samples, in.shape.pixels});
  const at::Tensor y = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = rms_norm_job<T>(in, affine, act);
    job.inverse_norm = output<float>(inverse_norm);
    job.y = output<T>(y);
    device_of(in).forward(job);
  });
  return {y, inverse_norm};
}

at::Tensor rms_norm_act_from_statistics(const at::Tensor& x, const at::Tensor& g,
                                        const std::optional<at::Tensor>& scale,
                                        const std::optional<at::Tensor>& shift, kernels::Act act,
                                        const at::Tensor& inverse_norm) {
  expect_both_or_neither(scale, shift);
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const Affine affine(in.shape, g, scale, shift);
  const at::Tensor inverses = as_floats(inverse_norm, {in.shape.samples, in.shape.pixels});
  const at::Tensor y = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = rms_norm_job<T>(in, affine, act);
    job.inverse_norm = output<float>(inverses);
    job.y = output<T>(y);
    device_of(in).from_statistics(job);
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rms_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& g,
    const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& shift,
    const at::Tensor& inverse_norm, kernels::Act act) {
  const c10::DeviceGuard guard(x.device());
  const Arranged in(x);
  const Affine affine(in.shape, g, scale, shift);
  const at::Tensor dy_like_x = in.like(dy);
  const int64_t tasks = rms_norm_tasks_per_sample(in);
  const at::Tensor scratch = floats(in.values, {in.shape.samples, tasks, in.shape.channels});
  const at::Tensor dalpha_parts = at::empty_like(scratch);
  const at::Tensor dbeta_parts = at::empty_like(scratch);
  const at::Tensor dx = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = rms_norm_job<T>(in, affine, act);
    job.inverse_norm = output<float>(inverse_norm);
    job.scratch = output<float>(scratch);
    job.dy = input<T>(dy_like_x);
    job.dx = output<T>(dx);
    job.dalpha = output<float>(dalpha_parts);
    job.dbeta = output<float>(dbeta_parts);
    device_of(in).backward(job);
  });
  const at::Tensor dalpha = dalpha_parts.sum(1);
  const at::Tensor droot_g = (scale.has_value() ? dalpha * affine.gain : dalpha).sum(0);
  const at::Tensor dg = (droot_g * std::sqrt(static_cast<double>(in.shape.channels)))
                            .reshape(g.sizes())
                            .to(g.scalar_type());
  if (!scale.has_value()) return {dx, dg, at::Tensor(), at::Tensor()};
  return {dx, dg, (dalpha * affine.root_g).reshape(scale->sizes()).to(scale->scalar_type()),
          dbeta_parts.sum(1).reshape(shift->sizes()).to(shift->scalar_type())};
}

}  // namespace noisemark::baselines
