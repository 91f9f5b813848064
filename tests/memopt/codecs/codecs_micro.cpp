#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "memopt/codecs/host_offload.h"
#include "memopt/codecs/mask.h"
#include "memopt/codecs/pool_map.h"
#include "memopt/device_parts.h"
#include "tests/memopt/codecs/bits.h"
#include "tests/memopt/timed_launches.h"

// Encoding and decoding against copying the tensor as it is. `GB/s` counts the bytes of the tensor,
// whatever is made of them, so figures of one tensor compare; all of them allocate what they write.
// The tensor is that of one U-Net level, 128 channels of 32 x 32, at batch 16; on a GPU at batch
// 256, so that no cache holds it. Times are between marks in the device's own order of work, on a
// GPU around several launches; "cuda/..." is there where a GPU is. There `of_copy` is the fraction
// of its copy bandwidth: the bytes that no implementation can avoid (the tensor, and what the
// device holds encoded) by time, over those of a plain copy.
namespace noisemark::memopt {
namespace {

const EncodeKey kKey;

/// Where the tensors are. The bandwidth is that of a plain copy, of a GPU alone.
struct Place {
  c10::Device device;
  std::string prefix;
  std::optional<double> copy_bandwidth;
};

/// `moved_bytes`: read and written on the device, by any implementation.
struct Work {
  at::Tensor x;
  int64_t moved_bytes = 0;
  std::function<void()> run;
};

void add(const Place& place, const std::string& name, const Work& work) {
  const auto run = [place, work](benchmark::State& state) {
    const std::unique_ptr<DeviceClock> clock = make_device_clock(place.device);
    work.run();  // loads the kernels
    for (auto _ : state) state.SetIterationTime(test::seconds_of(place.device, *clock, work.run));
    const auto rate = [&](double of_one) {
      return benchmark::Counter(of_one * static_cast<double>(state.iterations()),
                                benchmark::Counter::kIsRate);
    };
    state.counters["GB/s"] = rate(static_cast<double>(work.x.nbytes()) * 1e-9);
    if (!place.copy_bandwidth) return;
    state.counters["of_copy"] = rate(static_cast<double>(work.moved_bytes) / *place.copy_bandwidth);
  };
  benchmark::RegisterBenchmark((place.prefix + name).c_str(), run)
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

std::optional<Encoded> taken(const Codec& codec, const at::Tensor& x) {
  std::optional<Encoded> encoded = codec.encode(x, kKey);
  const bool lost =
      encoded && encoded->verdict != nullptr && encoded->verdict->wait() == Verdict::State::kLost;
  return lost ? std::nullopt : std::move(encoded);
}

int64_t bytes_on(c10::Device device, const Encoded& encoded) {
  int64_t bytes = 0;
  for (const at::Tensor& part : encoded.parts) {
    if (part.device() == device) bytes += static_cast<int64_t>(part.nbytes());
  }
  return bytes;
}

/// Nothing where the codec does not take the type.
void add_codec(const Place& place, const std::string& name,
               const std::shared_ptr<const Codec>& codec, const at::Tensor& x) {
  const auto encoded = taken(*codec, x);
  if (!encoded) return;
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const int64_t moved_bytes = bytes + bytes_on(x.device(), *encoded);
  add(place, name + "/plain_copy", {x, 2 * bytes, [x] { benchmark::DoNotOptimize(x.clone()); }});
  add(place, name + "/encode", {x, moved_bytes, [codec, x] {
                                  const auto again = codec->encode(x, kKey);
                                  codec->finish_encoding();
                                  benchmark::DoNotOptimize(again->parts.data());
                                }});
  add(place, name + "/decode",
      {x, moved_bytes, [codec, encoded] { benchmark::DoNotOptimize(codec->decode(*encoded)); }});
}

/// "copy" on a CPU, "offload" on a GPU. Room for what is held to be decoded, and for another.
void add_host(const Place& place, const at::Tensor& x) {
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const std::shared_ptr<const Codec> host = make_host_offload(x.device(), 2 * bytes);
  add_codec(place, std::string(host->name()) + "/fp32", host, x);
}

void add_all(const Place& place) {
  const c10::Device device = place.device;
  const at::Tensor normals = test::normals({device.is_cpu() ? 16 : 256, 128, 32, 32});
  for (const test::NamedCodec& named : test::all_codecs()) {
    const at::Tensor x = test::suitable_for(named.name, normals).to(device);
    add_codec(place, named.name + "/fp32", named.codec, x);
    add_codec(place, named.name + "/bf16", named.codec, x.to(at::kBFloat16));
  }
  add_host(place, normals.to(device));
  add_codec(place, "mask1/bool", make_mask_codec(), normals.gt(0).to(device));
  const PoolGeometry pool{{32, 32}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  const at::Tensor map = std::get<1>(
      at::max_pool2d_with_indices(normals, pool.kernel, pool.stride, pool.padding, pool.dilation));
  add_codec(place, "pool4/int64", make_pool_map_codec(pool), map.to(device));
}

}  // namespace
}  // namespace noisemark::memopt

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(1);
  noisemark::memopt::add_all({c10::kCPU, "", std::nullopt});
  const c10::Device gpu("cuda:0");
  const bool has_gpu = at::hasCUDA() && noisemark::memopt::find_codec_device(gpu) != nullptr;
  benchmark::AddCustomContext("cuda", has_gpu ? "measured" : "no GPU here: left out");
  if (has_gpu) {
    noisemark::memopt::add_all({gpu, "cuda/", noisemark::memopt::test::copy_bandwidth(gpu)});
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
