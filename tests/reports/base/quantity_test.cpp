#include "reports/base/quantity.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

TEST(Quantity, a_count_of_one_thing_has_the_singular) {
  EXPECT_EQ(format_counted(1, "run"), "1 run");
  EXPECT_EQ(format_counted(0, "run"), "0 runs");
  EXPECT_EQ(format_counted(2000, "micro-batch"), "2,000 micro-batches");
  EXPECT_EQ(format_counted(1, "micro-batch"), "1 micro-batch");
}

TEST(Quantity, groups_the_digits_of_a_count) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(35746307), "35,746,307");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
}

TEST(Quantity, uses_binary_units_for_bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(225340000), "214.90 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 30U), "3.00 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_mib(1572864), "1.50");
  EXPECT_EQ(format_mib(-1), "0.00") << "no sign without a digit";
  EXPECT_EQ(format_exact_bytes(4096), "4,096 B");
}

TEST(Quantity, picks_a_unit_of_time) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(2.5e-9), "2.50 ns");
  EXPECT_EQ(format_seconds(4.5e-5), "45.00 us");
  EXPECT_EQ(format_seconds(0.0456), "45.60 ms");
  EXPECT_EQ(format_seconds(119.994), "119.99 s");
  EXPECT_EQ(format_seconds(185.2), "3 min 05 s");
  EXPECT_EQ(format_ms(0.0456), "45.600");
}

TEST(Quantity, uses_decimal_units_for_work) {
  EXPECT_EQ(format_flop(6.02e9), "6.02 GFLOP");
  EXPECT_EQ(format_flop_per_s(3.51918e11), "351.92 GFLOP/s");
  EXPECT_EQ(format_percent(0.1234), "12.3 %");
  EXPECT_EQ(format_per_s(16.384), "16.38");
}

TEST(Quantity, knows_the_units_of_the_result) {
  EXPECT_EQ(format_quantity(1024, "bytes"), "1.00 KiB");
  EXPECT_EQ(format_quantity(1.5, "s"), "1.50 s");
  EXPECT_EQ(format_quantity(0.01, "frac"), "1.0 %");
  EXPECT_EQ(format_quantity(12345, "count"), "12,345");
  EXPECT_EQ(format_quantity(16.3841, "images/s"), "16.3841 images/s");
  EXPECT_EQ(format_quantity(16.3841, "1/s"), "16.38 /s");
  EXPECT_EQ(format_quantity(0.0931, ""), "0.0931");
  EXPECT_EQ(format_quantity(2e12, "FLOP/s"), "2.00 TFLOP/s");
  EXPECT_EQ(format_quantity(5e3, "FLOP"), "5.00 kFLOP");
}

TEST(Quantity, tells_a_time_from_what_only_looks_like_one) {
  for (const char* time :
       {"2026-01-02T03:04:05Z", "2024-02-29T23:59:60Z", "2026-01-02T03:04:05.25Z"}) {
    EXPECT_TRUE(is_utc(time)) << time;
  }
  EXPECT_TRUE(is_utc(utc_now()));
  for (const char* none :
       {"", "Z", "yesterday", "2026-01-02", "2026-02-29T00:00:00Z", "2026-99-99T00:00:00Z",
        "2026-01-02T24:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05+Z", "2026-01-02T03:04:05ZZ", "2026-01-02 03:04:05Z"}) {
    EXPECT_FALSE(is_utc(none)) << none;
  }
}

TEST(Units, are_told_from_words) {
  for (const char* unit : {"%", "/s", "s", "min", "us", "B", "MiB", "kB", "FLOP", "GFLOP/s", "MHz",
                           "images", "images/s", "MiB/step", "W", "J", "C", "bytes"}) {
    EXPECT_TRUE(is_unit(unit)) << unit;
  }
  for (const char* word : {"", "/", "steps", "of", "B5", "MiBs", "KiFLOP", "mine", "x/s"}) {
    EXPECT_FALSE(is_unit(word)) << word;
  }
}

}  // namespace
}  // namespace noisemark::reports
