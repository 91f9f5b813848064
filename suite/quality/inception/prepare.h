#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace noisemark::suite::inception {

/// How 8-bit pictures become the network's input: bilinear without antialiasing, each way with the
/// normalisation of the peer that uses it. Distances under the two are not comparable.
enum class Resize {
  /// torch-fidelity: as TensorFlow 1 did, output pixel i is at i * in / out (no half-pixel
  /// centres);
  /// on 0 ... 255, then (x - 128) / 128.
  kTf1Bilinear,
  /// pytorch-fid: `align_corners=False`, output pixel i is at (i + 0.5) * in / out - 0.5; on x /
  /// 255,
  /// then 2x - 1.
  kBilinear,
};

/// "tf1-bilinear" or "bilinear".
[[nodiscard]] std::string_view resize_name(Resize resize);
/// Throws Error, exit code 2, for another name.
[[nodiscard]] Resize resize_named(const std::string& name);

/// pictures [N, C, H, W] uint8, C 1 (repeated to 3) or 3 -> [N, 3, 299, 299] of `type` on the same
/// device. Every step rounds as the peer's does. Throws Error, exit code 2, for other channels.
[[nodiscard]] at::Tensor network_input(const at::Tensor& pictures, Resize resize,
                                       at::ScalarType type = at::kFloat);

}  // namespace noisemark::suite::inception
