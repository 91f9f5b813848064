#pragma once

#include <ATen/core/PhiloxRNGEngine.h>

#include <cstdint>
#include <span>
#include <string_view>

/// Randomness that depends on what is drawn and never on who draws it: a counter-based generator
/// (at::Philox4_32, Salmon et al. 2011) keyed by (seed, stream, step, sample). So a draw is the
/// same under every mode, batch split, thread count, rank, device and instruction set.
///
/// Philox4x32-10 maps a key of 64 bits and a counter of 4 x 32 bits to a block of 4 words. Here
///   key = seed, counter = (block, stream, sample, step),
/// which is one to one: two sequences share no block unless all of seed, stream, sample and step
/// agree.
namespace noisemark::suite {

/// Independent streams; the numbers are part of what a result means and never change.
enum class Stream : uint32_t {
  kData = 1,   ///< generated images
  kOrder = 2,  ///< permutation of an epoch
  kFlip = 3,
  kTimestep = 4,
  kNoise = 5,
  kDropout = 6,  ///< seeds torch's own generator, one seed a step
  kInit = 7,     ///< seeds torch's own generator for the initial weights
  kEvalNoise = 8,
  kSampler = 9,
  kPerturb = 10,
  kSubset = 11,  ///< draws for distances: subsets, replicates, samples of the floor
};

/// The stream's name as results show it ("order").
[[nodiscard]] std::string_view stream_name(Stream stream);

/// Numbers of one (seed, stream, step, sample), in order. A value: copying it copies the position.
class CounterRng {
 public:
  /// `step` and `sample` must be below 2^32, which is checked.
  CounterRng(uint64_t seed, Stream stream, uint64_t step, uint64_t sample);

  [[nodiscard]] uint32_t next_u32();
  [[nodiscard]] uint64_t next_u64();
  /// Draws a uniform number of [0, bound), bound at least 1, by rejection (no bias).
  [[nodiscard]] uint64_t next_below(uint64_t bound);
  /// Draws a uniform number of (0, 1] with 53 bits.
  [[nodiscard]] double next_uniform();
  /// Standard normals by Box-Muller in double precision, rounded once to float. Starts at the next
  /// whole block and drops what is left of the last one, four normals a block; so one call for n
  /// and two calls for parts of it agree when the first part is a multiple of 4. The float normals
  /// are exactly the double ones, rounded. Largest magnitude: sqrt(64 ln 2) = 6.66.
  void fill_normal(std::span<float> out);
  void fill_normal(std::span<double> out);

 private:
  template <typename T>
  void fill(std::span<T> out);

  uint64_t seed_;
  uint32_t stream_;
  uint64_t subsequence_;  ///< step in the high half, sample in the low one
  uint64_t words_ = 0;    ///< number drawn so far; at most 2^34
  at::Philox4_32 engine_;
};

/// Seed for a generator that takes only one number (torch's), derived from the same key.
[[nodiscard]] uint64_t derive_seed(uint64_t seed, Stream stream, uint64_t step);

}  // namespace noisemark::suite
