#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/gpu_emulator/emulated_kernels.h"
#include "tests/gpu_emulator/emulator.h"
#include "tests/gpu_emulator/guarded_memory.h"

// Digests of samples are the CPU's, and one changed bit is found.
namespace noisemark::memopt::replay {
namespace {

using test::gpu::Guarded;
using test::gpu::WithSettings;

constexpr int64_t kBytes = 4096;

SampledElements sample_of(const Guarded<unsigned char>& memory, int32_t count, int32_t bytes) {
  SampledElements sample;
  sample.data = memory.data();
  sample.count = count;
  sample.element_bytes = bytes;
  for (int32_t i = 0; i < count; ++i) {
    // The last element is the last of the memory.
    sample.offsets[i] = i + 1 == count ? kBytes - bytes : (i * 937) % (kBytes - bytes);
  }
  return sample;
}

TEST(EmulatedSamples, have_the_cpus_digest_and_show_a_changed_element) {
  const Guarded<unsigned char> memory(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) memory.data()[i] = static_cast<unsigned char>(i * 31 % 251);
  for (const auto order : test::gpu::kOrders) {
    const WithSettings with({order});
    for (const int32_t bytes : {1, 2, 4, 8, 12, 16}) {
      for (const int32_t count : {1, 2, 31, 33, SampledElements::kMost}) {
        const SampledElements sample = sample_of(memory, count, bytes);
        const Guarded<uint64_t> digest(1);
        uint64_t expected = 0;
        cpu_sample_device().take(sample, &expected);
        emulated_sample_device().take(sample, digest.data());
        EXPECT_EQ(*digest.data(), expected) << count << " elements of " << bytes;

        const Guarded<int32_t> flag(std::vector<int32_t>{0});
        emulated_sample_device().compare(sample, digest.data(), 7, flag.data());
        EXPECT_EQ(*flag.data(), 0);
        memory.data()[kBytes - 1] ^= 1;
        emulated_sample_device().compare(sample, digest.data(), 7, flag.data());
        EXPECT_EQ(*flag.data(), 7);
        emulated_sample_device().compare(sample, digest.data(), 8, flag.data());
        EXPECT_EQ(*flag.data(), 7) << "the first finding stays";
        memory.data()[kBytes - 1] ^= 1;
      }
    }
  }
}

}  // namespace
}  // namespace noisemark::memopt::replay
