#include "suite/models/rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <array>

namespace noisemark::suite {
namespace {

thread_local RowExchange* exchange_in_force = nullptr;

at::Tensor zero_rows(const at::Tensor& x, int64_t rows) {
  return at::zeros({x.size(0), x.size(1), rows, x.size(3)}, x.options());
}

/// E[x] and E[x^2] of every group, [2, N, groups].
at::Tensor moments_of(const at::Tensor& x, int64_t groups) {
  const at::Tensor grouped = x.reshape({x.size(0), groups, -1});
  return at::stack({grouped.mean(-1), grouped.square().mean(-1)});
}

at::Tensor mean_over_bands(const std::vector<at::Tensor>& parts) {
  return at::stack(parts).mean(0);
}

at::Tensor variance_of(const at::Tensor& moments) {
  return moments[1] - moments[0].square();
}

at::Tensor joined_moments(const at::Tensor& own, RowExchange& exchange) {
  const NormRule rule = exchange.norm_rule();
  const bool fresh = exchange.is_synchronous() || rule == NormRule::kSynchronous;
  if (rule == NormRule::kOwn && !fresh) return own;
  const RowExchange::Parts parts = exchange.gather(own, fresh);
  const at::Tensor mean = mean_over_bands(parts.all);
  if (fresh || rule != NormRule::kCorrectedStale) return mean;
  // The mean has the own band's fresh moments already, a share of their change; the rest of it is
  // added, so that the whole change of the own band stands for that of the picture.
  const double rest = 1 - 1.0 / static_cast<double>(exchange.bands());
  return mean + (own - parts.own_before) * rest;
}

}  // namespace

RowsGuard::RowsGuard(RowExchange& exchange) : previous_(exchange_in_force) {
  exchange_in_force = &exchange;
}

RowsGuard::~RowsGuard() {
  exchange_in_force = previous_;
}

RowExchange* rows_in_force() {
  return exchange_in_force;
}

at::Tensor convolve_rows(const torch::nn::Conv2d& conv, const at::Tensor& x, int64_t above,
                         int64_t below, RowExchange& exchange) {
  const int64_t reach = above > below ? above : below;
  TORCH_CHECK(x.size(2) >= reach, "a band of ", x.size(2), " rows is too low for a halo of ",
              reach);
  std::vector<at::Tensor> rows{x};
  if (reach > 0) {
    const RowExchange::Halo halo =
        exchange.halo(x.narrow(2, 0, below), x.narrow(2, x.size(2) - above, above));
    rows = {halo.above.value_or(zero_rows(x, above)), x, halo.below.value_or(zero_rows(x, below))};
  }
  const std::array<int64_t, 2> strides{conv->options.stride()->at(0),
                                       conv->options.stride()->at(1)};
  const auto& padding = std::get<torch::ExpandingArray<2>>(conv->options.padding());
  const std::array<int64_t, 2> columns_only{0, padding->at(1)};
  return at::conv2d(at::cat(rows, 2), conv->weight, conv->bias, strides, columns_only);
}

at::Tensor normalize_rows(const at::Tensor& x, int64_t groups, const at::Tensor& weight,
                          const at::Tensor& bias, double eps, RowExchange& exchange) {
  const at::Tensor own = moments_of(x, groups);
  const at::Tensor joined = joined_moments(own, exchange);
  const at::Tensor own_variance = variance_of(own);
  at::Tensor variance = variance_of(joined);
  variance = at::where(variance < 0, own_variance, variance);
  if (exchange.unbiased_variance()) {
    const auto n = static_cast<double>(x.numel() / (x.size(0) * groups));
    variance = variance * (n / (n - 1));
  }
  const at::Tensor grouped = x.reshape({x.size(0), groups, -1});
  const at::Tensor normed =
      (grouped - joined[0].unsqueeze(-1)) * (variance.unsqueeze(-1) + eps).rsqrt();
  return normed.reshape(x.sizes()) * weight.view({1, -1, 1, 1}) + bias.view({1, -1, 1, 1});
}

at::Tensor gather_tokens(const at::Tensor& own, int64_t dim, RowExchange& exchange) {
  return at::cat(exchange.gather(own, exchange.is_synchronous()).all, dim);
}

}  // namespace noisemark::suite
