#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "reports/trace/analyses.h"
#include "tests/reports/trace/written.h"

namespace noisemark::reports::test {
namespace {

constexpr int64_t kBytes = 2'000'000'000;
constexpr int kPeriod_us = 10;

/// A call of 3 us, 2 us later a kernel of 3 us, and an event that no analysis keeps: 390 bytes for
/// each event that is kept, where published traces have 340 to 690.
std::string launch(int number) {
  const int start = kPeriod_us * number;
  return call(start, 3, number, "cuLaunchKernelEx") + kernel(start + 5, 3, number) +
         R"({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": )" +
         std::to_string(start) + R"(, "args": {"Addr": ")" + std::string(400, '7') + "\"}},\n";
}

/// Writes a trace, packed, and returns the number of its launches.
int write_large_trace(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "wb1");
  int64_t bytes = 0;
  bool is_written = file != nullptr;
  const auto write = [&](const std::string& text) {
    const auto size = static_cast<unsigned>(text.size());
    is_written = is_written && gzwrite(file, text.data(), size) == static_cast<int>(size);
    bytes += size;
  };
  write(R"({"traceEvents": [)");
  int launches = 0;
  while (is_written && bytes < kBytes) write(launch(launches++));
  write(std::string(kEnd) + "]}");
  EXPECT_TRUE(is_written && gzclose(file) == Z_OK) << path;
  return launches;
}

/// The most memory that this process has held.
int64_t most_held_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string key; file >> key;) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && file >> kilobytes) return 1024 * kilobytes;
  }
  ADD_FAILURE() << "/proc/self/status has no VmHWM";
  return std::numeric_limits<int64_t>::max();
}

TEST(LargeTrace, of_two_gigabytes_is_read_as_a_stream_and_analysed_in_less_memory_than_its_bytes) {
  const suite::test::TemporaryFolder folder;
  const auto path = folder.path() / "trace.json.gz";
  const int64_t launches = write_large_trace(path);
  const Trace trace = read_trace(path);
  EXPECT_LT(most_held_bytes(), kBytes / 2);
  ASSERT_EQ(trace.events.size(), static_cast<size_t>(2 * launches));

  const TraceBreakdown breakdown = breakdown_of(trace);
  EXPECT_EQ(breakdown.total_us, kPeriod_us * (launches - 1) + 3);
  EXPECT_EQ(breakdown.compute_us, 3 * launches);
  EXPECT_EQ(breakdown.idle_us, 7 * (launches - 1));
  const std::vector<LaunchRow> rows = launches_of(trace);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].launched, launches);
  EXPECT_EQ(rows[0].delay_us, 2 * launches);
  EXPECT_EQ(unpaired_of(trace), 0);
  // The calls follow one another; the last one's kernel starts 5 us after it does.
  EXPECT_EQ(critical_path_of(trace, {}, "").us, 3 * (launches - 1) + 5 + 3);
  EXPECT_LT(most_held_bytes(), kBytes);
}

}  // namespace
}  // namespace noisemark::reports::test
