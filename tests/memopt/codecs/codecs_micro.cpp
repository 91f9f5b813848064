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

// Encoding and decoding against copying the tensor as it is. `GB/s` counts the bytes of the tensor,
// whatever is made of them, so figures of one tensor compare; all of them allocate what they write.
// The tensor is that of one U-Net level, 128 channels of 32 x 32, at batch 16; on a GPU at batch
// 256, so that no cache holds it. Times are between marks in the device's own order of work;
// "cuda/..." is there where a GPU is.
namespace noisemark::memopt {
namespace {

const EncodeKey kKey;

void add(const std::string& name, const at::Tensor& x, const std::function<void()>& work) {
  const auto run = [work, device = x.device(),
                    gigabytes = static_cast<double>(x.nbytes()) * 1e-9](benchmark::State& state) {
    const std::unique_ptr<DeviceClock> clock = make_device_clock(device);
    for (auto _ : state) {
      clock->clear();
      const DeviceClock::Mark begin = clock->mark();
      work();
      const DeviceClock::Mark end = clock->mark();
      clock->synchronize();
      state.SetIterationTime(clock->seconds_between(begin, end));
    }
    state.counters["GB/s"] = benchmark::Counter(gigabytes * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond)->UseManualTime();
}

std::optional<Encoded> taken(const Codec& codec, const at::Tensor& x) {
  std::optional<Encoded> encoded = codec.encode(x, kKey);
  const bool lost =
      encoded && encoded->verdict != nullptr && encoded->verdict->wait() == Verdict::State::kLost;
  return lost ? std::nullopt : std::move(encoded);
}

/// Nothing where the codec does not take the type.
void add_codec(const std::string& name, const std::shared_ptr<const Codec>& codec,
               const at::Tensor& x) {
  const auto encoded = taken(*codec, x);
  if (!encoded) return;
  add(name + "/plain_copy", x, [x] { benchmark::DoNotOptimize(x.clone()); });
  add(name + "/encode", x, [codec, x] {
    const auto again = codec->encode(x, kKey);
    codec->finish_encoding();
    benchmark::DoNotOptimize(again->parts.data());
  });
  add(name + "/decode", x, [codec, encoded] { benchmark::DoNotOptimize(codec->decode(*encoded)); });
}

/// "copy" on a CPU, "offload" on a GPU. Room for what is held to be decoded, and for another.
void add_host(const std::string& prefix, const at::Tensor& x) {
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const std::shared_ptr<const Codec> host = make_host_offload(x.device(), 2 * bytes);
  add_codec(prefix + std::string(host->name()) + "/fp32", host, x);
}

void add_all(c10::Device device, const std::string& prefix) {
  const at::Tensor normals = test::normals({device.is_cpu() ? 16 : 256, 128, 32, 32});
  for (const test::NamedCodec& named : test::all_codecs()) {
    const at::Tensor x = test::suitable_for(named.name, normals).to(device);
    add_codec(prefix + named.name + "/fp32", named.codec, x);
    add_codec(prefix + named.name + "/bf16", named.codec, x.to(at::kBFloat16));
  }
  add_host(prefix, normals.to(device));
  add_codec(prefix + "mask1/bool", make_mask_codec(), normals.gt(0).to(device));
  const PoolGeometry pool{{32, 32}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  const at::Tensor map = std::get<1>(
      at::max_pool2d_with_indices(normals, pool.kernel, pool.stride, pool.padding, pool.dilation));
  add_codec(prefix + "pool4/int64", make_pool_map_codec(pool), map.to(device));
}

}  // namespace
}  // namespace noisemark::memopt

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(1);
  noisemark::memopt::add_all(c10::Device("cpu"), "");
  const c10::Device gpu("cuda:0");
  const bool has_gpu = at::hasCUDA() && noisemark::memopt::find_codec_device(gpu) != nullptr;
  benchmark::AddCustomContext("cuda", has_gpu ? "measured" : "no GPU here: left out");
  if (has_gpu) noisemark::memopt::add_all(gpu, "cuda/");
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
