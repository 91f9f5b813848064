#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "memopt/codecs/arithmetic/jobs.h"
#include "tests/gpu_emulator/emulated_kernels.h"
#include "tests/gpu_emulator/emulator.h"
#include "tests/gpu_emulator/guarded_memory.h"

// The codecs' kernels against the CPU's, bit for bit, in memory that they cannot leave at its end,
// whatever the order of threads and however few blocks the grid has.
namespace noisemark::memopt::codecs {
namespace {

using test::gpu::Guarded;
using test::gpu::Order;
using test::gpu::Settings;
using test::gpu::WithSettings;

/// Lengths around a word, a block of every form and several warps.
const std::vector<int64_t> kCounts = {1,   31,   32,   63,   255,          256,
                                      257, 1023, 1024, 1025, 9 * 1024 + 77};

std::vector<Settings> all_settings() {
  return {{Order::kForward}, {Order::kBackward}, {Order::kShuffled}, {Order::kForward, 1}};
}

/// Bits of numbers of all sizes, zeros and, with `specials`, infinities, subnormals and NaNs.
std::vector<uint32_t> bits(int64_t count, bool specials) {
  constexpr uint32_t kSpecial[] = {0x7f800000, 0xff800000, 0x7fc00001, 0xffa00000,
                                   0x00000001, 0x807fffff, 0x80000000, 0x7f7fffff};
  std::vector<uint32_t> all(static_cast<size_t>(count));
  uint32_t state = 7;
  for (size_t i = 0; i < all.size(); ++i) {
    state = state * 1664525 + 1013904223;
    all[i] = (state & kSignBit) | ((97 + (state >> 27)) << 23) | (state >> 4 & kMantissaBits);
    if (i % 7 == 3) all[i] = 0;
    if (specials && i % 5 == 1) all[i] = kSpecial[i / 5 % std::size(kSpecial)];
  }
  return all;
}

/// Elements of `bytes` each, the upper halves of the words where that is 2.
Guarded<uint8_t> elements(const std::vector<uint32_t>& words, size_t bytes) {
  Guarded<uint8_t> memory(static_cast<int64_t>(words.size() * bytes));
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t element = bytes == 2 ? words[i] >> 16 : words[i];
    std::memcpy(memory.data() + i * bytes, &element, bytes);
  }
  return memory;
}

size_t bytes_of(Real real) {
  return real == Real::kFloat32 ? 4 : 2;
}

/// Describes an element of the form.
size_t bytes_of(FieldForm form, Real real) {
  switch (form) {
    case FieldForm::kNarrowBFloat16:
    case FieldForm::kNarrowFloat16:
    case FieldForm::kTwoValues32:
      return 4;
    case FieldForm::kBoolean:
      return 1;
    case FieldForm::kTwoValues16:
      return 2;
    case FieldForm::kPoolPosition:
      return 8;
    default:
      return bytes_of(real);
  }
}

/// Everything that a job's kernels write.
struct Outcome {
  std::vector<uint32_t> words, numbers;
  std::vector<uint8_t> stored, decoded;
  int32_t lost = 0;

  bool operator==(const Outcome&) const = default;
};

void expect_as_on_the_cpu(const auto& run, const std::string& what) {
  const Outcome expected = run(cpu_codec_device());
  for (const Settings& settings : all_settings()) {
    const WithSettings with(settings);
    EXPECT_TRUE(run(emulated_codec_device()) == expected)
        << what << ", order " << static_cast<int>(settings.order) << ", at most "
        << settings.most_blocks << " blocks";
  }
}

Outcome run_fields(const CodecDevice& device, FieldJob job, const void* x) {
  const int64_t blocks = blocks_of(job.count, elements_per_block(job.form));
  const Guarded<uint32_t> words(blocks * kLanes);
  const auto bytes = static_cast<int64_t>(bytes_of(job.form, job.real));
  const Guarded<uint8_t> y(job.count * bytes);
  const Guarded<int32_t> lost(std::vector<int32_t>{0});
  job.x = x;
  job.y = y.data();
  job.words = words.data();
  job.lost = lost.data();
  device.encode(job);
  // The rest is undefined then.
  if (*lost.data() != 0) return {{}, {}, {}, {}, 1};
  device.decode(job);
  return {words.values(), {}, {}, y.values(), 0};
}

/// Returns values that an exact form can keep, made of any bits.
std::vector<uint32_t> kept_by(FieldForm form, std::vector<uint32_t> words, uint32_t number) {
  for (uint32_t& word : words) {
    if (form == FieldForm::kNarrowBFloat16) word &= 0xffff0000;
    // 2^-8 to 2^7, and 10 bits behind the point.
    if (form == FieldForm::kNarrowFloat16) {
      word = (word & kSignBit) | ((119 + (word >> 23 & 15)) << 23) | (word & 0x007fe000);
    }
    const bool two = form == FieldForm::kTwoValues16 || form == FieldForm::kTwoValues32;
    if (two) word = (word & 8) != 0 ? number : 0;
  }
  return words;
}

uint32_t number_of(FieldForm form, Real real, const Guarded<uint8_t>& x, int64_t count) {
  if (form == FieldForm::kTwoValues16) return 0x3fa0;
  if (form == FieldForm::kTwoValues32) return 0x3fa00000;
  uint32_t extent = 0;
  SearchJob search;
  search.real = real;
  search.x = x.data();
  search.count = count;
  search.number = &extent;
  cpu_codec_device().find_extent(search);
  return extent;
}

void expect_codes(FieldForm form, Real real, const std::vector<uint32_t>& words, int32_t lost) {
  const Guarded<uint8_t> x = elements(words, bytes_of(form, real));
  FieldJob job;
  job.form = form;
  job.real = real;
  job.count = static_cast<int64_t>(words.size());
  const uint32_t number = number_of(form, real, x, job.count);
  job.common.number = &number;
  const auto run = [&](const CodecDevice& device) { return run_fields(device, job, x.data()); };
  const std::string what = "form " + std::to_string(static_cast<int>(form)) + ", type " +
                           std::to_string(static_cast<int>(real)) + ", " +
                           std::to_string(words.size());
  expect_as_on_the_cpu(run, what);
  EXPECT_EQ(run(emulated_codec_device()).lost, lost) << what;
}

TEST(EmulatedCodecs, give_the_cpus_codes_for_single_elements) {
  for (const int64_t count : kCounts) {
    for (const bool specials : {false, true}) {
      const std::vector<uint32_t> all = bits(count, specials);
      for (const auto form : {FieldForm::kNarrowFloat16, FieldForm::kNarrowBFloat16,
                              FieldForm::kTwoValues16, FieldForm::kTwoValues32}) {
        expect_codes(form, Real::kFloat32, kept_by(form, all, 0x3fa00000), 0);
      }
      for (const auto real : {Real::kFloat32, Real::kBFloat16, Real::kFloat16}) {
        expect_codes(FieldForm::kPositive, real, all, 0);
        for (const FieldForm form : kReducedForms) {
          if (gains(form, real)) expect_codes(form, real, all, 0);
        }
      }
    }
  }
}

TEST(EmulatedCodecs, say_that_values_are_lost_where_the_cpu_says_so) {
  for (const int64_t count : kCounts) {
    std::vector<uint32_t> all = bits(count, true);
    all.back() = 0x3f7fffff;
    for (const auto form : {FieldForm::kNarrowFloat16, FieldForm::kNarrowBFloat16,
                            FieldForm::kTwoValues16, FieldForm::kTwoValues32}) {
      expect_codes(form, Real::kFloat32, all, 1);
    }
  }
}

TEST(EmulatedCodecs, tell_values_that_do_not_survive_from_those_that_do) {
  FieldJob job;
  job.form = FieldForm::kNarrowBFloat16;
  job.count = 5000;
  std::vector<uint32_t> all(5000, 0x3f800000);
  const Guarded<uint8_t> narrow = elements(all, 4);
  EXPECT_EQ(run_fields(emulated_codec_device(), job, narrow.data()).lost, 0);
  all[4321] |= 1;
  const Guarded<uint8_t> wide = elements(all, 4);
  EXPECT_EQ(run_fields(emulated_codec_device(), job, wide.data()).lost, 1);
}

TEST(EmulatedCodecs, give_the_cpus_codes_for_booleans) {
  for (const int64_t count : kCounts) {
    std::vector<uint8_t> all(static_cast<size_t>(count));
    for (size_t i = 0; i < all.size(); ++i) all[i] = i % 3 == 1 ? 1 : 0;
    const Guarded<uint8_t> x(all);
    FieldJob job;
    job.form = FieldForm::kBoolean;
    job.count = count;
    const auto run = [&](const CodecDevice& device) { return run_fields(device, job, x.data()); };
    expect_as_on_the_cpu(run, std::to_string(count));
    EXPECT_EQ(run(emulated_codec_device()).decoded, all);
  }
}

TEST(EmulatedCodecs, give_the_cpus_positions_in_pooling_windows) {
  FieldJob job;
  job.form = FieldForm::kPoolPosition;
  job.count = 2666;
  job.common.windows = {7, 5, 3, 40, 2, -21, 20, 1};
  const int64_t blocks = blocks_of(job.count, elements_per_block(job.form));
  const Guarded<uint32_t> words(blocks * kLanes);
  for (int64_t i = 0; i < blocks * kLanes; ++i) {
    words.data()[i] = static_cast<uint32_t>(i) * 0x9e3779b9;
  }
  // Any code is a position: decoding any words gives a map that fits.
  const Guarded<int64_t> map(job.count);
  job.words = words.data();
  job.y = map.data();
  cpu_codec_device().decode(job);
  expect_as_on_the_cpu(
      [&](const CodecDevice& device) { return run_fields(device, job, map.data()); }, "a map");
  map.data()[2000] = 100'000;
  EXPECT_EQ(run_fields(emulated_codec_device(), job, map.data()).lost, 1);
}

TEST(EmulatedCodecs, give_the_cpus_groups) {
  for (const int64_t count : kCounts) {
    for (const bool specials : {false, true}) {
      const std::vector<uint32_t> all = bits(count, specials);
      for (const int code_bits : {4, 2}) {
        for (const auto real : {Real::kFloat32, Real::kBFloat16, Real::kFloat16}) {
          const Guarded<uint8_t> x = elements(all, bytes_of(real));
          expect_as_on_the_cpu(
              [&](const CodecDevice& device) {
                SearchJob search;
                search.real = real;
                search.x = x.data();
                search.count = count;
                const Guarded<uint32_t> extent(1);
                search.number = extent.data();
                device.find_extent(search);
                GroupJob job;
                job.bits = code_bits;
                job.real = real;
                job.x = x.data();
                job.count = count;
                job.extent = extent.data();
                job.key = {1, 2, 3, 4};
                const Guarded<uint32_t> words(blocks_of(count, job.elements_per_block()) * kLanes);
                const Guarded<uint32_t> numbers(blocks_of(count, kGroupElements));
                const Guarded<uint8_t> y(count * static_cast<int64_t>(bytes_of(real)));
                job.words = words.data();
                job.numbers = numbers.data();
                job.y = y.data();
                device.encode(job);
                device.decode(job);
                std::vector<uint32_t> found = numbers.values();
                found.push_back(*extent.data());
                return Outcome{words.values(), found, {}, y.values(), 0};
              },
              std::to_string(code_bits) + " bits, type " + std::to_string(static_cast<int>(real)) +
                  ", " + std::to_string(count));
        }
      }
    }
  }
}

Outcome run_sparse(const CodecDevice& device, const Guarded<uint8_t>& x, int64_t count, int bytes,
                   int64_t capacity) {
  const int64_t blocks = blocks_of(count, SparseJob::kBlock);
  const Guarded<uint32_t> words(blocks * kLanes), offsets(blocks);
  const Guarded<uint8_t> stored(capacity * bytes), y(count * bytes);
  const Guarded<int32_t> lost(std::vector<int32_t>{0});
  SparseJob job;
  job.element_bytes = bytes;
  job.x = x.data();
  job.y = y.data();
  job.words = words.data();
  job.offsets = offsets.data();
  job.values = stored.data();
  job.count = count;
  job.capacity = capacity;
  job.lost = lost.data();
  device.encode(job);
  // The tensors that did not fit are undefined.
  if (*lost.data() != 0) return {{}, {}, {}, {}, 1};
  device.decode(job);
  return {words.values(), offsets.values(), stored.values(), y.values(), 0};
}

TEST(EmulatedCodecs, squeeze_out_the_cpus_zeros_and_stay_within_the_room_that_there_is) {
  for (const int64_t count : kCounts) {
    const std::vector<uint32_t> all = bits(count, true);
    for (const int bytes : {2, 4}) {
      const Guarded<uint8_t> x = elements(all, static_cast<size_t>(bytes));
      const int64_t values = std::count_if(all.begin(), all.end(), [&](uint32_t word) {
        return (bytes == 2 ? word >> 16 : word) != 0;
      });
      for (const int64_t capacity : {values, values + 1, values + 700, values - 1, values / 2}) {
        if (capacity < 1) continue;
        const auto run = [&](const CodecDevice& device) {
          return run_sparse(device, x, count, bytes, capacity);
        };
        const std::string what = std::to_string(count) + " of " + std::to_string(bytes) +
                                 " bytes, room for " + std::to_string(capacity - values) + " more";
        expect_as_on_the_cpu(run, what);
        const Outcome outcome = run(emulated_codec_device());
        EXPECT_EQ(outcome.lost, capacity < values ? 1 : 0) << what;
        if (outcome.lost != 0) continue;
        EXPECT_EQ(outcome.decoded, x.values()) << what;
      }
    }
  }
}

TEST(EmulatedCodecs, find_an_element_that_is_not_zero_wherever_it_is) {
  for (const Settings& settings : all_settings()) {
    const WithSettings with(settings);
    for (const int bytes : {2, 4}) {
      for (const int64_t place : {-1, 0, 31, 32, 4095, 9000}) {
        std::vector<uint32_t> all(9001, 0);
        if (place >= 0) all[static_cast<size_t>(place)] = 0x40490000;
        const Guarded<uint8_t> x = elements(all, static_cast<size_t>(bytes));
        const Guarded<uint32_t> number(1);
        SearchJob job;
        job.element_bytes = bytes;
        job.x = x.data();
        job.count = 9001;
        job.number = number.data();
        emulated_codec_device().find_nonzero(job);
        EXPECT_EQ(*number.data(), place < 0 ? 0 : bytes == 2 ? 0x4049U : 0x40490000U) << place;
      }
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt::codecs
