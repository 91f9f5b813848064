// Names, titles, notes and messages are shown as they are, in whatever part of a page they stand.
#include "tests/reports/free_text.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reports/base/file.h"
#include "reports/render/check.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/render/table.h"
#include "tests/reports/findings.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

std::string report(const Result& result) {
  return render_report(result, std::string(64, '0'), {});
}

TEST(FreeText, makes_no_block_of_a_report) {
  for (const Result& result :
       {test::full_result(), test::result_under_echo(), test::result_on_a_gpu()}) {
    test::expect_no_text_makes_blocks(result, report);
  }
}

TEST(FreeText, makes_no_block_of_a_report_in_which_nothing_was_measured) {
  Result result = test::full_result();
  result.memory.measured = false;
  result.utilization.measured = false;
  result.quality.evaluations.clear();
  result.protocol.warmup_stable = false;
  result.exit = {1, "failed", {"a reason", "another"}};
  test::expect_no_text_makes_blocks(result, report);
}

TEST(FreeText, makes_no_block_of_the_report_of_a_suite_or_a_sweep) {
  const auto suite = [](const Result& result) {
    return render_suite_report(result.title, {{result.title, result}},
                               {{result.title, "a reason"}});
  };
  test::expect_no_text_makes_blocks(test::result_under_echo(), suite);
  const auto sweep = [](const Result& result) {
    return sweep_markdown({result.title,
                           {"key"},
                           {{result.title, {result.title}, result, 0, result.title},
                            {"b", {"1"}, {}, 1, result.title}}});
  };
  test::expect_no_text_makes_blocks(test::full_result(), sweep);
}

TEST(FreeText, ends_no_string_of_a_plot) {
  Result result = test::full_result();
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = plot_sources(result);
  for (std::string& owner : result.memory.categories) owner = test::kFreeText;
  const auto after = plot_sources(result);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(lines(after[i].script), lines(before[i].script)) << after[i].script;
    EXPECT_EQ(lines(after[i].data), lines(before[i].data)) << after[i].data;
  }
  EXPECT_EQ(gnuplot_text("it's\n!rm"), "'it''s !rm'");
}

TEST(FreeText, is_in_a_report_what_the_result_holds) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "noisemark_free_text";
  std::filesystem::remove_all(folder);
  Result result = test::full_result();
  result.title = "caf\xe9 \xe2\x82 two\nlines";
  result.provenance.data.at(0).name = "data/\xff\xfe.png";
  result.repeat_command = "noisemark run 'caf\xe9'";
  result.artifacts.clear();
  write_run_folder(folder, result);
  EXPECT_EQ(test::listed(check(folder)), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace noisemark::reports
