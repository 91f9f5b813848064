#include "suite/train/precision.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "reports/base/error.h"
#include "suite/config/definition.h"

namespace noisemark::suite {
namespace {

std::string precisions_of_any_device() {
  std::string names;
  for (const PrecisionName& row : kPrecisions) {
    if (!row.needs_cuda) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

}  // namespace

Precision parse_precision(std::string_view name, at::Device device) {
  const auto known = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                  [&](const PrecisionName& row) { return row.name == name; });
  if (known == kPrecisions.end()) {
    throw bad_input("--precision", "", std::string(name),
                    reports::accepted_names(name, names_in(kPrecisions)));
  }
  if (known->needs_cuda && !device.is_cuda()) {
    throw bad_input("--precision", "", std::string(name),
                    "a CUDA device, or one of: " + precisions_of_any_device());
  }
  Precision precision;
  precision.name = name;
  if (name == "fp64") precision.weights = at::kDouble;
  if (name == "tf32") precision.tf32 = true;
  if (name == "bf16") precision.autocast = at::kBFloat16;
  if (name == "fp16") precision.autocast = at::kHalf;
  precision.loss_scaling = name == "fp16";
  return precision;
}

AutocastGuard::AutocastGuard(const Precision& precision, at::Device device)
    : active_(precision.autocast.has_value()), device_(device.type()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *precision.autocast);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_);
}

LossScaler::LossScaler(at::Device device, const LossScaling& scaling)
    : scaling_(scaling),
      scale_(at::full({}, scaling.initial, at::device(device).dtype(at::kFloat))),
      growth_(at::zeros({}, at::device(device).dtype(at::kInt))),
      skipped_(at::zeros({}, at::device(device).dtype(at::kFloat))) {}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return loss * scale_;
}

at::Tensor LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  at::Tensor found_inf = at::zeros({}, scale_.options());
  // The inverse goes through double, as the peer's does: for a scale that is no power of two the
  // bits differ.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  return found_inf;
}

void LossScaler::update(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  skipped_ += found_inf;
  at::_amp_update_scale_(scale_, growth_, found_inf, scaling_.growth, scaling_.backoff,
                         scaling_.interval);
}

double LossScaler::current_scale() const {
  return scale_.item<double>();
}

int64_t LossScaler::skipped_steps() const {
  return skipped_.item<int64_t>();
}

std::vector<std::pair<std::string, at::Tensor>> LossScaler::state() const {
  return {{"scaler.scale", scale_}, {"scaler.growth", growth_}, {"scaler.skipped", skipped_}};
}

}  // namespace noisemark::suite
