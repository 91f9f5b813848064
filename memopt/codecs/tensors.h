#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "memopt/codecs/arithmetic/real.h"
#include "memopt/codecs/codec.h"
#include "memopt/codecs/codec_device.h"

/// What all codecs do with tensors around the work of a CodecDevice.
namespace noisemark::memopt::codecs {

/// Not empty, no gaps or overlaps in memory, not lazily negated: data_ptr() begins all of it.
[[nodiscard]] bool is_dense(const at::Tensor& x);

/// Null when x is not dense, or on a device that this build has no codecs for.
[[nodiscard]] const CodecDevice* device_for(const at::Tensor& x);
/// Of parts that one of these codecs made.
[[nodiscard]] const CodecDevice& device_of(const Encoded& encoded);

/// Empty for a type that is none of float32, bfloat16 and float16.
[[nodiscard]] std::optional<Real> real_of(at::ScalarType type);

/// Sizes, strides and type of x, without parts.
[[nodiscard]] Encoded described(const at::Tensor& x);

/// Uninitialised memory for a part, [count], on x's device. Owner::kEncoded.
[[nodiscard]] at::Tensor new_part(const at::Tensor& x, int64_t count, at::ScalarType type);
/// Uninitialised memory for what decode() gives, where the parts are. Owner::kRematerialized.
[[nodiscard]] at::Tensor new_decoded(const Encoded& encoded);

[[nodiscard]] inline uint32_t* words_of(const at::Tensor& part) {
  return static_cast<uint32_t*>(part.mutable_data_ptr());
}

/// A device's answer whether anything was lost.
class LossFlag {
 public:
  explicit LossFlag(const at::Tensor& x);
  [[nodiscard]] int32_t* data() const { return flag_.mutable_data_ptr<int32_t>(); }
  /// After the work was issued. On a CPU the answer is there: false when the encoding is lost. On
  /// a GPU true, and `encoded` gets a verdict.
  [[nodiscard]] bool settle(Encoded& encoded) const;

 private:
  at::Tensor flag_;
};

/// Throws c10::Error when the verdict of `encoded` is that it is lost.
void require_kept(const Codec& codec, const Encoded& encoded);

}  // namespace noisemark::memopt::codecs
