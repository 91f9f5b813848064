#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

#include "memopt/codecs/mask.h"
#include "memopt/codecs/pool_map.h"
#include "tests/memopt/codecs/bits.h"

// Encoding and decoding against copying the tensor as it is. `bytes_per_second` counts the bytes of
// the tensor, whatever is made of them, so figures of one tensor compare; all of them allocate what
// they write. The tensor is that of one U-Net level, batch 16, 128 channels of 32 x 32.
namespace noisemark::memopt {
namespace {

const EncodeKey kKey;

void add(const std::string& name, const at::Tensor& x, const std::function<at::Tensor()>& work) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [work, bytes = static_cast<int64_t>(x.nbytes())](benchmark::State& state) {
        for (auto _ : state) benchmark::DoNotOptimize(work());
        state.SetBytesProcessed(state.iterations() * bytes);
      })
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void add_codec(const std::string& name, const std::shared_ptr<Codec>& codec, const at::Tensor& x) {
  const auto encoded = codec->encode(x, kKey);
  if (!encoded) return;
  add(name + "/copy", x, [x] { return x.clone(); });
  add(name + "/encode", x, [codec, x] { return codec->encode(x, kKey)->parts[0]; });
  add(name + "/decode", x, [codec, encoded] { return codec->decode(*encoded); });
}

void add_all() {
  const at::Tensor normals = test::normals({16, 128, 32, 32});
  for (const test::NamedCodec& named : test::all_codecs()) {
    const at::Tensor x = test::suitable_for(named.name, normals);
    add_codec(named.name + "/fp32", named.codec, x);
    add_codec(named.name + "/bf16", named.codec, x.to(at::kBFloat16));
  }
  add_codec("mask1/bool", make_mask_codec(), normals.gt(0));
  const PoolGeometry pool{{32, 32}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  add_codec("pool4/int64", make_pool_map_codec(pool),
            std::get<1>(at::max_pool2d_with_indices(normals, pool.kernel, pool.stride, pool.padding,
                                                    pool.dilation)));
}

}  // namespace
}  // namespace noisemark::memopt

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(1);
  noisemark::memopt::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
