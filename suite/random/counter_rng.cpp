#include "suite/random/counter_rng.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "suite/random/elementary.h"

namespace noisemark::suite {
namespace {

constexpr uint64_t kWordsPerBlock = 4;
constexpr uint64_t kBlocks = uint64_t{1} << 32;

uint64_t subsequence(uint64_t step, uint64_t sample) {
  TORCH_CHECK(step < kBlocks && sample < kBlocks, "step ", step, " or sample ", sample,
              " does not fit in 32 bits");
  return (step << 32) | sample;
}

at::Philox4_32 engine_at(uint64_t seed, uint64_t subsequence, uint32_t stream, uint64_t block) {
  at::Philox4_32 engine(seed, subsequence);
  engine.set_offset((uint64_t{stream} << 32) | block);
  return engine;
}

}  // namespace

std::string_view stream_name(Stream stream) {
  switch (stream) {
    case Stream::kData:
      return "data";
    case Stream::kOrder:
      return "order";
    case Stream::kFlip:
      return "flip";
    case Stream::kTimestep:
      return "timestep";
    case Stream::kNoise:
      return "noise";
    case Stream::kDropout:
      return "dropout";
    case Stream::kInit:
      return "init";
    case Stream::kEvalNoise:
      return "eval_noise";
    case Stream::kSampler:
      return "sampler";
    case Stream::kPerturb:
      return "perturb";
    case Stream::kSubset:
      return "subset";
  }
  TORCH_CHECK(false, "no stream ", static_cast<uint32_t>(stream));
}

CounterRng::CounterRng(uint64_t seed, Stream stream, uint64_t step, uint64_t sample)
    : seed_(seed),
      stream_(static_cast<uint32_t>(stream)),
      subsequence_(subsequence(step, sample)),
      engine_(engine_at(seed_, subsequence_, stream_, 0)) {}

uint32_t CounterRng::next_u32() {
  TORCH_CHECK(words_ < kWordsPerBlock * kBlocks, "a sequence holds 2^34 words");
  ++words_;
  return engine_();
}

uint64_t CounterRng::next_u64() {
  const uint64_t low = next_u32();
  return low | (uint64_t{next_u32()} << 32);
}

uint64_t CounterRng::next_below(uint64_t bound) {
  TORCH_CHECK(bound >= 1, "an empty range has no uniform number");
  const uint64_t incomplete = (0 - bound) % bound;  // 2^64 mod bound
  uint64_t draw = next_u64();
  while (draw < incomplete) draw = next_u64();
  return draw % bound;
}

double CounterRng::next_uniform() {
  return static_cast<double>((next_u64() >> 11) + 1) * 0x1p-53;
}

template <typename T>
void CounterRng::fill(std::span<T> out) {
  uint64_t block = (words_ + kWordsPerBlock - 1) / kWordsPerBlock;
  TORCH_CHECK(block + (out.size() + kNormals) / kWordsPerBlock < kBlocks,
              "a sequence holds 2^32 blocks");
  const NormalKernel kernel = normal_kernels().back().kernel;
  PhiloxPosition position{
      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)},
      {0, stream_, static_cast<uint32_t>(subsequence_), static_cast<uint32_t>(subsequence_ >> 32)}};
  alignas(64) std::array<double, kNormals> normals;
  for (size_t begin = 0; begin < out.size(); begin += kNormals) {
    position.counter[0] = static_cast<uint32_t>(block);
    kernel(position, normals);
    const size_t count = std::min<size_t>(kNormals, out.size() - begin);
    for (size_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(normals[i]);
    block += (count + kWordsPerBlock - 1) / kWordsPerBlock;
  }
  words_ = block * kWordsPerBlock;
  engine_ = engine_at(seed_, subsequence_, stream_, block);
}

void CounterRng::fill_normal(std::span<float> out) {
  fill(out);
}
void CounterRng::fill_normal(std::span<double> out) {
  fill(out);
}

uint64_t derive_seed(uint64_t seed, Stream stream, uint64_t step) {
  return CounterRng(seed, stream, step, 0).next_u64();
}

}  // namespace noisemark::suite
