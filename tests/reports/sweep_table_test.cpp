#include "reports/sweep_table.h"

#include <gtest/gtest.h>

#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kMiB = 1024 * 1024;

/// Of every kind of end, and with a limit that had no effect.
Sweep sample_sweep() {
  Result first = test::result_on_a_gpu();
  Result slower = first;
  slower.metrics[0].value = *first.metrics[0].value / 2;
  slower.metrics[0].ci95.reset();
  slower.memory.convolution_workspace = {96 * kMiB, 104 * kMiB, 8 * kMiB, ""};
  Result full = test::minimal_result();
  full.exit = {71, "out of memory", {"CUDA out of memory; held then: weights 1.00 GiB"}};
  Sweep sweep;
  sweep.title = "ho-cifar10@gpu";
  sweep.keys = {"batch", "cudnn.workspace_mib"};
  sweep.rows = {{"batch=16,cudnn.workspace_mib=64", {"16", "64"}, first, 0, ""},
                {"batch=16,cudnn.workspace_mib=8", {"16", "8"}, slower, 0, ""},
                {"batch=4096,cudnn.workspace_mib=64", {"4096", "64"}, full, 71, ""},
                {"batch=4096,cudnn.workspace_mib=8", {"4096", "8"}, {}, 71, "it left no result"},
                {"batch=0,cudnn.workspace_mib=64",
                 {"0", "64"},
                 {},
                 2,
                 "--set: train.batch: 0 (an integer of at least 1)"},
                {"batch=0,cudnn.workspace_mib=8", {"0", "8"}, {}, {}, "not started"}};
  return sweep;
}

TEST(SweepTable, has_these_bytes) {
  test::expect_golden(std::filesystem::path(NOISEMARK_TEST_FOLDER) / "golden" / "sweep.md",
                      sweep_markdown(sample_sweep()));
}

TEST(SweepTable, has_no_time_beside_a_first_row_that_has_none) {
  Sweep sweep = sample_sweep();
  std::swap(sweep.rows[0], sweep.rows[2]);
  const std::string text = sweep_markdown(sweep);
  EXPECT_EQ(text.find("1.000"), std::string::npos) << text;
  EXPECT_EQ(text.find("2.000"), std::string::npos) << text;
}

}  // namespace
}  // namespace noisemark::reports
