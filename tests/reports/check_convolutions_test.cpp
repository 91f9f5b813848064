#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "reports/check.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

/// What is found in a GPU's result after a change: the first rule with its words.
std::string found_after(const std::function<void(Result&)>& change) {
  Result result = test::result_on_a_gpu();
  change(result);
  const auto findings = check_values(result, "r.json");
  return findings.empty() ? "" : findings.front().rule + ": " + findings.front().words;
}

bool starts(const std::string& text, const std::string& beginning) {
  return text.starts_with(beginning);
}

TEST(CheckConvolutions, finds_nothing_in_a_good_result) {
  EXPECT_EQ(found_after([](Result&) {}), "");
}

TEST(CheckConvolutions, lists_kernels_that_were_measured_by_falling_time) {
  EXPECT_TRUE(starts(found_after([](Result& r) { r.utilization.convolutions.measured = false; }),
                     "convolutions: the kernels of convolutions were not measured and are listed"));
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.utilization.convolutions.kernels[2].time_s = 1; }),
             "convolutions: utilization.convolutions.kernels are not by falling time"));
}

TEST(CheckConvolutions, has_scratch_memory_with_both_figures_or_with_a_reason) {
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.memory.convolution_workspace.peak_bytes.reset(); }),
             "convolutions: memory.convolution_workspace has one of its two figures"));
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.memory.convolution_workspace.missing_reason = "no"; }),
             "convolutions: memory.convolution_workspace has its figures and a reason"));
  EXPECT_TRUE(starts(found_after([](Result& r) { r.memory.convolution_workspace.peak_bytes = 1; }),
                     "convolutions: a convolution had more scratch memory than"));
}

}  // namespace
}  // namespace noisemark::reports
