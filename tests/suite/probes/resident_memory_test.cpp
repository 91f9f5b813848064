#include "suite/probes/resident_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace noisemark::suite {
namespace {

TEST(ResidentMemory, sees_a_peak_that_has_passed_and_forgets_it_when_reset) {
  const auto before = read_resident_memory();
  if (const auto* why = std::get_if<std::string>(&before)) GTEST_SKIP() << *why;
  if (const std::string why = reset_resident_peak(); !why.empty()) GTEST_SKIP() << why;
  constexpr int64_t kBytes = 64 << 20;
  const int64_t low = std::get<ResidentMemory>(read_resident_memory()).peak_bytes;
  { const std::vector<char> touched(kBytes, 1); }
  const int64_t high = std::get<ResidentMemory>(read_resident_memory()).peak_bytes;
  EXPECT_GE(high - low, kBytes * 9 / 10);  // pages already resident may serve a little of it
  EXPECT_EQ(reset_resident_peak(), "");
  EXPECT_LT(std::get<ResidentMemory>(read_resident_memory()).peak_bytes, high);
  EXPECT_GT(std::get<ResidentMemory>(before).file_bytes, 0);
}

}  // namespace
}  // namespace noisemark::suite
