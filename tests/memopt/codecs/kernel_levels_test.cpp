#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/codecs/kernels/kernels.h"
#include "tests/memopt/codecs/bits.h"

// Every instruction set that this machine has gives the bits of the default one.
namespace noisemark::memopt::codecs {
namespace {

constexpr int64_t kCount = 5 * 1024 + 333;

std::vector<Level> levels() {
  std::vector<Level> all = {Level::kDefault};
  if (current_cpu_level() >= Level::kAvx2) all.push_back(Level::kAvx2);
  if (current_cpu_level() >= Level::kAvx512) all.push_back(Level::kAvx512);
  return all;
}

/// Normal numbers of all sizes; with `specials` every kind of value among them. [kCount] words.
std::vector<uint32_t> values(bool specials) {
  std::vector<uint32_t> all(kCount);
  const std::vector<uint32_t> classes = test::float_classes();
  uint32_t state = 1;
  for (size_t i = 0; i < all.size(); ++i) {
    state = state * 1664525 + 1013904223;
    const uint32_t exponent = 97 + (state >> 27);
    all[i] = (state & 0x80000000) | (exponent << 23) | (state >> 4 & 0x7fffff);
    if (specials && i % 5 == 0) all[i] = classes[i / 5 % classes.size()];
    if (i % 7 == 0) all[i] = 0;
  }
  return all;
}

/// Words and decoded memory of one level.
struct Outcome {
  std::vector<uint32_t> words;
  std::vector<uint32_t> numbers;
  std::vector<uint64_t> decoded;
  int32_t lost = 0;

  bool operator==(const Outcome& other) const {
    return words == other.words && numbers == other.numbers && decoded == other.decoded &&
           lost == other.lost;
  }
};

Outcome run(FieldJob job, Level level) {
  const int64_t blocks = blocks_of(job.count, elements_per_block(job.form));
  Outcome outcome;
  outcome.words.assign(static_cast<size_t>(blocks * kLanes), 0xdeadbeef);
  outcome.decoded.assign(kCount, 0);
  job.words = outcome.words.data();
  job.y = outcome.decoded.data();
  job.lost = &outcome.lost;
  kernels_of(level).fields.encode(job, 0, blocks);
  kernels_of(level).fields.decode(job, 0, blocks);
  return outcome;
}

void expect_same_at_all_levels(const FieldJob& job) {
  const Outcome expected = run(job, Level::kDefault);
  for (const Level level : levels()) {
    EXPECT_TRUE(run(job, level) == expected)
        << "form " << static_cast<int>(job.form) << ", type " << static_cast<int>(job.real)
        << ", level " << static_cast<int>(level);
  }
}

TEST(KernelLevels, give_the_same_codes_for_single_elements) {
  for (const bool specials : {false, true}) {
    const std::vector<uint32_t> x = values(specials);
    uint32_t number = 0x3fa00000 | (specials ? kSignBit : 0);
    FieldJob job;
    job.x = x.data();
    job.count = kCount;
    job.common.number = &number;
    std::vector<FieldForm> forms = {FieldForm::kNarrowFloat16, FieldForm::kBoolean,
                                    FieldForm::kTwoValues16,   FieldForm::kTwoValues32,
                                    FieldForm::kPositive,      FieldForm::kNarrowBFloat16};
    forms.insert(forms.end(), std::begin(kReducedForms), std::end(kReducedForms));
    for (const FieldForm form : forms) {
      job.form = form;
      for (const auto real : {Real::kFloat32, Real::kBFloat16, Real::kFloat16}) {
        if (is_reduced(form) && !gains(form, real)) continue;
        job.real = real;
        expect_same_at_all_levels(job);
      }
    }
  }
}

TEST(KernelLevels, give_the_same_positions_in_pooling_windows) {
  FieldJob job;
  job.form = FieldForm::kPoolPosition;
  job.count = kCount / 2;
  job.common.windows = {7, 5, 3, 40, 2, -21, 20, 1};
  std::vector<int64_t> x(kCount);
  job.y = x.data();
  // Any code is a position: decoding any words gives a map that fits.
  std::vector<uint32_t> words(
      static_cast<size_t>(blocks_of(job.count, elements_per_block(job.form)) * kLanes));
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i) * 0x9e3779b9;
  job.words = words.data();
  kernels_of(Level::kDefault).fields.decode(job, 0, static_cast<int64_t>(words.size()) / kLanes);
  job.x = x.data();
  expect_same_at_all_levels(job);
  EXPECT_EQ(run(job, current_cpu_level()).lost, 0);
}

TEST(KernelLevels, give_the_same_groups) {
  for (const bool specials : {false, true}) {
    const std::vector<uint32_t> x = values(specials);
    const auto run_groups = [&](GroupJob job, Level level) {
      const int64_t blocks = blocks_of(job.count, job.elements_per_block());
      Outcome outcome;
      outcome.words.assign(static_cast<size_t>(blocks * kLanes), 0);
      outcome.numbers.assign(static_cast<size_t>(blocks_of(job.count, kGroupElements)), 0);
      outcome.decoded.assign(kCount, 0);
      job.words = outcome.words.data();
      job.numbers = outcome.numbers.data();
      job.y = outcome.decoded.data();
      kernels_of(level).groups.encode(job, 0, blocks);
      kernels_of(level).groups.decode(job, 0, blocks);
      return outcome;
    };
    for (const int bits : {4, 2}) {
      for (const auto real : {Real::kFloat32, Real::kBFloat16, Real::kFloat16}) {
        const Extent extent = 0x47800000;
        GroupJob job;
        job.bits = bits;
        job.real = real;
        job.x = x.data();
        job.count = kCount;
        job.extent = &extent;
        job.key = {1, 2, 3, 4};
        const Outcome expected = run_groups(job, Level::kDefault);
        for (const Level level : levels()) {
          EXPECT_TRUE(run_groups(job, level) == expected)
              << bits << " bits, type " << static_cast<int>(real) << ", level "
              << static_cast<int>(level);
        }
      }
    }
  }
}

TEST(KernelLevels, squeeze_out_the_same_zeros) {
  const std::vector<uint32_t> x = values(true);
  for (const int element_bytes : {2, 4}) {
    const auto run_sparse = [&](Level level) {
      const int64_t blocks = blocks_of(kCount, SparseJob::kBlock);
      Outcome outcome;
      outcome.words.assign(static_cast<size_t>(blocks * kLanes), 0);
      outcome.numbers.assign(static_cast<size_t>(blocks), 0);
      std::vector<uint32_t> stored(kCount);
      outcome.decoded.assign(kCount, 0);
      SparseJob job;
      job.element_bytes = element_bytes;
      job.x = x.data();
      job.y = outcome.decoded.data();
      job.words = outcome.words.data();
      job.offsets = outcome.numbers.data();
      job.values = stored.data();
      job.count = kCount;
      kernels_of(level).sparse.map(job, 0, blocks);
      uint32_t sum = 0;
      for (uint32_t& offset : outcome.numbers) sum += std::exchange(offset, sum);
      job.capacity = sum;
      kernels_of(level).sparse.gather(job, 0, blocks);
      kernels_of(level).sparse.scatter(job, 0, blocks);
      outcome.numbers.insert(outcome.numbers.end(), stored.begin(), stored.end());
      return outcome;
    };
    const Outcome expected = run_sparse(Level::kDefault);
    EXPECT_EQ(
        std::memcmp(expected.decoded.data(), x.data(), static_cast<size_t>(kCount * element_bytes)),
        0);
    for (const Level level : levels()) {
      EXPECT_TRUE(run_sparse(level) == expected) << static_cast<int>(level);
    }
  }
}

TEST(KernelLevels, find_the_same_extent) {
  for (const bool specials : {false, true}) {
    const std::vector<uint32_t> x = values(specials);
    for (const auto real : {Real::kFloat32, Real::kBFloat16, Real::kFloat16}) {
      SearchJob job;
      job.real = real;
      job.x = x.data();
      job.count = kCount;
      const Extent expected = kernels_of(Level::kDefault).search.extent(job, 3, kCount);
      for (const Level level : levels()) {
        EXPECT_EQ(kernels_of(level).search.extent(job, 3, kCount), expected);
      }
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt::codecs
