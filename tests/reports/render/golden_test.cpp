// The bytes of result.json and report.md, kept in golden/. After a wanted change, regenerate them:
//   NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_golden_test
#include <gtest/gtest.h>

#include <filesystem>

#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "reports/render/report.h"
#include "reports/render/table.h"
#include "reports/result/json_io.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

const std::filesystem::path kGolden = NOISEMARK_TEST_FOLDER "/golden";

void expect_golden(const std::string& name, const std::string& text) {
  test::expect_golden(kGolden / name, text);
}

Plots all_plots() {
  Plots plots;
  for (const PlotSource& source : plot_sources(test::full_result())) {
    plots.links.push_back({source.title, "plots/" + source.name + ".svg"});
  }
  return plots;
}

TEST(Golden, result_json_has_these_bytes) {
  expect_golden("result.json", to_json(test::full_result()));
}

TEST(Golden, result_json_can_still_be_read) {
  const Result result = read_result(kGolden / "result.json");
  EXPECT_EQ(to_json(result), read_file(kGolden / "result.json"));
}

TEST(Golden, report_has_these_bytes) {
  const std::string text = read_file(kGolden / "result.json");
  const Result result = from_json(text, "result.json");
  expect_golden("report.md", render_report(result, sha256_of(text), all_plots()));
}

TEST(Golden, minimal_report_has_these_bytes) {
  const Result result = test::minimal_result();
  Plots plots;
  plots.left_out = "gnuplot is not installed";
  expect_golden("minimal_report.md", render_report(result, sha256_of(to_json(result)), plots));
}

/// The section of a report that begins with this heading.
std::string section(const std::string& report, const std::string& heading) {
  const size_t begin = report.find(heading);
  if (begin == std::string::npos) return "";
  const size_t end = std::min(report.find("\n## ", begin), report.find("\n</details>", begin));
  return report.substr(begin, end - begin);
}

TEST(Golden, sections_of_a_gpu_that_tell_of_convolutions_have_these_bytes) {
  const std::string report = render_report(test::result_on_a_gpu(), "", {});
  expect_golden("gpu_convolutions.md",
                section(report, "## Memory by owner") + "\n" + section(report, "## Operators"));
}

TEST(Golden, section_of_a_memory_mode_has_these_bytes) {
  Result result = test::result_under_echo();
  std::string text = section(render_report(result, "", {}), "## Memory mode");
  result.identity.mode = "dpr8";
  result.memory_mode.lossless = false;
  result.memory_mode.certificate = {};
  result.memory_mode.certificate.words = "Not applied: the mode is not lossless.";
  result.memory_mode.gradient_error = {0.031, "", {{"a.weight", 0.02}, {"b.weight", 0.25}}};
  result.memory_mode.fallbacks[2].budget = {40, 2, "a graph was retained", 1, "it is small"};
  text += "\n" + section(render_report(result, "", {}), "## Memory mode");
  result = test::result_under_echo();
  result.memory = {};
  result.memory.missing_reason = "the memory pass was left out (--no-memory)";
  result.memory_mode.plan_missing_reason = result.memory.missing_reason;
  result.memory_mode.fallbacks[0] = {"memory", result.memory.missing_reason, ""};
  result.memory_mode.fallbacks[1].plan_missing_reason = "two recorded passes in a row differed";
  result.memory_mode.certificate.verdict = Verdict::kUnavailable;
  result.memory_mode.certificate.words =
      "Nothing is proven: compared step 1 did not follow a plan.";
  text += "\n" + section(render_report(result, "", {}), "## Memory mode");
  result.memory_mode = {};
  result.memory_mode.missing_reason = "its passes did not end";
  text += "\n" + section(render_report(result, "", {}), "## Memory mode");
  expect_golden("memory_mode.md", text);
}

TEST(Golden, table_of_memory_modes_has_these_bytes) {
  Result lossy = test::result_under_echo();
  lossy.identity.mode = "q2";
  lossy.memory_mode.lossless = false;
  lossy.memory_mode.certificate = {};
  lossy.memory_mode.gradient_error.error_frac = 0.25;
  Result red = test::result_under_echo();
  red.memory_mode.certificate.verdict = Verdict::kFail;
  Result lost = test::result_under_echo();
  lost.memory_mode.certificate.verdict = Verdict::kUnavailable;
  lost.memory_mode.fallbacks[1].plan_missing_reason = "two recorded passes in a row differed";
  Result unmeasured = test::result_under_echo();
  unmeasured.memory.measured = false;
  for (PassFallbacks& one : unmeasured.memory_mode.fallbacks) one.missing_reason = "left out";
  Result full_host = test::result_under_echo();
  full_host.identity.mode = "offload";
  full_host.memory_mode.host_memory = {256 << 10, 7, 1 << 20};
  Result elsewhere = test::full_result();
  elsewhere.identity.benchmark = "gmm16";
  expect_golden("mode_table.md", mode_table({{"a", test::full_result()},
                                             {"b", test::result_under_echo()},
                                             {"c", lossy},
                                             {"d", red},
                                             {"e", lost},
                                             {"f", unmeasured},
                                             {"g", full_host},
                                             {"h", elsewhere}}));
  EXPECT_EQ(mode_table({{"a", test::full_result()}}), "");
}

/// Two modes beside each other that looked for the largest batch, one that did not, and one that
/// was interrupted.
TEST(Golden, table_of_largest_batches_has_these_bytes) {
  constexpr int64_t kMiB = 1024 * 1024;
  const BatchFit fits{2048 * kMiB, "", 24, 2030 * kMiB, 2101 * kMiB, ""};
  Result none = test::full_result();
  none.batch_fit = fits;
  Result echo = test::result_under_echo();
  echo.batch_fit = {2048 * kMiB, "", 128, 1999 * kMiB, {}, "no larger batch: all data are in it"};
  Result silent = test::result_under_echo();
  silent.identity.mode = "gist";
  Result stopped = test::result_under_echo();
  stopped.identity.mode = "mirror";
  stopped.batch_fit = {2048 * kMiB, "the search did not end", 0, {}, {}, ""};
  const std::string table = mode_table({{"a", none}, {"b", echo}, {"c", silent}, {"d", stopped}});
  const size_t begin = table.find("\nEvery row has", table.find("The overhead is the time"));
  ASSERT_NE(begin, std::string::npos) << table;
  std::string text = table.substr(begin + 1);
  Result too_small = test::result_under_echo();
  too_small.batch_fit = {8 * kMiB, "", 0, {}, {}, "out of memory"};
  for (const Result& result : {none, echo, stopped, too_small}) {
    text += "\n" + section(render_report(result, "", {}), "## Largest batch");
  }
  expect_golden("largest_batch.md", text);
  EXPECT_EQ(section(render_report(silent, "", {}), "## Largest batch"), "");
}

TEST(ModeTable, counts_what_host_memory_had_no_room_for_among_the_fallbacks) {
  Result result = test::result_under_echo();
  for (PassFallbacks& one : result.memory_mode.fallbacks) {
    one.kept_after_mismatch = one.replayed_after_mismatch = 0;
    one.codec_fallbacks = one.departures = 0;
  }
  EXPECT_NE(mode_table({{"a", result}}).find("|         0 |"), std::string::npos);
  result.memory_mode.host_memory = {256 << 10, 7, 1 << 20};
  EXPECT_NE(mode_table({{"a", result}}).find("|         7 |"), std::string::npos);
}

TEST(Golden, rows_of_the_table_of_memory_modes_fit_a_page) {
  const std::string text = mode_table({{"a", test::result_under_echo()}});
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    if (text[begin] != '|') continue;
    EXPECT_LE(text.find('\n', begin) - begin, 110U) << text.substr(begin, 110);
  }
}

TEST(Golden, section_of_a_memory_mode_says_why_nothing_is_known_of_its_plan) {
  Result result = test::result_under_echo();
  result.memory_mode.irreplaceable_bytes.reset();
  const std::string made = section(render_report(result, "", {}), "## Memory mode");
  EXPECT_EQ(made.find("could recompute"), std::string::npos) << made;
  result.memory_mode.fallbacks.front().missing_reason = "left out";
  const std::string without = section(render_report(result, "", {}), "## Memory mode");
  EXPECT_NE(without.find("**Plan:** This was not measured: left out."), std::string::npos)
      << without;
}

TEST(Golden, plots_are_drawn_from_these_bytes) {
  std::string all;
  for (const PlotSource& source : plot_sources(test::full_result())) all += source.script + "\n";
  expect_golden("plots.gp", all);
}

TEST(Golden, side_by_side_table_has_these_bytes) {
  Result peer = test::full_result();
  peer.identity.framework = "peer:eager";
  peer.metrics[0].value = 15.5;
  peer.metrics[0].ci95.reset();
  peer.memory.measured = false;
  peer.exit = {1, "failed", {"val_loss: too high"}};
  Result stopped = test::minimal_result();
  stopped.exit = {130, "interrupted", {"interrupted in the memory pass"}};
  expect_golden("suite_report.md",
                render_suite_report("cpu",
                                    {{"ho-cifar10@cpu/none-plain-fp32", test::full_result()},
                                     {"ho-cifar10@cpu/peer", peer},
                                     {"gmm16@cpu/none-plain-fp32", test::minimal_result()},
                                     {"gmm16@cpu/echo-plain-fp32", stopped}},
                                    {{"lucid-cifar10@cpu/none-plain-fp32", ""},
                                     {"lucid-128@gpu/none-plain-fp32", "cannot run here"}}));
}

}  // namespace
}  // namespace noisemark::reports
