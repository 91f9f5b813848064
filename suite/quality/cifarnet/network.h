#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "suite/io/safetensors.h"

/// A small network for 32 x 32 photographs, trained by train_cifarnet.py to tell CIFAR-10's ten
/// classes apart. Its weights are part of the program, so that quality has a learned measure where
/// FID's weights are not at hand. Its distance is no FID and is comparable with no other.

namespace noisemark::suite::cifarnet {

inline constexpr std::string_view kName = "cifarnet-v1";
/// The SHA-256 of the safetensors file that is in the program. Other weights are another version of
/// the network.
inline constexpr std::string_view kSha256 =
    "ea17c26f6393df9ac2d22944ed5468553751c3d33159cb57303a51f79fba262a";
/// 48 of the maps of 16 x 16 pixels, which see texture and noise, and 96 of the last ones, which
/// see what is in the image; each averaged over its pixels.
inline constexpr int64_t kFeatures = 48 + 96;
inline constexpr int64_t kSmallest = 16;  ///< height and width of an image, at the least

/// The file with the weights, as it is in the program.
[[nodiscard]] std::string_view weights_file();

class Network {
 public:
  /// Throws Error, exit code 2, beginning with `where`, when names or shapes are others than
  /// the network's.
  Network(const NamedTensors& weights, at::Device device, const std::string& where);

  /// Takes the weights that are in the program.
  [[nodiscard]] static Network shipped(at::Device device);

  /// `pictures` uint8 [N, 3, H, W], H and W at least kSmallest, on any device -> [N, kFeatures]
  /// float32 on the network's. Nothing is resized. Throws Error, exit code 2, for another shape.
  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const;

 private:
  NamedTensors tensors_;  ///< weight and bias of each layer in turn
};

}  // namespace noisemark::suite::cifarnet
