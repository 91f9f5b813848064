#include "suite/quality/distance/draws.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <bit>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

std::vector<int64_t> numbers_below(int64_t total) {
  std::vector<int64_t> numbers(static_cast<size_t>(total));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

// RandomState's shuffle: Fisher-Yates from the end, each index by masked rejection. Its Mersenne
// Twister, seeded by one number, is that of the C++ standard.
void shuffle(std::vector<int64_t>& numbers, std::mt19937& generator) {
  TORCH_CHECK(numbers.size() <= UINT32_MAX, "too many samples to draw from");
  for (auto last = static_cast<uint32_t>(numbers.size()); last-- > 1;) {
    const auto mask = static_cast<uint32_t>(std::bit_ceil(uint64_t{last} + 1) - 1);
    uint32_t chosen = static_cast<uint32_t>(generator()) & mask;
    while (chosen > last) chosen = static_cast<uint32_t>(generator()) & mask;
    std::swap(numbers[last], numbers[chosen]);
  }
}

void require_enough(int64_t total, int64_t count) {
  TORCH_CHECK(count >= 0 && count <= total, "cannot draw ", count, " of ", total);
}

}  // namespace

DrawSubset counter_draws(uint64_t seed) {
  return [seed](int64_t subset, int set, int64_t total, int64_t count) {
    require_enough(total, count);
    CounterRng rng(seed, Stream::kSubset, static_cast<uint64_t>(subset),
                   static_cast<uint64_t>(set));
    std::vector<int64_t> numbers = numbers_below(total);
    for (int64_t i = 0; i < count; ++i) {
      const auto chosen =
          i + static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(total - i)));
      std::swap(numbers[i], numbers[chosen]);
    }
    numbers.resize(static_cast<size_t>(count));
    return numbers;
  };
}

DrawSubset numpy_draws(uint32_t seed) {
  const auto generator = std::make_shared<std::mt19937>(seed);
  return [generator](int64_t, int, int64_t total, int64_t count) {
    require_enough(total, count);
    std::vector<int64_t> numbers = numbers_below(total);
    shuffle(numbers, *generator);
    numbers.resize(static_cast<size_t>(count));
    return numbers;
  };
}

std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t total) {
  return numpy_draws(seed)(0, 0, total, total);
}

namespace {

// Sets 0 and 1 are those of a kernel distance's subsets.
constexpr uint64_t kSet = 2;

/// [rows], each below `rows`.
at::Tensor drawn_rows(int64_t rows, uint64_t seed, int64_t replicate) {
  CounterRng rng(seed, Stream::kSubset, static_cast<uint64_t>(replicate), kSet);
  const at::Tensor index = at::empty({rows}, at::TensorOptions().dtype(at::kLong));
  auto* numbers = index.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    numbers[i] = static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(rows)));
  }
  return index;
}

}  // namespace

std::vector<double> resampled_distances(const at::Tensor& features,
                                        const std::function<double(const at::Tensor&)>& distance,
                                        const ResamplingOptions& options) {
  const at::NoGradGuard no_grad;
  std::vector<double> distances;
  for (int64_t replicate = 0; replicate < options.replicates; ++replicate) {
    if (options.progress) options.progress(replicate);
    const at::Tensor rows = drawn_rows(features.size(0), options.seed, replicate);
    distances.push_back(distance(features.index_select(0, rows.to(features.device()))));
  }
  return distances;
}

}  // namespace noisemark::suite
