// This file is compiled without contraction to fma, as the CPU's kernels are: both give the same
// bits.
#include "memopt/codecs/codec_device.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_scan.cuh>

#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/groups.h"
#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/cuda/device_parts.h"

namespace noisemark::memopt::codecs {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr int64_t kMostGroups = 1 << 16;
constexpr uint32_t kAllLanes = 0xffffffff;

/// The number of this thread's warp in the whole grid, and the number of warps.
__device__ int64_t first_block() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
}
__device__ int64_t block_step() {
  return static_cast<int64_t>(gridDim.x) * kWarps;
}
__device__ int lane_of_thread() {
  return static_cast<int>(threadIdx.x % kLanes);
}

template <typename Op>
__global__ void encode_fields(FieldParameters common, const typename Op::Element* x,
                              uint32_t* words, int64_t count, int64_t blocks, int32_t* lost) {
  const Op op(common);
  const int lane = lane_of_thread();
  uint32_t lost_here = 0;
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const int64_t first = block * Fields<Op::kBits>::kPerBlock;
    words[block * kLanes + lane] = first + Fields<Op::kBits>::kPerBlock <= count
                                       ? encode_word<true>(op, x, first, count, lane, lost_here)
                                       : encode_word<false>(op, x, first, count, lane, lost_here);
  }
  if (lost_here != 0 && lost != nullptr) *lost = 1;
}

template <typename Op>
__global__ void decode_fields(FieldParameters common, typename Op::Element* y,
                              const uint32_t* words, int64_t count, int64_t blocks) {
  const Op op(common);
  const int lane = lane_of_thread();
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const int64_t first = block * Fields<Op::kBits>::kPerBlock;
    const uint32_t word = words[block * kLanes + lane];
    if (first + Fields<Op::kBits>::kPerBlock <= count) {
      decode_word<true>(op, word, y, first, count, lane);
    } else {
      decode_word<false>(op, word, y, first, count, lane);
    }
  }
}

template <typename Type>
__device__ GroupRange range_of(const typename Type::Bits* x, int64_t group, int64_t count,
                               int lane) {
  GroupRange range;
  for (int field = 0; field < kGroupFields; ++field) {
    const int64_t index = group * kGroupElements + field * kLanes + lane;
    if (index >= count) break;
    const int32_t key = ordered(Type::load(x[index]));
    range.lowest = smaller(range.lowest, key);
    range.highest = larger(range.highest, key);
  }
  range.lowest = __reduce_min_sync(kAllLanes, range.lowest);
  range.highest = __reduce_max_sync(kAllLanes, range.highest);
  return range;
}

template <int kBits, typename Type>
__global__ void encode_groups(GroupJob job, int64_t blocks, int64_t groups) {
  constexpr int kPerBlock = Fields<kBits>::kPerBlock / kGroupElements;
  const auto* x = static_cast<const typename Type::Bits*>(job.x);
  const float scale = power_of_two(scale_exponent(*job.extent, kGroupTop));
  const int lane = lane_of_thread();
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    uint32_t word = 0;
    for (int part = 0; part < kPerBlock; ++part) {
      const int64_t group = block * kPerBlock + part;
      if (group >= groups) break;
      const GroupNumbers numbers = numbers_of(range_of<Type>(x, group, job.count, lane), scale,
                                              static_cast<float>((1 << kBits) - 1));
      if (lane == 0) job.numbers[group] = numbers.packed;
      word |=
          encode_group_lane<false, kBits, Type>(numbers, job.key, x, group, job.count, lane, scale)
          << (part * kGroupFields * kBits);
    }
    job.words[block * kLanes + lane] = word;
  }
}

template <int kBits, typename Type>
__global__ void decode_groups(GroupJob job, int64_t blocks, int64_t groups) {
  constexpr int kPerBlock = Fields<kBits>::kPerBlock / kGroupElements;
  auto* y = static_cast<typename Type::Bits*>(job.y);
  const float unscale = power_of_two(-scale_exponent(*job.extent, kGroupTop));
  const int lane = lane_of_thread();
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const uint32_t word = job.words[block * kLanes + lane];
    for (int part = 0; part < kPerBlock; ++part) {
      const int64_t group = block * kPerBlock + part;
      if (group >= groups) break;
      decode_group_lane<false, kBits, Type>(unpack_numbers(job.numbers[group]),
                                            word >> (part * kGroupFields * kBits), y, group,
                                            job.count, lane, unscale);
    }
  }
}

/// Words, and of each block the number of its values where its offset is to be.
template <typename T>
__global__ void map_sparse(SparseJob job, int64_t blocks) {
  const NonZero<T> op(FieldParameters{});
  const auto* x = static_cast<const T*>(job.x);
  const int lane = lane_of_thread();
  uint32_t unused = 0;
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const int64_t first = block * SparseJob::kBlock;
    const uint32_t word = first + SparseJob::kBlock <= job.count
                              ? encode_word<true>(op, x, first, job.count, lane, unused)
                              : encode_word<false>(op, x, first, job.count, lane, unused);
    job.words[block * kLanes + lane] = word;
    const uint32_t values = __reduce_add_sync(kAllLanes, ones_in(word));
    if (lane == 0) job.offsets[block] = values;
  }
}

/// Calls `work(element, is_there, place)` for this thread's elements of a sparse tensor. A row of a
/// block is 32 elements that follow each other, one for each lane, and bit `row` of a lane's word
/// says whether its element is not zero. `place` is the number of values before it in the tensor.
template <typename Work>
__device__ void for_elements(const SparseJob& job, int64_t blocks, const Work& work) {
  const int lane = lane_of_thread();
  const uint32_t lanes_before = (1U << lane) - 1;
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const uint32_t word = job.words[block * kLanes + lane];
    int64_t next = job.offsets[block];
    for (int row = 0; row < kLanes; ++row) {
      const bool is_there = ((word >> row) & 1) != 0;
      const uint32_t there = __ballot_sync(kAllLanes, is_there);
      work(block * SparseJob::kBlock + row * kLanes + lane, is_there,
           next + ones_in(there & lanes_before));
      next += ones_in(there);
    }
  }
}

/// Stores nothing beyond the capacity: the encoding is lost then.
template <typename T>
__global__ void gather_sparse(SparseJob job, int64_t blocks) {
  for_elements(job, blocks, [&](int64_t element, bool is_there, int64_t place) {
    if (!is_there || place >= job.capacity) return;
    static_cast<T*>(job.values)[place] = static_cast<const T*>(job.x)[element];
  });
}

/// Counts the values of the whole tensor, once words and offsets are made: those before the last
/// block and its own.
__device__ int64_t values_in_all(const SparseJob& job, int64_t blocks) {
  int64_t values = job.offsets[blocks - 1];
  for (int lane = 0; lane < kLanes; ++lane) {
    values += ones_in(job.words[(blocks - 1) * kLanes + lane]);
  }
  return values;
}

/// Zeros behind the last value, and whether there was room for all.
template <typename T>
__global__ void finish_sparse(SparseJob job, int64_t blocks) {
  __shared__ int64_t values;
  if (threadIdx.x == 0) values = values_in_all(job, blocks);
  __syncthreads();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread == 0 && values > job.capacity) *job.lost = 1;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = values + thread; i < job.capacity; i += step) {
    static_cast<T*>(job.values)[i] = T{0};
  }
}

template <typename T>
__global__ void scatter_sparse(SparseJob job, int64_t blocks) {
  for_elements(job, blocks, [&](int64_t element, bool is_there, int64_t place) {
    if (element >= job.count) return;
    static_cast<T*>(job.y)[element] = is_there ? static_cast<const T*>(job.values)[place] : T{0};
  });
}

/// The result over this warp's lanes, for all of them.
__device__ Extent joined_by_warp(Extent extent) {
  return __reduce_max_sync(kAllLanes, extent & kMagnitudeBits) |
         __reduce_or_sync(kAllLanes, extent & kSignBit);
}

/// Two numbers in one word: compares and swaps until both are in; does nothing where they are.
__device__ void join(Extent* all, Extent extent) {
  Extent before = *static_cast<volatile Extent*>(all);
  while (joined(before, extent) != before) {
    const Extent seen = atomicCAS(all, before, joined(before, extent));
    if (seen == before) return;
    before = seen;
  }
}

template <typename Type>
__global__ void __launch_bounds__(kThreads)
    join_extents(const typename Type::Bits* x, int64_t count, Extent* all) {
  using Search = ExtentSearch<Type>;
  __shared__ Extent of_warps[kWarps];
  Search search;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
#pragma unroll 8
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    search.take(x[i]);
  }
  const Extent of_warp = joined_by_warp(search.extent());
  if (lane_of_thread() == 0) of_warps[threadIdx.x / kLanes] = of_warp;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Extent of_block = 0;
  for (const Extent extent : of_warps) of_block = joined(of_block, extent);
  join(all, of_block);
}

/// A warp looks no further than its first 32 neighbours with one.
template <typename T>
__global__ void take_nonzero(const T* x, int64_t count, uint32_t* number) {
  const int lane = lane_of_thread();
  for (int64_t first = first_block() * kLanes; first < count; first += block_step() * kLanes) {
    const T element = first + lane < count ? x[first + lane] : T{0};
    const uint32_t holders = __ballot_sync(kAllLanes, element != 0);
    if (holders == 0) continue;
    if (lane == __ffs(static_cast<int>(holders)) - 1) {
      atomicCAS(number, 0U, static_cast<uint32_t>(element));
    }
    return;
  }
}

unsigned grid_for_blocks(int64_t blocks) {
  return static_cast<unsigned>(std::min(blocks_of(blocks, kWarps), kMostGroups));
}
unsigned grid_for_elements(int64_t count) {
  constexpr int64_t kPerThread = 16;
  return static_cast<unsigned>(std::min(blocks_of(count, kThreads * kPerThread), kMostGroups));
}
/// Enough to keep a GPU's memory busy where there is nothing to be found, and few otherwise.
unsigned grid_for_search(int64_t count) {
  constexpr int64_t kMostSearching = 1 << 11;
  return static_cast<unsigned>(std::min(blocks_of(count, kThreads), kMostSearching));
}

cudaStream_t stream() {
  return c10::cuda::getCurrentCUDAStream();
}

/// Replaces each of `count` numbers by the sum of those before it; all of them add up to less than
/// 2^32. Takes scratch memory of LibTorch's allocator, which after the first time has it at hand,
/// and does not wait.
void exclusive_sum(uint32_t* numbers, int64_t count) {
  size_t scratch_bytes = 0;
  C10_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, scratch_bytes, numbers, count, stream()));
  // The memory is given back when the work is issued: whoever gets it next on this stream comes
  // after.
  const c10::DataPtr scratch = c10::cuda::CUDACachingAllocator::get()->allocate(scratch_bytes);
  C10_CUDA_CHECK(
      cub::DeviceScan::ExclusiveSum(scratch.get(), scratch_bytes, numbers, count, stream()));
}

template <typename Body>
void with_group_kernel(const GroupJob& job, const Body& body) {
  with_real(job.real, [&](auto type) {
    using Type = decltype(type);
    job.bits == 4 ? body(TypeOf<Type>{}, std::integral_constant<int, 4>{})
                  : body(TypeOf<Type>{}, std::integral_constant<int, 2>{});
  });
}

class CudaCodecDevice final : public CodecDevice {
 public:
  void encode(const FieldJob& job) const override {
    const int64_t blocks = blocks_of(job.count, elements_per_block(job.form));
    // Only the device knows whether all is finite.
    with_field_op<false>(job.form, job.real, [&](auto tag) {
      using Op = typename decltype(tag)::Type;
      encode_fields<Op><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(
          job.common, static_cast<const typename Op::Element*>(job.x), job.words, job.count, blocks,
          job.lost);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void decode(const FieldJob& job) const override {
    const int64_t blocks = blocks_of(job.count, elements_per_block(job.form));
    with_field_op<false>(job.form, job.real, [&](auto tag) {
      using Op = typename decltype(tag)::Type;
      decode_fields<Op><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(
          job.common, static_cast<typename Op::Element*>(job.y), job.words, job.count, blocks);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  void encode(const GroupJob& job) const override {
    const int64_t blocks = blocks_of(job.count, job.elements_per_block());
    const int64_t groups = blocks_of(job.count, kGroupElements);
    with_group_kernel(job, [&](auto tag, auto bits) {
      encode_groups<decltype(bits)::value, typename decltype(tag)::Type>
          <<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks, groups);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void decode(const GroupJob& job) const override {
    const int64_t blocks = blocks_of(job.count, job.elements_per_block());
    const int64_t groups = blocks_of(job.count, kGroupElements);
    with_group_kernel(job, [&](auto tag, auto bits) {
      decode_groups<decltype(bits)::value, typename decltype(tag)::Type>
          <<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks, groups);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  void encode(const SparseJob& job) const override {
    const int64_t blocks = blocks_of(job.count, SparseJob::kBlock);
    with_element(job.element_bytes, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      map_sparse<T><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      exclusive_sum(job.offsets, blocks);
      gather_sparse<T><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      finish_sparse<T><<<grid_for_elements(job.capacity), kThreads, 0, stream()>>>(job, blocks);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  }
  void decode(const SparseJob& job) const override {
    const int64_t blocks = blocks_of(job.count, SparseJob::kBlock);
    with_element(job.element_bytes, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      scatter_sparse<T><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  void find_extent(const SearchJob& job) const override {
    C10_CUDA_CHECK(cudaMemsetAsync(job.number, 0, sizeof(uint32_t), stream()));
    with_real(job.real, [&](auto type) {
      using Type = decltype(type);
      join_extents<Type><<<grid_for_elements(job.count), kThreads, 0, stream()>>>(
          static_cast<const typename Type::Bits*>(job.x), job.count, job.number);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void find_nonzero(const SearchJob& job) const override {
    C10_CUDA_CHECK(cudaMemsetAsync(job.number, 0, sizeof(uint32_t), stream()));
    with_element(job.element_bytes, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      take_nonzero<T><<<grid_for_search(job.count), kThreads, 0, stream()>>>(
          static_cast<const T*>(job.x), job.count, job.number);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

const CodecDevice& cuda_codec_device() {
  static const CudaCodecDevice device;
  return device;
}

}  // namespace noisemark::memopt::codecs
