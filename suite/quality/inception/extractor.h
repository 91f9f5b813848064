#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suite/quality/inception/weights.h"

namespace noisemark::suite::inception {

/// A place where features are taken, from the input to the output. The first three are maps,
/// averaged over their pixels.
enum class Tap {
  k64,      ///< is taken after the first max pooling
  k192,     ///< is taken after the second
  k768,     ///< is taken before the place of the auxiliary classifier
  k2048,    ///< the last average pooling: what FID and KID are defined on
  kLogits,  ///< [1008], without the linear layer's bias, as torch-fidelity takes the Inception
            ///< score
};

inline constexpr std::array<Tap, 5> kTaps{Tap::k64, Tap::k192, Tap::k768, Tap::k2048, Tap::kLogits};

/// Numbers in one image's features.
[[nodiscard]] int64_t tap_size(Tap tap);

/// The network for inference alone. Each batch norm is folded in float64 into the weights of its
/// convolution and a bias, which saves a pass over every map; what differs from the peers is
/// rounding (tests/parity/inception_test.py).
class Network {
 public:
  /// Keeps its weights in channels-last on a CPU, which is faster there. `type`: float32, or
  /// float64 for tests.
  Network(const Weights& weights, at::Device device, at::ScalarType type = at::kFloat);

  /// input [N, 3, 299, 299] from network_input() on the network's device -> for each of `taps`, in
  /// that order, [N, tap_size()] float32 (or float64). Nothing behind the last tap is computed.
  [[nodiscard]] std::vector<at::Tensor> forward(const at::Tensor& input,
                                                std::span<const Tap> taps) const;

  /// Tap::kLogits of what Tap::k2048 gave, in the network's type on its device.
  [[nodiscard]] at::Tensor logits(const at::Tensor& features) const { return to_logits(features); }

  [[nodiscard]] at::Device device() const { return fc_weight_.device(); }
  [[nodiscard]] at::ScalarType type() const { return fc_weight_.scalar_type(); }

 private:
  /// One of kConvolutions with its batch norm.
  struct Folded {
    at::Tensor weight;
    at::Tensor bias;
    std::array<int64_t, 2> stride;
    std::array<int64_t, 2> padding;
  };
  using Names = std::initializer_list<std::string_view>;

  /// x through the convolutions `block` + "." + name, one after the other.
  [[nodiscard]] at::Tensor chain(std::string_view block, Names names, at::Tensor x) const;
  [[nodiscard]] at::Tensor convolve(std::string_view name, const at::Tensor& x) const;

  [[nodiscard]] at::Tensor to_64(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor to_192(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor to_768(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor to_2048(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor to_logits(const at::Tensor& x) const;

  [[nodiscard]] at::Tensor block_a(std::string_view block, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor block_b(std::string_view block, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor block_c(std::string_view block, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor block_d(std::string_view block, const at::Tensor& x) const;
  /// `pooled` is x after the block's own pooling.
  [[nodiscard]] at::Tensor block_e(std::string_view block, const at::Tensor& x,
                                   const at::Tensor& pooled) const;

  std::map<std::string, Folded, std::less<>> convolutions_;
  at::Tensor fc_weight_;  ///< [1008, 2048]
  at::MemoryFormat format_;
};

/// The way in which 8-bit images become the network's input: bilinear without antialiasing, each
/// way with the normalisation of the peer that uses it. Distances under the two are not comparable.
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

/// `pictures` [N, C, H, W] uint8, C 1 (repeated to 3) or 3 -> [N, 3, 299, 299] of `type` on the
/// same device. Every step rounds as the peer's does. Throws Error, exit code 2, for other
/// channels.
[[nodiscard]] at::Tensor network_input(const at::Tensor& pictures, Resize resize,
                                       at::ScalarType type = at::kFloat);

struct Settings {
  Resize resize = Resize::kTf1Bilinear;
  at::Device device = at::kCPU;
  int64_t batch = 32;  ///< images at a time; only rounding depends on it
};

/// Features of 8-bit images. Immutable after construction.
class Extractor {
 public:
  /// Throws std::invalid_argument for a batch below 1.
  Extractor(const Weights& weights, const Settings& settings);

  /// `pictures` [N, C, H, W] uint8, C 1 or 3, on any device -> for each of `taps`, in that order,
  /// [N, tap_size()] float32 on the extractor's device. In full float32 on CUDA too, whatever is
  /// set for training (TF32 would cost three of the digits). Throws Error, exit code 2, for other
  /// channels.
  [[nodiscard]] std::vector<at::Tensor> features(const at::Tensor& pictures,
                                                 std::span<const Tap> taps) const;

  /// The 2048 features that FID, KID, precision and recall are computed of.
  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const;

  /// Returns what Tap::kLogits gives for features that were taken at Tap::k2048: nothing but the
  /// last layer is computed. [N, 2048] on any device -> [N, 1008] float32 on the extractor's.
  [[nodiscard]] at::Tensor logits(const at::Tensor& features) const;

  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  Network network_;
};

}  // namespace noisemark::suite::inception
