#include "memopt/gradient_probe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <limits>
#include <utility>

namespace noisemark::memopt {
namespace {

double squared_norm(const at::Tensor& tensor) {
  const double norm =
      at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), false, at::kDouble)
          .item<double>();
  return norm * norm;
}

/// Of a gradient that may be missing on either side.
double squared_distance(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() && !b.defined()) return 0;
  if (!a.defined() || !b.defined()) return squared_norm(a.defined() ? a : b);
  return squared_norm(a.to(at::kDouble) - b.to(at::kDouble));
}

}  // namespace

GradientProbe::GradientProbe(Rehearsal& rehearsal, const BackwardAgain& again,
                             std::vector<at::Tensor> parameters)
    : rehearsal_(rehearsal), again_(again), parameters_(std::move(parameters)) {
  if (!rehearsal_.complete()) return;
  rehearsal_.rehearse(nullptr);
  exact_ = run();
  if (rehearsal_.asked() == 0) return;
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& gradient : exact_) {
    if (gradient.defined()) exact_squared_ += squared_norm(gradient);
  }
  usable_ = std::isfinite(exact_squared_) && exact_squared_ > 0;
}

double GradientProbe::error_of(const std::shared_ptr<const TreatmentPlan>& plan) {
  rehearsal_.rehearse(plan);
  const std::vector<at::Tensor> gradients = run();
  rehearsal_.rehearse(nullptr);
  const c10::NoGradGuard no_grad;
  double difference = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    difference += squared_distance(gradients[i], exact_[i]);
  }
  const double error = std::sqrt(difference / exact_squared_);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

std::vector<at::Tensor> GradientProbe::run() {
  ++passes_;
  return again_(parameters_);
}

}  // namespace noisemark::memopt
