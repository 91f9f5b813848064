#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "suite/quality/inception/network.h"
#include "suite/quality/inception/prepare.h"
#include "suite/quality/inception/weights.h"

namespace noisemark::suite::inception {

struct Settings {
  Resize resize = Resize::kTf1Bilinear;
  at::Device device = at::kCPU;
  int64_t batch = 32;  ///< pictures at a time; only rounding depends on it
};

/// Features of 8-bit pictures. Immutable after construction.
class Extractor {
 public:
  /// Throws std::invalid_argument for a batch below 1.
  Extractor(const Weights& weights, const Settings& settings);

  /// pictures [N, C, H, W] uint8, C 1 or 3, on any device -> for each of `taps`, in that order,
  /// [N, tap_size()] float32 on the extractor's device. In full float32 on CUDA too, whatever is
  /// set for training (TF32 would cost three of the digits). Throws Error, exit code 2, for other
  /// channels.
  [[nodiscard]] std::vector<at::Tensor> features(const at::Tensor& pictures,
                                                 std::span<const Tap> taps) const;

  /// The 2048 features that FID, KID, precision and recall are computed of.
  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const;

  /// What Tap::kLogits gives, of features that were taken at Tap::k2048: nothing but the last layer
  /// is computed. [N, 2048] on any device -> [N, 1008] float32 on the extractor's.
  [[nodiscard]] at::Tensor logits(const at::Tensor& features) const;

  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  Network network_;
};

}  // namespace noisemark::suite::inception
