#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace noisemark::memopt {

/// What is held for backward instead of a saved tensor. Its memory is Owner::kEncoded.
struct Encoded {
  std::vector<at::Tensor> parts;  ///< on the tensor's device unless the codec says otherwise
  std::vector<int64_t> sizes;     ///< of the tensor that decode() gives back ...
  std::vector<int64_t> strides;
  at::ScalarType dtype = at::kFloat;
  double scalar = 0.0;  ///< one number that a codec may need: the scale of a mask
};

/// What a codec that rounds at random is keyed by: the same key gives the same bits.
struct EncodeKey {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t storage = 0;  ///< number of the saved storage within the step
};

/// Another form of a saved tensor. Stateless, thread-safe, no host synchronisation on a GPU unless
/// stated. Takes dense tensors (their elements fill one range of memory, in any order of
/// dimensions) and works in memory order, so NCHW and NHWC cost the same.
class Codec {
 public:
  virtual ~Codec() = default;
  /// As in mode names and reports: "dpr8".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// decode(encode(x)) has the bits of x whenever encode gives a value.
  [[nodiscard]] virtual bool lossless() const = 0;
  /// Empty when this codec cannot take this tensor: the type, gaps in memory, values outside what
  /// the form can hold, no bytes gained. The caller then keeps the tensor.
  [[nodiscard]] virtual std::optional<Encoded> encode(const at::Tensor& x,
                                                      const EncodeKey& key) const = 0;
  /// Sizes, strides and type as encoded; its memory is Owner::kRematerialized.
  [[nodiscard]] virtual at::Tensor decode(const Encoded& encoded) const = 0;
};

}  // namespace noisemark::memopt
