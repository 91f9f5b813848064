// This file is compiled without contraction: what ATen contracts to fma is written as fma, and
// nothing else is.
#include "memopt/treatment/kernels/norm_chain.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "memopt/cuda/device_parts.h"

namespace noisemark::memopt::treatment {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;
constexpr int kWide = 4;

__device__ float normalize(NormForm form, float x, float scale, float shift) {
  if (form == NormForm::kWithoutAffine) return (x - shift) * scale;
  if (fuses_value(form)) return fused(x, scale, shift);
  return x * scale + shift;
}

/// ATen's own kernels write them so.
__device__ float activate(Activation activation, float x) {
  if (activation == Activation::kSilu) return x / (1.0f + expf(-x));
  if (activation == Activation::kRelu) return x < 0 ? 0 : x;
  return x;
}

__global__ void prepare(NormChain job) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < job.samples * job.channels; i += step) {
    prepare_channel(job, i);
  }
}

template <typename T, int kVector>
struct alignas(sizeof(T) * kVector) Pack {
  T values[kVector];
};

/// A row's elements have one scale and shift (planes), or each its own (channels last). It is
/// rounded to Out as ATen's casts round.
template <typename Out, int kVector>
__global__ void __launch_bounds__(kThreads) run(NormChain job, uint32_t packs) {
  using Values = Pack<float, kVector>;
  const auto row_packs =
      static_cast<uint32_t>((job.channels_last ? job.channels : job.pixels) / kVector);
  const auto pixels = static_cast<uint32_t>(job.pixels);
  const uint32_t step = gridDim.x * kThreads;
  for (uint64_t wide = blockIdx.x * kThreads + threadIdx.x; wide < packs; wide += step) {
    const auto i = static_cast<uint32_t>(wide);
    const uint32_t row = i / row_packs;
    const int64_t table = job.channels_last ? static_cast<int64_t>(row / pixels) * job.channels +
                                                  static_cast<int64_t>(i % row_packs) * kVector
                                            : row;
    const Values x = reinterpret_cast<const Values*>(job.x)[i];
    Pack<Out, kVector> y;
    Values factor{};
    if (job.factor != nullptr) factor = reinterpret_cast<const Values*>(job.factor)[i];
    for (int k = 0; k < kVector; ++k) {
      const int64_t at = job.channels_last ? table + k : table;
      const float value =
          activate(job.activation, normalize(job.form, x.values[k], job.scale[at], job.shift[at]));
      y.values[k] = static_cast<Out>(job.factor != nullptr ? value * factor.values[k] : value);
    }
    static_cast<Pack<Out, kVector>*>(job.y)[i] = y;
  }
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kMostBlocks));
}

template <typename T>
bool starts_a_pack(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % sizeof(Pack<T, kWide>) == 0;
}

template <typename Out>
void launch(const NormChain& job, int64_t elements, cudaStream_t stream) {
  const int64_t row = job.channels_last ? job.channels : job.pixels;
  const bool wide = row % kWide == 0 && starts_a_pack<float>(job.x) && starts_a_pack<Out>(job.y) &&
                    starts_a_pack<float>(job.factor);
  const auto packs = static_cast<uint32_t>(wide ? elements / kWide : elements);
  if (wide) {
    run<Out, kWide><<<blocks_for(packs), kThreads, 0, stream>>>(job, packs);
  } else {
    run<Out, 1><<<blocks_for(packs), kThreads, 0, stream>>>(job, packs);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void run_norm_chain_on_cuda(const NormChain& job) {
  const int64_t elements = job.samples * job.channels * job.pixels;
  TORCH_CHECK(elements <= std::numeric_limits<uint32_t>::max(), "group norm of ", elements,
              " elements: more than are counted in 32 bits");
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  prepare<<<blocks_for(job.samples * job.channels), kThreads, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  switch (job.store) {
    case NormStore::kFloat32:
      return launch<float>(job, elements, stream);
    case NormStore::kBFloat16:
      return launch<c10::BFloat16>(job, elements, stream);
    case NormStore::kFloat16:
      return launch<c10::Half>(job, elements, stream);
  }
}

}  // namespace noisemark::memopt::treatment
