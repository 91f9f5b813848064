#include "suite/models/rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <variant>

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

struct Moments {
  at::Tensor values;
  bool own_alone = false;
};

Moments joined_moments(const at::Tensor& own, RowExchange& exchange) {
  const NormRule rule = exchange.norm_rule();
  const bool fresh = exchange.is_synchronous() || rule == NormRule::kSynchronous;
  if (rule == NormRule::kOwn && !fresh) {
    exchange.skip();
    return {own, true};
  }
  const RowExchange::Parts parts = exchange.gather(own, fresh);
  const at::Tensor mean = mean_over_bands(parts.all);
  if (fresh || rule != NormRule::kCorrectedStale) return {mean};
  // The mean has the own band's fresh moments already, a share of their change; the rest of it is
  // added, so that the whole change of the own band stands for that of the image.
  const double rest = 1 - 1.0 / static_cast<double>(exchange.bands());
  return {mean + (own - parts.own_before) * rest};
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
  const int64_t reach = std::max(above, below);
  TORCH_CHECK(x.size(2) >= reach, "a band of ", x.size(2), " rows is too low for a halo of ",
              reach);
  std::vector<at::Tensor> rows{x};
  if (reach > 0) {
    const RowExchange::Halo halo =
        exchange.halo(x.narrow(2, 0, below), x.narrow(2, x.size(2) - above, above));
    // The halo gets the band's order of memory, which the joined tensor then has.
    const auto format = x.suggest_memory_format();
    rows = {halo.above.value_or(zero_rows(x, above)).contiguous(format), x,
            halo.below.value_or(zero_rows(x, below)).contiguous(format)};
  }
  const auto& stride = *conv->options.stride();
  const auto& padding = *std::get<torch::ExpandingArray<2>>(conv->options.padding());
  const std::array<int64_t, 2> columns_only{0, padding[1]};
  return at::conv2d(at::cat(rows, 2), conv->weight, conv->bias, stride, columns_only);
}

at::Tensor normalize_rows(const at::Tensor& x, const torch::nn::GroupNorm& norm,
                          RowExchange& exchange) {
  const int64_t groups = norm->options.num_groups();
  const at::Tensor own = moments_of(x, groups);
  const Moments joined = joined_moments(own, exchange);
  at::Tensor variance = variance_of(joined.values);
  variance = at::where(variance < 0, variance_of(own), variance);
  if (exchange.unbiased_variance() && !joined.own_alone) {
    const auto n = static_cast<double>(x.numel() / (x.size(0) * groups));
    variance = variance * (n / (n - 1));
  }
  const at::Tensor inverse = (variance + norm->options.eps()).rsqrt();
  const at::Tensor grouped = x.reshape({x.size(0), groups, -1});
  const at::Tensor normed = (grouped - joined.values[0].unsqueeze(-1)) * inverse.unsqueeze(-1);
  return normed.reshape(x.sizes()) * norm->weight.view({1, -1, 1, 1}) +
         norm->bias.view({1, -1, 1, 1});
}

at::Tensor gather_tokens(const at::Tensor& own, int64_t dim, RowExchange& exchange) {
  return at::cat(exchange.gather(own, exchange.is_synchronous()).all, dim);
}

QueriesAndKeys join_keys(const at::Tensor& qkv, RowExchange& exchange) {
  const int64_t channels = qkv.size(1) / 3;
  const at::Tensor all = gather_tokens(qkv.narrow(1, channels, 2 * channels), 2, exchange);
  return {qkv.narrow(1, 0, channels), all.narrow(1, 0, channels),
          all.narrow(1, channels, channels)};
}

}  // namespace noisemark::suite
