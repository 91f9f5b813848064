#include "suite/sampling/update.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

namespace noisemark::suite {
namespace {

constexpr int64_t kGrain = 16384;  // values of a thread's share, at least

template <typename T>
struct Coefficients {
  explicit Coefficients(const SamplerStep& step)
      : x0_from_x(static_cast<T>(step.x0_from_x)),
        x0_from_out(static_cast<T>(step.x0_from_out)),
        x_from_x0(static_cast<T>(step.x_from_x0)),
        x_from_x(static_cast<T>(step.x_from_x)),
        x_from_noise(static_cast<T>(step.x_from_noise)) {}
  T x0_from_x, x0_from_out, x_from_x0, x_from_x, x_from_noise;
};

/// Without noise: the mean of what follows. Comparisons that are false for NaN keep it.
template <typename T>
T mean_of_next(const Coefficients<T>& k, T out, T x) {
  T x0 = k.x0_from_x * x + k.x0_from_out * out;
  x0 = x0 < T{-1} ? T{-1} : x0;
  x0 = x0 > T{1} ? T{1} : x0;
  return k.x_from_x0 * x0 + k.x_from_x * x;
}

template <typename T>
void update_flat(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                 const at::Tensor& x) {
  const Coefficients<T> k(step);
  const T* const outs = out.const_data_ptr<T>();
  const T* const noises = noise.defined() ? noise.const_data_ptr<T>() : nullptr;
  T* const xs = x.mutable_data_ptr<T>();
  at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (noises == nullptr) {
      for (int64_t i = begin; i < end; ++i) xs[i] = mean_of_next(k, outs[i], xs[i]);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        xs[i] = mean_of_next(k, outs[i], xs[i]) + k.x_from_noise * noises[i];
      }
    }
  });
}

void update_anywhere(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                     const at::Tensor& x) {
  const at::Tensor x0 = out.mul(step.x0_from_out).add_(x, step.x0_from_x).clamp_(-1, 1);
  x.mul_(step.x_from_x).add_(x0, step.x_from_x0);
  if (noise.defined()) x.add_(noise, step.x_from_noise);
}

bool in_order(const at::Tensor& tensor, at::MemoryFormat order) {
  return !tensor.defined() || (tensor.device().is_cpu() && tensor.is_contiguous(order));
}

bool in_one_order(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  for (const at::MemoryFormat order :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    if (in_order(a, order) && in_order(b, order) && in_order(c, order)) return true;
  }
  return false;
}

}  // namespace

void update_sample(const SamplerStep& step, const at::Tensor& out, const at::Tensor& noise,
                   const at::Tensor& x) {
  const at::Tensor used = step.x_from_noise == 0 ? at::Tensor() : noise;
  TORCH_CHECK(step.x_from_noise == 0 || used.defined(), "the step at t = ", step.t, " needs noise");
  TORCH_CHECK(out.sizes() == x.sizes() && (!used.defined() || used.sizes() == x.sizes()),
              "x has the shape ", x.sizes(), ", the network's output ", out.sizes());
  const at::ScalarType type = x.scalar_type();
  const bool one_type =
      out.scalar_type() == type && (!used.defined() || used.scalar_type() == type);
  if (one_type && type == at::kFloat && in_one_order(out, used, x)) {
    update_flat<float>(step, out, used, x);
  } else if (one_type && type == at::kDouble && in_one_order(out, used, x)) {
    update_flat<double>(step, out, used, x);
  } else {
    update_anywhere(step, out.to(type), used, x);
  }
}

}  // namespace noisemark::suite
