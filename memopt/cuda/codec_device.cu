// Compiled without contraction to fma, as the CPU's kernels are: both give the same bits.
#include "memopt/cuda/codec_device.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "memopt/codecs/arithmetic/fields.h"
#include "memopt/codecs/arithmetic/groups.h"
#include "memopt/codecs/arithmetic/jobs.h"

namespace noisemark::memopt::codecs {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr int64_t kMostGroups = 1 << 16;
constexpr uint32_t kAllLanes = 0xffffffff;

/// Of this thread's warp in the whole grid, and the number of warps.
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

template <typename T>
__global__ void map_sparse(SparseJob job, int64_t blocks) {
  const NonZero<T> op(FieldParameters{});
  const auto* x = static_cast<const T*>(job.x);
  const int lane = lane_of_thread();
  uint32_t unused = 0;
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const uint32_t word =
        encode_word<false>(op, x, block * SparseJob::kBlock, job.count, lane, unused);
    job.words[block * kLanes + lane] = word;
    const uint32_t values = __reduce_add_sync(kAllLanes, ones_in(word));
    if (lane == 0) job.offsets[block] = values;
  }
}

/// From each block's number of values to their offset. One group of threads, a tile at a time.
__global__ void make_offsets(SparseJob job, int64_t blocks) {
  __shared__ uint32_t warp_sums[kWarps];
  const int lane = lane_of_thread();
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  uint64_t before_tile = 0;
  for (int64_t tile = 0; tile < blocks; tile += kThreads) {
    const int64_t block = tile + threadIdx.x;
    const uint32_t values = block < blocks ? job.offsets[block] : 0;
    uint32_t sum = values;
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const uint32_t other = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += other;
    }
    if (lane == kLanes - 1) warp_sums[warp] = sum;
    __syncthreads();
    uint32_t before = 0;
    uint32_t tile_sum = 0;
    for (int other = 0; other < kWarps; ++other) {
      if (other < warp) before += warp_sums[other];
      tile_sum += warp_sums[other];
    }
    if (block < blocks) {
      job.offsets[block] = static_cast<uint32_t>(before_tile) + before + sum - values;
    }
    before_tile += tile_sum;
    __syncthreads();
  }
  if (threadIdx.x == 0 && before_tile > static_cast<uint64_t>(job.capacity)) *job.lost = 1;
}

/// Place of a lane's value among those of its row, and the row's number of values.
struct RowPlace {
  bool has_value;
  int place;
  int values;
};
__device__ RowPlace place_in_row(uint32_t word, int row, int lane) {
  const bool has_value = ((word >> row) & 1) != 0;
  const uint32_t all = __ballot_sync(kAllLanes, has_value);
  return {has_value, __popc(all & ((1U << lane) - 1)), __popc(all)};
}

template <typename T>
__global__ void gather_sparse(SparseJob job, int64_t blocks) {
  const auto* x = static_cast<const T*>(job.x);
  auto* values = static_cast<T*>(job.values);
  const int lane = lane_of_thread();
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const uint32_t word = job.words[block * kLanes + lane];
    int64_t next = job.offsets[block];
    for (int row = 0; row < kLanes; ++row) {
      const RowPlace at = place_in_row(word, row, lane);
      const int64_t target = next + at.place;
      // Beyond the capacity nothing is stored: the encoding is lost already.
      if (at.has_value && target < job.capacity) {
        values[target] = x[block * SparseJob::kBlock + row * kLanes + lane];
      }
      next += at.values;
    }
  }
}

template <typename T>
__global__ void scatter_sparse(SparseJob job, int64_t blocks) {
  auto* y = static_cast<T*>(job.y);
  const auto* values = static_cast<const T*>(job.values);
  const int lane = lane_of_thread();
  for (int64_t block = first_block(); block < blocks; block += block_step()) {
    const uint32_t word = job.words[block * kLanes + lane];
    int64_t next = job.offsets[block];
    for (int row = 0; row < kLanes; ++row) {
      const RowPlace at = place_in_row(word, row, lane);
      const int64_t index = block * SparseJob::kBlock + row * kLanes + lane;
      if (index < job.count) y[index] = at.has_value ? values[next + at.place] : T{0};
      next += at.values;
    }
  }
}

template <typename Type>
__global__ void join_extents(const typename Type::Bits* x, int64_t count, uint32_t* number) {
  using Search = ExtentSearch<Type>;
  Search search;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const auto entry = Search::entry_of(x[i]);
    search.specials |= entry;
    if (entry != Search::kSign) search.largest = larger(search.largest, entry);
  }
  const Extent extent = search.extent();
  const uint32_t largest = __reduce_max_sync(kAllLanes, extent & kMagnitudeBits);
  const uint32_t specials = __reduce_or_sync(kAllLanes, extent & kSignBit);
  if (lane_of_thread() != 0) return;
  // Two numbers in one word: compare and swap until both are in.
  uint32_t before = *number;
  while (true) {
    const uint32_t seen = atomicCAS(number, before, joined(before, largest | specials));
    if (seen == before) break;
    before = seen;
  }
}

template <typename T>
__global__ void take_nonzero(const T* x, int64_t count, uint32_t* number) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t found = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    if (x[i] != 0) found = x[i];
  }
  const uint32_t holders = __ballot_sync(kAllLanes, found != 0);
  if (holders != 0 && lane_of_thread() == __ffs(static_cast<int>(holders)) - 1) {
    atomicCAS(number, 0U, found);
  }
}

unsigned grid_for_blocks(int64_t blocks) {
  return static_cast<unsigned>(std::min(blocks_of(blocks, kWarps), kMostGroups));
}
unsigned grid_for_elements(int64_t count) {
  constexpr int64_t kPerThread = 16;
  return static_cast<unsigned>(std::min(blocks_of(count, kThreads * kPerThread), kMostGroups));
}

cudaStream_t stream() {
  return c10::cuda::getCurrentCUDAStream();
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
    // Whether all is finite only the device knows.
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
    const auto value_bytes = static_cast<size_t>(job.capacity * job.element_bytes);
    C10_CUDA_CHECK(cudaMemsetAsync(job.values, 0, value_bytes, stream()));
    with_element(job.element_bytes, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      map_sparse<T><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      make_offsets<<<1, kThreads, 0, stream()>>>(job, blocks);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      gather_sparse<T><<<grid_for_blocks(blocks), kThreads, 0, stream()>>>(job, blocks);
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
      take_nonzero<T><<<grid_for_elements(job.count), kThreads, 0, stream()>>>(
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
