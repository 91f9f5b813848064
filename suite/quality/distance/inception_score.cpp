#include "suite/quality/distance/inception_score.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "reports/error.h"
#include "suite/quality/distance/moments.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWhere = "Inception score";

at::Tensor in_order(const at::Tensor& logits, const std::vector<int64_t>& order) {
  if (order.empty()) return logits;
  TORCH_CHECK(static_cast<int64_t>(order.size()) == logits.size(0), "an order of all samples");
  const at::Tensor index = at::empty({logits.size(0)}, at::TensorOptions().dtype(at::kLong));
  std::copy(order.begin(), order.end(), index.mutable_data_ptr<int64_t>());
  return logits.index_select(0, index.to(logits.device()));
}

double score_of(const at::Tensor& log_p) {
  const at::Tensor p = log_p.exp();
  const at::Tensor marginal = p.mean(0, /*keepdim=*/true);
  // A class of probability 0 everywhere contributes nothing: 0 * (-inf - -inf) would be NaN.
  const at::Tensor divergence = (p * (log_p - marginal.log())).nan_to_num(0.0).sum(1);
  return divergence.mean().exp().item<double>();
}

}  // namespace

InceptionScore inception_score(const at::Tensor& logits, int64_t splits,
                               const std::vector<int64_t>& order) {
  require_finite_features(logits, kWhere);
  const int64_t n = logits.size(0);
  if (splits < 1 || n < splits) {
    throw bad_input(kWhere, "splits", fmt::format("{} of {} samples", splits, n),
                    "at least 1, and no more than samples");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor log_p = at::log_softmax(in_order(logits, order).to(at::kDouble), 1);
  std::vector<double> scores;
  for (int64_t i = 0; i < splits; ++i) {
    scores.push_back(score_of(log_p.slice(0, i * n / splits, (i + 1) * n / splits)));
  }
  const auto count = static_cast<double>(splits);
  InceptionScore result;
  result.splits = splits;
  for (const double score : scores) result.mean += score / count;
  double squares = 0;
  for (const double score : scores) squares += std::pow(score - result.mean, 2);
  result.standard_deviation = std::sqrt(squares / count);
  return result;
}

}  // namespace noisemark::suite
