#include "reports/render/table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/result/json_io.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kMiB = 1024 * 1024;

/// A sweep with every kind of end, and with a limit that had no effect.
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

TEST(SweepTable, counts_custom_runs_as_the_report_beside_it_does) {
  Result custom = test::full_result();
  custom.exit = {0, "custom", {}};
  Sweep sweep;
  sweep.title = "gmm16@cpu";
  sweep.keys = {"batch"};
  sweep.rows = {{"batch=2", {"2"}, test::full_result(), 0, ""},
                {"batch=4", {"4"}, custom, 0, ""},
                {"batch=8", {"8"}, custom, 0, ""}};
  const std::string table = sweep_markdown(sweep);
  const std::string report = render_suite_report(
      "sweep", {{"batch=2", test::full_result()}, {"batch=4", custom}, {"batch=8", custom}}, {});
  EXPECT_NE(table.find("\n1 of 3 cells passed, 2 custom ("), std::string::npos) << table;
  EXPECT_NE(report.find("\n1 of 3 runs passed, 2 custom ("), std::string::npos) << report;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Table, of_a_folder_begins_with_none_to_which_the_ratios_are) {
  const ScratchFolder folder("table");
  for (const char* mode : {"dpr8", "echo", "none"}) {
    Result result = test::full_result();
    result.identity.mode = mode;
    const std::filesystem::path place = folder.path() / "x" / (std::string(mode) + "-plain-fp32");
    std::filesystem::create_directories(place);
    write_result(place / "result.json", result);
  }
  const std::string text = table_markdown({folder.path().string()});
  EXPECT_LT(text.find("/x/none-plain-fp32 "), text.find("/x/dpr8-plain-fp32 ")) << text;
  EXPECT_LT(text.find("| none "), text.find("| dpr8 ")) << "in the table of modes too\n" << text;
  EXPECT_TRUE(has(text, "Images/s are those of runs made one after another")) << text;
  const std::string as_given = table_markdown({(folder.path() / "x/echo-plain-fp32").string(),
                                               (folder.path() / "x/none-plain-fp32").string()});
  EXPECT_LT(as_given.find("/x/echo-plain-fp32 "), as_given.find("/x/none-plain-fp32 ")) << as_given;
}

TEST(Table, has_a_table_of_settings_where_more_than_two_differ_or_one_is_long) {
  Result other = test::full_result();
  other.identity.mode = "echo";
  other.identity.precision = "bf16";
  const std::vector<NamedResult> two = {{"a", test::full_result()}, {"b", other}};
  EXPECT_TRUE(has(side_by_side(two, Verdicts::kLeftOut), "| val loss | mode | precision |"));
  Result custom = test::full_result();
  custom.identity.custom = true;
  custom.identity.overrides = {"train.batch=2", "optimizer.lr=0.001"};
  const std::string one =
      side_by_side({{"a", test::full_result()}, {"b", custom}}, Verdicts::kLeftOut);
  EXPECT_TRUE(has(one, "| val loss |\n")) << one;
  EXPECT_TRUE(has(one, "\n| result | benchmark ")) << one;
  other.identity.framework = "peer:eager";
  const std::string three =
      side_by_side({{"a", test::full_result()}, {"b", other}}, Verdicts::kLeftOut);
  EXPECT_TRUE(has(three, "| val loss |\n")) << three;
  EXPECT_TRUE(has(three, "\n| result | framework  | mode | precision |\n")) << three;
  EXPECT_TRUE(has(three, "\n| b      | peer:eager | echo | bf16      |\n")) << three;
}

TEST(Shortened, keeps_both_ends_of_a_name_and_cuts_no_character) {
  EXPECT_EQ(shortened("aten::mm", 36), "aten::mm");
  EXPECT_EQ(shortened("aten::_scaled_dot_product_flash_attention_for_cpu_backward", 36),
            "aten::_scaled_dot_produc...cpu_backward");
  EXPECT_EQ(shortened("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 5), "\u00e4...\u00fc");
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
  EXPECT_TRUE(has(table, "|        1.00 |             \u2013 |                 \u2013 | not known"))
      << table;
  EXPECT_FALSE(has(table, "neither")) << table;
}

}  // namespace

}  // namespace noisemark::reports
