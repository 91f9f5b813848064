#include "reports/convolution_workspace.h"

#include <gtest/gtest.h>

#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kMiB = 1024 * 1024;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(WorkspaceLimit, had_no_effect_where_a_convolution_took_more) {
  EXPECT_EQ(limit_of({64 * kMiB, 64 * kMiB, 64 * kMiB, ""}), WorkspaceLimit::kKept);
  EXPECT_EQ(limit_of({64 * kMiB + 1, 70 * kMiB, 64 * kMiB, ""}), WorkspaceLimit::kExceeded);
  EXPECT_EQ(limit_of({0, 0, 0, ""}), WorkspaceLimit::kKept);
  EXPECT_EQ(limit_of({64 * kMiB, 64 * kMiB, {}, ""}), WorkspaceLimit::kNone);
  EXPECT_EQ(limit_of({{}, {}, 64 * kMiB, "left out"}), WorkspaceLimit::kUnknown);
  EXPECT_EQ(limit_of({}), WorkspaceLimit::kNone);
}

TEST(WorkspaceTable, is_empty_where_nobody_measured_any_nor_set_a_limit) {
  EXPECT_EQ(workspace_table({{"a", test::full_result()}, {"b", test::minimal_result()}}), "");
  EXPECT_EQ(workspace_table({}), "");
}

TEST(WorkspaceTable, shows_limits_and_what_was_taken_beside_what_cudnn_was_told) {
  const Result kept = test::result_on_a_gpu();
  Result exceeded = kept;
  exceeded.memory.convolution_workspace = {96 * kMiB, 104 * kMiB, 8 * kMiB, ""};
  exceeded.environment["torch_cudnn_benchmark"] = "on";
  Result unknown = test::full_result();
  unknown.memory.convolution_workspace.limit_bytes = kMiB;
  const std::string table = workspace_table({{"kept", kept},
                                             {"exceeded", exceeded},
                                             {"unknown", unknown},
                                             {"neither", test::full_result()}});
  EXPECT_TRUE(has(table, "|       64.00 |         48.00 |             56.00 | kept to")) << table;
  EXPECT_TRUE(has(table, "|        8.00 |         96.00 |            104.00 | **no effect**"))
      << table;
  EXPECT_TRUE(has(table, "| exceeded | on ")) << table;
  EXPECT_TRUE(has(table, "| kept     | off ")) << table;
  EXPECT_TRUE(has(table, "|        1.00 |          none |              none | not known")) << table;
  EXPECT_FALSE(has(table, "neither")) << table;
}

}  // namespace
}  // namespace noisemark::reports
