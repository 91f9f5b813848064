#pragma once

#include <cstdint>
#include <span>
#include <string_view>

/// Randomness that depends on what is drawn and never on who draws it: a counter-based generator
/// (at::Philox4_32, Salmon et al. 2011) keyed by (seed, stream, step, sample). So a draw is the
/// same under every mode, batch split, thread count, rank, device and instruction set.
namespace noisemark::suite {

/// Independent streams; the numbers are part of what a result means and never change.
enum class Stream : uint32_t {
  kData = 1,   ///< generated pictures
  kOrder = 2,  ///< permutation of an epoch
  kFlip = 3,
  kTimestep = 4,
  kNoise = 5,
  kDropout = 6,  ///< seeds torch's own generator, one seed a step
  kInit = 7,     ///< seeds torch's own generator for the initial weights
  kEvalNoise = 8,
  kSampler = 9,
  kPerturb = 10,
};

/// The stream's name as results show it ("order").
[[nodiscard]] std::string_view stream_name(Stream stream);

/// Numbers of one (seed, stream, step, sample), in order. A value: copying it copies the position.
class CounterRng {
 public:
  CounterRng(uint64_t seed, Stream stream, uint64_t step, uint64_t sample);

  [[nodiscard]] uint32_t next_u32();
  [[nodiscard]] uint64_t next_u64();
  /// Uniform in [0, bound), bound at least 1, by rejection (no bias).
  [[nodiscard]] uint64_t next_below(uint64_t bound);
  /// Uniform in (0, 1], 53 bits.
  [[nodiscard]] double next_uniform();
  /// Standard normals by Box-Muller in double precision, rounded once to float.
  void fill_normal(std::span<float> out);
  void fill_normal(std::span<double> out);
};

/// Seed for a generator that takes only one number (torch's), derived from the same key.
[[nodiscard]] uint64_t derive_seed(uint64_t seed, Stream stream, uint64_t step);

}  // namespace noisemark::suite
