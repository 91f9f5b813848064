#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "memopt/codecs/arithmetic/floats.h"
#include "memopt/codecs/codec.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/codecs/codecs.h"

/// The work of all codecs on tensors around that of a CodecDevice.
namespace noisemark::memopt::codecs {

/// Brings a flag home from a device with streams: copied to pinned memory behind the work issued so
/// far on the current stream. It is not for streams that are being captured into a graph.
class AsyncAnswer final : public DeviceAnswer {
 public:
  /// `flag` int32 [1]: not 0 when the encoding is lost.
  explicit AsyncAnswer(const at::Tensor& flag);
  State poll() override;
  State wait() override;

 private:
  State read();

  std::mutex mutex_;
  at::Tensor answer_;  ///< is pinned; undefined once it was read
  c10::Event arrived_;
  State state_ = State::kPending;
};

/// Returns whether the tensor is not empty, has no gaps or overlaps in memory and is not lazily
/// negated: data_ptr() begins all of it.
[[nodiscard]] bool is_dense(const at::Tensor& x);

/// Returns null when x is not dense, or on a device that this build has no codecs for.
[[nodiscard]] const CodecDevice* device_for(const at::Tensor& x);
/// The device of parts that one of these codecs made.
[[nodiscard]] const CodecDevice& device_of(const Encoded& encoded);

/// Returns nothing for a type that is none of float32, bfloat16 and float16.
[[nodiscard]] std::optional<Real> real_of(at::ScalarType type);

/// Sizes, strides and type of x, without parts.
[[nodiscard]] Encoded described(const at::Tensor& x);

/// Uninitialised memory for parts, on x's device. Owner::kEncoded.
[[nodiscard]] std::vector<at::Tensor> new_parts(const at::Tensor& x,
                                                const std::vector<PartSize>& sizes);
[[nodiscard]] int64_t bytes_of(const std::vector<PartSize>& parts);
/// Uninitialised memory for what decode() gives, where the parts are. Owner::kRematerialized.
[[nodiscard]] at::Tensor new_decoded(const Encoded& encoded);

[[nodiscard]] inline uint32_t* words_of(const at::Tensor& part) {
  return static_cast<uint32_t*>(part.mutable_data_ptr());
}

/// The device's answer whether an element does not survive its encoding.
class LostFlag {
 public:
  explicit LostFlag(const at::Tensor& x);
  [[nodiscard]] int32_t* data() const { return flag_.mutable_data_ptr<int32_t>(); }
  /// Call it after the work was issued. On a CPU the answer is there: false when the encoding is
  /// lost. On a GPU it returns true, and `encoded` gets an answer.
  [[nodiscard]] bool settle(Encoded& encoded) const;

 private:
  at::Tensor flag_;
};

/// Throws c10::Error when the answer of `encoded` is that it is lost.
void require_kept(const Codec& codec, const Encoded& encoded);

/// Returns whether a codec that takes such values refuses the tensor of this extent
/// (arithmetic/floats.h), int32 [1].
[[nodiscard]] bool refuses(RoundedValues values, const at::Tensor& extent);

struct FieldJob;
enum class FieldForm : uint8_t;

/// The parts of encode_fields().
[[nodiscard]] std::vector<PartSize> parts_of_fields(int64_t elements, FieldForm form);
/// Encodes with a fixed number of bits for each element. The parts are the words
/// (arithmetic/fields.h), int32, and where the form needs one number of the whole tensor that
/// number, int32 [1]. `job` says the form, and its parameters; the rest is filled in here. `fits`:
/// whatever the values, the form is known to hold them. It is empty as Codec::encode().
[[nodiscard]] std::optional<Encoded> encode_fields(const at::Tensor& x, FieldJob job,
                                                   bool fits = false);
[[nodiscard]] at::Tensor decode_fields(const Codec& codec, const Encoded& encoded, FieldJob job);

}  // namespace noisemark::memopt::codecs
