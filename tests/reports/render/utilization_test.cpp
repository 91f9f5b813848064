#include "reports/render/table.h"

#include <gtest/gtest.h>

#include "reports/result/metrics.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

Result measured_on_a_cpu() {
  Result result = test::full_result();
  result.metrics.push_back(metric_named("cpu_frac", {.value = 0.934}));
  return result;
}

Result measured_on_a_gpu() {
  Result result = test::result_on_a_gpu();
  result.identity.device = "NVIDIA H200";
  result.identity.precision = "bf16";
  for (const auto& [name, value] : {std::pair{"fp32_active", 0.12}, {"tensor_active", 0.31}}) {
    DeviceColumn column;
    column.name = name;
    column.unit = "frac";
    column.value = value;
    result.utilization.device_use.columns.push_back(column);
  }
  result.metrics = derive_metrics(result, {metric_named("cpu_frac", {.value = 1.02})});
  return result;
}

TEST(UtilizationTables, have_these_bytes) {
  Result open = test::full_result();
  open.memory.peak_bytes += 1;
  Result unprofiled = test::full_result();
  unprofiled.utilization = {};
  unprofiled.utilization.missing_reason = "the profile pass was not asked for";
  unprofiled.identity.device = "NVIDIA H200";
  unprofiled.memory.measured = false;
  test::expect_golden(std::filesystem::path(NOISEMARK_TEST_FOLDER) / "golden" / "utilization.md",
                      machine_sections({{"cpu", measured_on_a_cpu()},
                                        {"gpu", measured_on_a_gpu()},
                                        {"before", open},
                                        {"alone", unprofiled},
                                        {"never begun", test::minimal_result()}}));
}

TEST(UtilizationTables, say_of_a_cpu_that_the_shares_of_a_gpu_are_not_measured) {
  const std::string text = utilization_table({{"a", measured_on_a_cpu()}});
  EXPECT_NE(text.find("GPU busy not measured, FP32 not measured, FP16 not measured, tensor not "
                      "measured."),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("- GPU busy, FP32, FP16, tensor of `a`: it is a GPU's, and this ran on a CPU\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("93.4 %"), std::string::npos) << text;
}

TEST(UtilizationTables, are_empty_where_nothing_was_measured) {
  EXPECT_EQ(machine_sections({{"a", test::minimal_result()}}), "");
}

TEST(UtilizationTables, have_rows_that_fit_a_page) {
  const std::string text =
      utilization_table({{"ho-cifar10@cpu/none-plain-fp32", measured_on_a_cpu()},
                         {"ho-cifar10@gpu/none-plain-bf16", measured_on_a_gpu()}});
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    if (text[begin] != '|') continue;
    EXPECT_LE(text.find('\n', begin) - begin, 140U) << text.substr(begin, 140);
  }
}

}  // namespace
}  // namespace noisemark::reports
