#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::memopt {

/// Says whether an encoding holds the tensor that it was made from, where a GPU finds out only
/// after encode() has returned: to wait there would stop the host. Thread-safe.
class DeviceAnswer {
 public:
  enum class State : uint8_t { kPending, kHolds, kLost };
  virtual ~DeviceAnswer() = default;
  /// It never waits.
  [[nodiscard]] virtual State poll() = 0;
  /// Waits for the device; never kPending.
  [[nodiscard]] virtual State wait() = 0;
};

/// The form that is held for backward instead of a saved tensor. Its memory is Owner::kEncoded.
struct Encoded {
  std::vector<at::Tensor> parts;  ///< parts on the tensor's device unless the codec says otherwise
  std::vector<int64_t> sizes;     ///< sizes, strides and dtype of the tensor that decode() gives
  std::vector<int64_t> strides;
  at::ScalarType dtype = at::kFloat;
  /// It is null where the encoding holds. Else the caller keeps the tensor as well while this is
  /// pending; when it holds lets the tensor go, and when it is lost lets this encoding go and keeps
  /// the tensor. Who lets go of the tensor earlier gets an error from decode(), never a wrong
  /// value.
  std::shared_ptr<DeviceAnswer> answer;
  std::shared_ptr<void> state;  ///< the codec's own
};

/// The key of a codec that rounds at random: the same key gives the same bits. Seed: any;
/// step and storage in [0, 2^32). And what is known of the tensor beforehand.
struct EncodeKey {
  /// The number of what is no saved storage: a codec that keeps account of them leaves it out.
  static constexpr int64_t kNoStorage = 0xffffffff;

  uint64_t seed = 0;
  int64_t step = 0;
  int64_t storage = 0;  ///< number of the saved storage within the step
  /// All of the tensor was cast from this type and not written since: a form that holds whatever
  /// the type has holds the tensor, and nobody needs to ask the device.
  std::optional<at::ScalarType> cast_from = std::nullopt;
};

/// The size of one of an encoding's parts.
struct PartSize {
  int64_t elements = 0;
  at::ScalarType type = at::kInt;
  [[nodiscard]] int64_t bytes() const {
    return elements * static_cast<int64_t>(c10::elementSize(type));
  }
};

/// Another form of a saved tensor. Stateless, thread-safe, no host synchronisation on a GPU unless
/// stated. Takes dense tensors (their elements fill one range of memory, in any order of
/// dimensions) and works in memory order, so NCHW and NHWC cost the same. The same bits on every
/// device and instruction set, with any number of threads.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Mode names and reports spell it so: "dpr8".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Tells codecs of one name apart whose encodings differ: "ssdc, room 0.35".
  [[nodiscard]] virtual std::string form() const { return std::string(name()); }
  /// decode(encode(x)) has the bits of x whenever encode gives a value (and its answer holds).
  [[nodiscard]] virtual bool lossless() const = 0;
  /// A consumer that only asks whether an element is at most zero, as ReLU's backward does, gets
  /// the answers of x, whatever else is lost.
  [[nodiscard]] virtual bool keeps_sign() const { return lossless(); }
  /// Returns nothing when this codec cannot take this tensor: the type, gaps in memory, values
  /// outside what the form can hold, no bytes gained. The caller then keeps the tensor.
  [[nodiscard]] virtual std::optional<Encoded> encode(const at::Tensor& x,
                                                      const EncodeKey& key) const = 0;
  /// The parts on the tensor's own device, where it takes a tensor of so many elements. By default
  /// it is one of the tensor's size.
  [[nodiscard]] virtual std::vector<PartSize> parts_of(int64_t elements,
                                                       at::ScalarType type) const {
    return {{elements, type}};
  }
  /// Returns the share of its room that an encoding takes, where a form has fixed room: the next
  /// tensor may need more. Asks the device.
  [[nodiscard]] virtual double filled(const Encoded& /*encoded*/) const { return 0; }
  /// A tensor of about so many elements on the CPU that shows what the codec costs. It is undefined
  /// where any of the type it takes does that.
  [[nodiscard]] virtual at::Tensor example(int64_t /*elements*/) const { return {}; }
  /// Call it at the end of a forward pass: a codec that copies elsewhere may order the rest of its
  /// copies before the work that follows. The host does not wait.
  virtual void finish_encoding() const {}
  /// Says that decode(encoded) comes soon; a codec that fetches from elsewhere begins now.
  virtual void prefetch(const Encoded& /*encoded*/) const {}
  /// Sizes, strides and type as encoded; its memory is Owner::kRematerialized. Any number of
  /// times. Throws c10::Error when the answer is that the encoding is lost.
  [[nodiscard]] virtual at::Tensor decode(const Encoded& encoded) const = 0;
};

}  // namespace noisemark::memopt
