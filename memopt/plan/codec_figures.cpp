#include "memopt/plan/codec_figures.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "memopt/device_parts.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kElements = 1 << 18;
/// Encodings are whole rows of 32 words.
constexpr double kRow = 128;

struct Rates {
  double bytes = 0;  ///< per element
  double constant_bytes = 0;
  double encode_ns = 0;  ///< per element
  double decode_ns = 0;
};

int64_t bytes_of(const Encoded& encoded) {
  int64_t bytes = 0;
  for (const at::Tensor& part : encoded.parts) bytes += static_cast<int64_t>(part.nbytes());
  return bytes;
}

template <typename Action>
double nanoseconds(DeviceClock& clock, Action action) {
  action();  // the first time is not like the others
  clock.clear();
  const DeviceClock::Mark begin = clock.mark();
  action();
  const DeviceClock::Mark end = clock.mark();
  clock.synchronize();
  return clock.seconds_between(begin, end) * 1e9;
}

std::optional<Rates> measure(const Codec& codec, at::ScalarType type, c10::Device device) {
  const at::DisableRecordFunctionGuard no_callbacks;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor whole = at::zeros({kElements}, at::dtype(type).device(device));
  const auto of_half = codec.encode(whole.narrow(0, 0, kElements / 2), {});
  const auto encoded = codec.encode(whole, {});
  if (!of_half || !encoded) return std::nullopt;
  const std::unique_ptr<DeviceClock> clock = make_device_clock(device);
  Rates rates;
  rates.bytes = static_cast<double>(bytes_of(*encoded) - bytes_of(*of_half)) * 2 / kElements;
  rates.constant_bytes = static_cast<double>(bytes_of(*encoded)) - rates.bytes * kElements;
  rates.encode_ns =
      nanoseconds(*clock, [&] { static_cast<void>(codec.encode(whole, {})); }) / kElements;
  rates.decode_ns =
      nanoseconds(*clock, [&] { static_cast<void>(codec.decode(*encoded)); }) / kElements;
  return rates;
}

using Key = std::tuple<std::string, at::ScalarType, std::string>;

std::optional<Rates> known_rates(const Codec& codec, at::ScalarType type, c10::Device device) {
  static std::mutex mutex;
  static std::map<Key, std::optional<Rates>> known;
  const std::lock_guard lock(mutex);
  const Key key(codec.name(), type, device.str());
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, measure(codec, type, device)).first->second;
}

}  // namespace

CodecFigures measured_codec_figures(c10::Device device) {
  return [device](const Codec& codec, const RecordedValue& value) {
    const std::optional<Rates> rates = known_rates(codec, value.dtype, device);
    if (!rates) return CodecFigure{value.bytes(), 0, 0};
    const auto elements =
        static_cast<double>(value.bytes()) / static_cast<double>(c10::elementSize(value.dtype));
    CodecFigure figure;
    figure.bytes = static_cast<int64_t>(rates->constant_bytes +
                                        std::ceil(elements * rates->bytes / kRow) * kRow);
    figure.encode_ns = std::llround(elements * rates->encode_ns);
    figure.decode_ns = std::llround(elements * rates->decode_ns);
    return figure;
  };
}

}  // namespace noisemark::memopt
