#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::suite {

/// The meaning of a name of kPrecisions on a device.
struct Precision {
  std::string name;
  at::ScalarType weights = at::kFloat;
  std::optional<at::ScalarType> autocast;  ///< type of autocast regions, none: off
  bool tf32 = false;                       ///< CUDA matrix products of float32 in tf32
  bool loss_scaling = false;
};

/// Throws Error, exit code 2, for an unknown name or one that the device does not have.
[[nodiscard]] Precision parse_precision(std::string_view name, at::Device device);

/// Autocast for a forward pass; the cache of weight casts is dropped when the outermost guard ends.
/// Restores what was set.
class [[nodiscard]] AutocastGuard {
 public:
  AutocastGuard(const Precision& precision, at::Device device);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool active_;
  at::DeviceType device_;
  bool was_enabled_ = false;
  at::ScalarType previous_ = at::kFloat;
};

/// No TF32 in the convolutions and matrix products of a GPU for as long as it lives, whatever is
/// allowed; then what was. LibTorch allows it in convolutions unless it is told otherwise.
class [[nodiscard]] FullFloat32Guard {
 public:
  explicit FullFloat32Guard(c10::Device device) : active_(device.is_cuda()) {
    if (!active_) return;
    convolutions_ = at::globalContext().allowTF32CuDNN();
    products_ = at::globalContext().allowTF32CuBLAS();
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
  }
  ~FullFloat32Guard() {
    if (!active_) return;
    at::globalContext().setAllowTF32CuDNN(convolutions_);
    at::globalContext().setAllowTF32CuBLAS(products_);
  }
  FullFloat32Guard(const FullFloat32Guard&) = delete;
  FullFloat32Guard& operator=(const FullFloat32Guard&) = delete;

 private:
  bool active_;
  bool convolutions_ = false;
  bool products_ = false;
};

/// The settings of loss scaling, which are torch.amp.GradScaler's own.
struct LossScaling {
  double initial = 65536.0;
  double growth = 2.0;   ///< factor after `interval` good steps in a row
  double backoff = 0.5;  ///< factor after a step with a non-finite gradient
  int64_t interval = 2000;
};

/// A loss is not multiplied any more at a smaller scale: one that is not finite then is so whatever
/// the scale, and training has left the finite numbers.
inline constexpr double kLeastScale = 1;

/// Dynamic loss scaling (Micikevicius et al. 2018), bit for bit that of torch.amp.GradScaler. A
/// step with a non-finite gradient is skipped, and so is, unlike there, one with a non-finite loss
/// whose gradients are finite. All of it happens on the device.
class LossScaler {
 public:
  explicit LossScaler(at::Device device, const LossScaling& scaling = {});

  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides gradients by the scale in place. Returns a scalar: 1 if any was not finite, else 0.
  [[nodiscard]] at::Tensor unscale(const std::vector<at::Tensor>& gradients);
  /// Follows the optimizer's step.
  void update(const at::Tensor& found_inf);

  /// Waits for the device.
  [[nodiscard]] double current_scale() const;
  [[nodiscard]] int64_t skipped_steps() const;
  /// Scale, growth count and skipped count, shared: copying into them restores the scaler.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  LossScaling scaling_;
  at::Tensor scale_, growth_, skipped_;
};

}  // namespace noisemark::suite
