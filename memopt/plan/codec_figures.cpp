#include "memopt/plan/codec_figures.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "memopt/device/device_clock.h"

namespace noisemark::memopt {
namespace {

/// The smaller where host memory has no room for the larger.
constexpr std::array<int64_t, 2> kElements = {1 << 18, 1 << 14};
/// A GPU does 2^18 elements in less time than it takes to launch the work: at 64 MiB of float32 a
/// launch is a small part, and no cache holds them.
constexpr std::array<int64_t, 3> kGpuElements = {1 << 24, 1 << 18, 1 << 14};
constexpr int64_t kDrawn = 1 << 14;  ///< normals, which are repeated
constexpr uint64_t kSeed = 1;
constexpr int kRuns = 5;
/// A GPU runs so many in one measurement, by which its marks cost little.
constexpr int kGpuLaunches = 8;
/// A GPU waits no longer than this while the host issues a run.
constexpr double kLongestHold_s = 0.05;
const EncodeKey kKey{.storage = EncodeKey::kNoStorage};

/// Makes a sample of float32 standard normals, [n].
using MakeSample = at::Tensor (*)(const at::Tensor& normals);
constexpr std::array<MakeSample, 8> kSamples = {
    [](const at::Tensor& x) { return at::relu(x.add(0.5)); },
    [](const at::Tensor& x) { return at::relu(x); },
    [](const at::Tensor& x) { return at::relu(x.sub(0.3)); },
    [](const at::Tensor& x) { return at::relu(x.sub(0.6)); },
    [](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); },
    [](const at::Tensor& x) { return x.to(at::kHalf).to(at::kFloat); },
    [](const at::Tensor& x) { return x.gt(-1.28).to(at::kFloat).mul(1.25); },
    [](const at::Tensor& x) { return at::zeros_like(x); },
};

/// The figures per element.
struct Rates {
  double encode_ns = 0;
  double decode_ns = 0;
};

/// Times one action. The device begins when the host has issued them all.
template <typename Action>
double nanoseconds_of_a_run(DeviceClock& clock, int launches, Action action) {
  clock.clear();
  clock.hold(kLongestHold_s);
  const DeviceClock::Mark begin = clock.mark();
  for (int i = 0; i < launches; ++i) action();
  const DeviceClock::Mark end = clock.mark();
  clock.release();
  clock.synchronize();
  return clock.seconds_between(begin, end) * 1e9 / launches;
}

/// The median of several runs.
template <typename Action>
double nanoseconds(DeviceClock& clock, int launches, Action action) {
  // The first is not like the others: all memory that a run takes at once must be there.
  static_cast<void>(nanoseconds_of_a_run(clock, launches, action));
  std::array<double, kRuns> runs{};
  for (double& run : runs) run = nanoseconds_of_a_run(clock, launches, action);
  std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
  return runs[kRuns / 2];
}

std::optional<Encoded> taken(const Codec& codec, const at::Tensor& x) {
  std::optional<Encoded> encoded = codec.encode(x, kKey);
  if (encoded && encoded->answer != nullptr &&
      encoded->answer->wait() == DeviceAnswer::State::kLost) {
    return std::nullopt;
  }
  return encoded;
}

std::optional<Rates> measure_on(const Codec& codec, const at::Tensor& whole) {
  const auto encoded = taken(codec, whole);
  if (!encoded) return std::nullopt;
  const auto count = static_cast<double>(whole.numel());
  const std::unique_ptr<DeviceClock> clock = make_device_clock(whole.device());
  const int launches = whole.is_cpu() ? 1 : kGpuLaunches;
  const auto encode = [&] {
    const auto again = codec.encode(whole, kKey);
    codec.finish_encoding();
  };
  const auto decode = [&] { static_cast<void>(codec.decode(*encoded)); };
  Rates rates;
  rates.encode_ns = nanoseconds(*clock, launches, encode) / count;
  rates.decode_ns = nanoseconds(*clock, launches, decode) / count;
  return rates;
}

std::span<const int64_t> sizes_on(c10::Device device) {
  if (device.is_cuda()) return kGpuElements;
  return kElements;
}

std::optional<Rates> measure(const Codec& codec, at::ScalarType type, c10::Device device) {
  const at::DisableRecordFunctionGuard no_callbacks;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor drawn = at::randn({kDrawn}, at::detail::createCPUGenerator(kSeed));
  for (const int64_t elements : sizes_on(device)) {
    const at::Tensor example = codec.example(elements);
    if (example.defined()) {
      if (const std::optional<Rates> rates = measure_on(codec, example.to(device))) return rates;
      continue;
    }
    const at::Tensor normals = drawn.repeat({elements / kDrawn});
    for (const MakeSample make : kSamples) {
      const at::Tensor sample = make(normals).to(type).to(device);
      if (const std::optional<Rates> rates = measure_on(codec, sample)) return rates;
    }
  }
  return std::nullopt;
}

using Key = std::tuple<std::string, at::ScalarType, std::string>;

std::optional<Rates> known_rates(const Codec& codec, at::ScalarType type, c10::Device device,
                                 const std::string& model) {
  static std::mutex mutex;
  static std::map<Key, std::optional<Rates>> known;
  const std::lock_guard lock(mutex);
  const Key key(codec.form(), type, model);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, measure(codec, type, device)).first->second;
}

}  // namespace

CodecFigures measured_codec_figures(c10::Device device) {
  return [device, model = device_model(device)](const Codec& codec, const RecordedValue& value) {
    const std::optional<Rates> rates = known_rates(codec, value.dtype, device, model);
    if (!rates) return CodecFigure{value.bytes(), 0, 0};
    const int64_t elements = value.bytes() / static_cast<int64_t>(c10::elementSize(value.dtype));
    const auto count = static_cast<double>(elements);
    CodecFigure figure;
    for (const PartSize& part : codec.parts_of(elements, value.dtype)) figure.bytes += part.bytes();
    figure.encode_ns = std::llround(count * rates->encode_ns);
    figure.decode_ns = std::llround(count * rates->decode_ns);
    return figure;
  };
}

}  // namespace noisemark::memopt
