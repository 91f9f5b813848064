#include "reports/quality/write_quality.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/quality/quality_json.h"
#include "reports/write_report.h"
#include "tests/reports/quality/seeds.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// A suite of three seeds of none and of another mode.
class WriteQuality : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void keep(const std::vector<std::vector<NamedResult>>& modes) {
    Suite suite;
    suite.title = "ho-cifar10@cpu";
    for (const NamedResult& run : test::together(modes).runs) {
      suite.names.push_back(run.name);
      make_folder(folder_ / run.name);
      write_result(folder_ / run.name / "result.json", run.result);
    }
    write_suite(folder_, suite);
  }

  void keep_three_seeds() {
    const auto none = test::losses_of_none(3);
    keep(
        {test::seeds_of("none", none), test::seeds_of("dpr8", test::worse_by(0.001, 0.001, none))});
  }

  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(WriteQuality, makes_the_same_bytes_again_wherever_the_folder_lies) {
  keep_three_seeds();
  const auto study = write_suite_quality(folder_);
  ASSERT_TRUE(study.has_value());
  EXPECT_EQ(study->verdict, QualityVerdict::kPass);
  const std::string markdown = read_file(folder_ / "quality.md");
  const std::string json = read_file(folder_ / "quality.json");
  const fs::path moved = folder_.string() + "-moved";
  fs::remove_all(moved);
  fs::rename(folder_, moved);
  EXPECT_TRUE(write_suite_quality(moved).has_value());
  EXPECT_EQ(read_file(moved / "quality.md"), markdown);
  EXPECT_EQ(read_file(moved / "quality.json"), json);
  fs::remove_all(moved);
}

TEST_F(WriteQuality, finds_a_page_that_was_changed_or_is_stale) {
  keep_three_seeds();
  EXPECT_TRUE(check_quality(folder_).empty()) << "none was written";
  (void)write_suite_quality(folder_);
  EXPECT_TRUE(check_quality(folder_).empty());
  write_file_atomically(folder_ / "quality.md", "# PASS");
  ASSERT_EQ(check_quality(folder_).size(), 1U);
  EXPECT_EQ(check_quality(folder_)[0].rule, "quality");
  (void)write_suite_quality(folder_);
  const auto none = test::losses_of_none(3);
  keep({test::seeds_of("none", none), test::seeds_of("dpr8", test::worse_by(0.2, 0.001, none))});
  EXPECT_EQ(check_quality(folder_).size(), 2U);
}

TEST_F(WriteQuality, leaves_no_page_where_there_is_nothing_to_judge) {
  keep_three_seeds();
  (void)write_suite_quality(folder_);
  keep({test::seeds_of("none", test::losses_of_none(3))});
  EXPECT_FALSE(write_suite_quality(folder_).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "quality.md"));
  EXPECT_FALSE(fs::exists(folder_ / "quality.json"));
}

TEST_F(WriteQuality, a_run_that_left_no_result_is_no_pass) {
  keep_three_seeds();
  fs::remove(folder_ / "dpr8-seed2" / "result.json");
  const auto study = write_suite_quality(folder_);
  ASSERT_TRUE(study.has_value());
  EXPECT_EQ(study->verdict, QualityVerdict::kInconclusive);
  EXPECT_EQ(study->without_result.size(), 1U);
}

TEST_F(WriteQuality, json_is_json_and_names_its_schema) {
  keep_three_seeds();
  const auto study = write_suite_quality(folder_);
  const auto json = nlohmann::json::parse(quality_json(study.value()));
  EXPECT_EQ(json.at("schema").at("name"), kQualitySchemaName);
  EXPECT_EQ(json.at("verdict"), "PASS");
  EXPECT_EQ(json.at("exit_code"), 0);
  EXPECT_EQ(json.at("rows").at(0).at("measure"), "val_loss");
  EXPECT_EQ(json.at("rows").at(0).at("seeds").size(), 3U);
  EXPECT_EQ(json.at("rows").at(1).at("verdict"), nullptr);
}

}  // namespace
}  // namespace noisemark::reports
