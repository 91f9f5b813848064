#include "baselines/fused_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "baselines/cpu_tensors.h"
#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"

namespace noisemark::baselines {
namespace {

constexpr double kRmsEps = 1e-12;  // of torch.nn.functional.normalize

/// A channels-last task works on so much of x that it is still in a second-level cache when the
/// second sweep comes.
constexpr int64_t kTaskBytes = 256 << 10;

int64_t groups_per_task(const Arranged& x, int64_t groups) {
  if (!x.shape.channels_last) return 1;
  const int64_t group_bytes =
      x.values.numel() / (x.shape.samples * groups) * x.values.element_size();
  return std::clamp<int64_t>(kTaskBytes / std::max<int64_t>(1, group_bytes), 1, groups);
}

template <typename T>
kernels::GroupNorm<T> group_norm_job(const Arranged& x, int64_t groups, const at::Tensor& weight,
                                     const at::Tensor& bias, const at::Tensor& scratch) {
  kernels::GroupNorm<T> job;
  job.shape = x.shape;
  job.groups = groups;
  job.groups_per_task = groups_per_task(x, groups);
  job.x = input<T>(x.values);
  job.weight = input<float>(weight);
  job.bias = input<float>(bias);
  job.scratch = output<float>(scratch);
  return job;
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
      beta = at::zeros({shape.channels}, at::kFloat);
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

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act(const at::Tensor& x, int64_t groups,
                                                              const at::Tensor& weight,
                                                              const at::Tensor& bias, double eps,
                                                              kernels::Act act) {
  TORCH_CHECK(groups > 0 && x.size(1) % groups == 0, "group norm: ", x.size(1),
              " channels do not divide into ", groups, " groups");
  const Arranged in(x);
  const at::Tensor mean = floats({in.shape.samples, groups});
  const at::Tensor rstd = floats({in.shape.samples, groups});
  const at::Tensor scratch = floats({in.shape.samples, 4, in.shape.channels});
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
    run(job, kernels::group_norm_kernels(kernels::current_level()).of<T>().forward);
  });
  return {y, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
    const at::Tensor& mean, const at::Tensor& rstd, int64_t groups, kernels::Act act) {
  const Arranged in(x);
  const at::Tensor dy_like_x = in.like(dy);
  const at::Tensor scratch = floats({in.shape.samples, 4, in.shape.channels});
  const at::Tensor dweight = floats({in.shape.samples, in.shape.channels});
  const at::Tensor dbias = floats({in.shape.samples, in.shape.channels});
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
    run(job, kernels::group_norm_kernels(kernels::current_level()).of<T>().backward);
  });
  return {dx, dweight.sum(0).to(weight.scalar_type()), dbias.sum(0).to(bias.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_act(const at::Tensor& x, const at::Tensor& g,
                                                const std::optional<at::Tensor>& scale,
                                                const std::optional<at::Tensor>& shift,
                                                kernels::Act act) {
  TORCH_CHECK(scale.has_value() == shift.has_value(), "rms norm: scale without shift, or reverse");
  const Arranged in(x);
  const Affine affine(in.shape, g, scale, shift);
  const at::Tensor inverse_norm = floats({in.shape.samples, in.shape.pixels});
  const at::Tensor y = at::empty_like(in.values);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = rms_norm_job<T>(in, affine, act);
    job.inverse_norm = output<float>(inverse_norm);
    job.y = output<T>(y);
    run(job, kernels::rms_norm_kernels(kernels::current_level()).of<T>().forward);
  });
  return {y, inverse_norm};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rms_norm_act_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& g,
    const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& shift,
    const at::Tensor& inverse_norm, kernels::Act act) {
  const Arranged in(x);
  const Affine affine(in.shape, g, scale, shift);
  const at::Tensor dy_like_x = in.like(dy);
  const int64_t tasks = rms_norm_tasks_per_sample(in);
  const at::Tensor scratch = floats({in.shape.samples, tasks, in.shape.channels});
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
    run(job, kernels::rms_norm_kernels(kernels::current_level()).of<T>().backward);
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
