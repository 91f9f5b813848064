#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "memopt/codecs/codec_device.h"
#include "memopt/codecs/codecs.h"
#include "memopt/codecs/host_offload.h"
#include "memopt/device/device_clock.h"
#include "memopt/modes/mode_grammar.h"
#include "tests/memopt/codecs/bits.h"
#include "tests/memopt/timed_launches.h"

// Encoding and decoding against copying the tensor as it is. `GB/s` counts the bytes of the tensor,
// whatever is made of them, so figures of one tensor compare; all of them allocate what they write.
// The tensor is that of one U-Net level, 128 channels of 32 x 32, at batch 16; on a GPU that
// repeated to 256 MiB whatever its type, which no cache holds. Times are between marks in the
// device's own order of work, on a GPU around several launches that all lie in its queue when the
// first of them begins; "cuda/..." is there where a GPU is.
//
// `least_bytes` must move at least once, whoever implements it: the tensor, and what the device
// holds encoded. `moved_bytes` counts the tensor as often as it is read: encoding reads it twice
// where no code can be written before something of the whole tensor is known (the largest
// magnitude for dpr and q, for ssdc how many values come before), unless a cache holds it in
// between. On a GPU `of_copy` is least_bytes by time over the bandwidth of a plain copy, which
// those codecs cannot bring to 1, and `of_copy_moved` the same of moved_bytes, which they can.
// mask1 of a float tensor looks for its other value first, but no further than to where it is.
namespace noisemark::memopt {
namespace {

const EncodeKey kKey;

/// The place of the tensors.
struct Place {
  c10::Device device;
  std::string prefix;
};

/// The bandwidth of a plain copy. It is measured when the first benchmark asks: before all tensors
/// are made the GPU would fall back to its idle clocks in between.
double copy_bandwidth_of(c10::Device gpu) {
  static const double bandwidth = test::copy_bandwidth(gpu);
  return bandwidth;
}

/// Bytes as above.
struct Work {
  at::Tensor x;
  int64_t least_bytes = 0;
  int64_t moved_bytes = 0;
  std::function<void()> run;
};

void add(const Place& place, const std::string& name, const Work& work) {
  const auto run = [place, work](benchmark::State& state) {
    const double bandwidth = place.device.is_cpu() ? 0 : copy_bandwidth_of(place.device);
    const std::unique_ptr<DeviceClock> clock = make_device_clock(place.device);
    test::prepare(place.device, *clock, work.run);
    for (auto _ : state) state.SetIterationTime(test::seconds_of(place.device, *clock, work.run));
    const auto rate = [&](double of_one) {
      return benchmark::Counter(of_one * static_cast<double>(state.iterations()),
                                benchmark::Counter::kIsRate);
    };
    state.counters["GB/s"] = rate(static_cast<double>(work.x.nbytes()) * 1e-9);
    state.counters["least_bytes"] = static_cast<double>(work.least_bytes);
    state.counters["moved_bytes"] = static_cast<double>(work.moved_bytes);
    if (place.device.is_cpu()) return;
    state.counters["of_copy"] = rate(static_cast<double>(work.least_bytes) / bandwidth);
    state.counters["of_copy_moved"] = rate(static_cast<double>(work.moved_bytes) / bandwidth);
  };
  benchmark::RegisterBenchmark((place.prefix + name).c_str(), run)
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

std::optional<Encoded> taken(const Codec& codec, const at::Tensor& x) {
  std::optional<Encoded> encoded = codec.encode(x, kKey);
  const bool lost = encoded && encoded->answer != nullptr &&
                    encoded->answer->wait() == DeviceAnswer::State::kLost;
  return lost ? std::nullopt : std::move(encoded);
}

int64_t bytes_on(c10::Device device, const Encoded& encoded) {
  int64_t bytes = 0;
  for (const at::Tensor& part : encoded.parts) {
    if (part.device() == device) bytes += static_cast<int64_t>(part.nbytes());
  }
  return bytes;
}

/// Returns whether the codec reads all of the tensor to know something of it, then again to encode
/// it.
bool is_read_twice(std::string_view codec) {
  return codec.starts_with("dpr") || codec.starts_with("q") || codec.starts_with("ssdc");
}

/// Nothing where the codec does not take the type.
void add_codec(const Place& place, const std::string& name,
               const std::shared_ptr<const Codec>& codec, const at::Tensor& x) {
  const auto encoded = taken(*codec, x);
  if (!encoded) return;
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const int64_t least = bytes + bytes_on(x.device(), *encoded);
  const auto copy = [x] { benchmark::DoNotOptimize(x.clone()); };
  const auto encode = [codec, x] {
    const auto again = codec->encode(x, kKey);
    codec->finish_encoding();
    benchmark::DoNotOptimize(again->parts.data());
  };
  const auto decode = [codec, encoded] { benchmark::DoNotOptimize(codec->decode(*encoded)); };
  add(place, name + "/plain_copy", {x, 2 * bytes, 2 * bytes, copy});
  add(place, name + "/encode", {x, least, least + (is_read_twice(name) ? bytes : 0), encode});
  add(place, name + "/decode", {x, least, least, decode});
}

/// "copy" on a CPU, "offload" on a GPU. Room for what is held to be decoded, and for another.
void add_host(const Place& place, const at::Tensor& x) {
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const std::shared_ptr<const Codec> host = make_host_offload(x.device(), 2 * bytes);
  add_codec(place, std::string(host->name()) + "/fp32", host, x);
}

/// The same on the device of the place; on a GPU repeated along the batch, until no cache holds it.
at::Tensor placed(const at::Tensor& x, const Place& place) {
  if (place.device.is_cpu()) return x;
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const int64_t times = (test::kMoreBytesThanCachesHold + bytes - 1) / bytes;
  return x.to(place.device).repeat({times, 1, 1, 1});
}

void add_all(const Place& place) {
  const at::Tensor normals = test::normals({16, 128, 32, 32});
  for (const test::NamedCodec& named : test::all_codecs()) {
    const at::Tensor x = test::suitable_for(named.name, normals);
    add_codec(place, named.name + "/fp32", named.codec, placed(x, place));
    add_codec(place, named.name + "/bf16", named.codec, placed(x.to(at::kBFloat16), place));
  }
  add_host(place, placed(normals, place));
  add_codec(place, "mask1/bool", make_mask_codec(), placed(normals.gt(0), place));
  const PoolGeometry pool{{32, 32}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  const at::Tensor map = std::get<1>(
      at::max_pool2d_with_indices(normals, pool.kernel, pool.stride, pool.padding, pool.dilation));
  add_codec(place, "pool4/int64", make_pool_map_codec(pool), placed(map, place));
}

/// The words of the grammar that round, which must all have their figures.
std::string roundings() {
  std::string words;
  for (const ModeWord& part : mode_words()) {
    if (part.place == ModeWord::Place::kRounding) words.append(part.word).append(" ");
  }
  return words;
}

}  // namespace
}  // namespace noisemark::memopt

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(1);
  noisemark::memopt::add_all({c10::kCPU, ""});
  const c10::Device gpu("cuda:0");
  const bool has_gpu = at::hasCUDA() && noisemark::memopt::find_codec_device(gpu) != nullptr;
  benchmark::AddCustomContext("roundings", noisemark::memopt::roundings());
  benchmark::AddCustomContext("cuda", has_gpu ? "measured" : "no GPU here: left out");
  if (has_gpu) noisemark::memopt::add_all({gpu, "cuda/"});
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
