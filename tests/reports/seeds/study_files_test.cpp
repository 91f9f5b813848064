#include "reports/seeds/study_files.h"
#include "reports/seeds/distance_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"
#include "reports/seeds/study_fields.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/seeds/seeds.h"

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

  void keep_seeds(size_t count, double frac, double spread) {
    const auto none = test::losses_of_none(count);
    keep(
        {test::seeds_of("none", none), test::seeds_of("dpr8", test::worse_by(frac, spread, none))});
  }

  void keep_three_seeds() { keep_seeds(3, 0.001, 0.001); }

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

TEST_F(WriteQuality, finds_a_study_in_a_folder_of_its_own_that_was_changed_or_cannot_be_read) {
  keep_three_seeds();
  const fs::path own = folder_ / "own";
  write_quality(own, judge_quality(read_quality_side({folder_.string()}), {}));
  EXPECT_TRUE(check_quality(own).empty());
  write_file_atomically(own / "quality.md", "# PASS");
  ASSERT_EQ(check_quality(own).size(), 1U);
  EXPECT_EQ(check_quality(own)[0].file, (own / "quality.md").string());
  write_file_atomically(own / "quality.json", "{}");
  ASSERT_EQ(check_quality(own).size(), 1U);
  EXPECT_EQ(check_quality(own)[0].file, (own / "quality.json").string());
  EXPECT_NE(check_quality(own)[0].words.find("schema: missing"), std::string::npos);
}

TEST_F(WriteQuality, finds_a_page_without_its_file_and_files_that_are_links_to_nothing) {
  keep_three_seeds();
  (void)write_suite_quality(folder_);
  for (const char* name : {"quality.json", "quality.md"}) {
    fs::remove(folder_ / name);
    fs::create_symlink("nowhere", folder_ / name);
    const auto found = check_quality(folder_);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_NE(found[0].words.find("a link to nothing"), std::string::npos) << found[0].words;
    fs::remove(folder_ / name);
    (void)write_suite_quality(folder_);
  }
  fs::remove(folder_ / "quality.json");
  ASSERT_EQ(check_quality(folder_).size(), 1U);
  EXPECT_EQ(check_quality(folder_)[0].words,
            "it keeps the looks of quality.md and it is not there");
}

TEST_F(WriteQuality, does_not_forget_the_looks_of_a_file_that_is_a_link_to_nothing) {
  keep_seeds(3, 0.001, 0.001);
  (void)write_suite_quality(folder_);
  fs::rename(folder_ / "quality.json", folder_ / "elsewhere.json");
  fs::create_symlink("not fetched", folder_ / "quality.json");
  EXPECT_THROW((void)write_suite_quality(folder_), Error);
  EXPECT_TRUE(fs::is_symlink(folder_ / "quality.json"));
}

TEST_F(WriteQuality, judges_again_as_it_was_asked_to_the_last_time) {
  keep_seeds(4, 0.03, 0.001);
  EXPECT_EQ(write_suite_quality(folder_).value().verdict, QualityVerdict::kFail);
  const QualityOptions asked = {.gates = {{"val_loss", 0.05}}, .ranges = {{"val_loss", 0.05, 0.2}}};
  QualityStudy study = judge_quality(read_quality_side({folder_.string()}), asked);
  study.inconclusive_passes = true;
  write_quality(folder_, study);
  const std::string page = read_file(folder_ / "quality.md");
  EXPECT_NE(page.find(finished_page("5 % (given)")), std::string::npos) << page;
  EXPECT_TRUE(check_quality(folder_).empty());
  ASSERT_TRUE(write_suite_quality(folder_).has_value());
  EXPECT_EQ(read_file(folder_ / "quality.md"), page);
  remove_quality(folder_);
  EXPECT_EQ(write_suite_quality(folder_).value().verdict, QualityVerdict::kFail) << "by default";
}

TEST_F(WriteQuality, of_seeds_that_were_added_is_the_next_look_and_beyond_the_last_claims_nothing) {
  keep_seeds(3, 0.001, 0.001);
  EXPECT_EQ(write_suite_quality(folder_).value().looks.number, 1);
  keep_seeds(4, 0.001, 0.001);
  EXPECT_EQ(check_quality(folder_).size(), 2U) << "it is of fewer runs";
  const QualityStudy second = write_suite_quality(folder_).value();
  EXPECT_EQ(second.looks.number, 2);
  EXPECT_EQ(second.verdict, QualityVerdict::kPass);
  EXPECT_TRUE(check_quality(folder_).empty());
  keep_seeds(5, 0.001, 0.001);
  const QualityStudy third = write_suite_quality(folder_).value();
  EXPECT_EQ(third.verdict, QualityVerdict::kInconclusive);
  EXPECT_TRUE(check_quality(folder_).empty());
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

TEST_F(WriteQuality, of_a_suite_judges_the_steps_of_what_it_trains_with_one_seed) {
  const auto none = test::losses_of_none(4);
  const auto certified = [](Verdict verdict) {
    return [=](Result& result, uint64_t) {
      result.identity.benchmark = "gmm16-ho";
      result.run_id[0] = 'x';
      result.memory_mode.measured = true;
      result.memory_mode.lossless = true;
      result.memory_mode.certificate.verdict = verdict;
    };
  };
  for (const Verdict verdict : {Verdict::kPass, Verdict::kFail}) {
    keep(
        {test::seeds_of("none", none), test::seeds_of("dpr8", test::worse_by(0.001, 0.001, none))});
    Suite suite = read_suite(folder_).value();
    suite.judged = {"ho-cifar10@cpu"};
    auto once = test::seeds_of("none", {0.1}, certified(Verdict::kNotApplied));
    for (auto& run : test::seeds_of("echo", {0.1}, certified(verdict))) once.push_back(run);
    for (const NamedResult& run : once) {
      suite.names.push_back("one/" + run.name);
      make_folder(folder_ / "one" / run.name);
      write_result(folder_ / "one" / run.name / "result.json", run.result);
    }
    write_suite(folder_, suite);
    const QualityStudy study = write_suite_quality(folder_).value();
    ASSERT_EQ(study.steps.size(), 1U);
    EXPECT_EQ(study.steps[0].tier, 0);
    EXPECT_EQ(study.steps[0].benchmark, "gmm16-ho@cpu");
    const bool passes = verdict == Verdict::kPass;
    const QualityVerdict expected = passes ? QualityVerdict::kPass : QualityVerdict::kFail;
    EXPECT_EQ(study.steps[0].verdict, expected);
    EXPECT_EQ(study.verdict, expected) << "of the seeds that are judged: PASS";
  }
}

TEST_F(WriteQuality, json_is_json_and_names_its_schema) {
  keep_three_seeds();
  const auto study = write_suite_quality(folder_);
  const auto file = nlohmann::json::parse(quality_json(study.value()));
  EXPECT_EQ(file.at("schema").at("name"), json::kQualityDocument.name);
  EXPECT_EQ(file.at("verdict"), "PASS");
  EXPECT_EQ(file.at("exit_code"), 0);
  EXPECT_EQ(file.at("rows").at(0).at("measure"), "val_loss");
  EXPECT_EQ(file.at("rows").at(0).at("seeds").size(), 3U);
  EXPECT_EQ(file.at("rows").at(1).at("verdict"), nullptr);
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_quality_test
TEST(QualityFile, is_published_with_its_documentation_as_its_fields_say) {
  test::expect_published(NOISEMARK_SEEDS_ROOM,
                         {{json::kQualityDocument, json::shape_of<QualityStudy>()},
                          {json::kDistanceDocument, json::shape_of<DistanceFile>()},
                          {json::kSamplingDocument, json::shape_of<SamplingFile>()}});
}

TEST(QualityFile, of_every_recorded_study_reads_back_to_the_same_bytes) {
  int studies = 0;
  for (const auto& entry : fs::recursive_directory_iterator(NOISEMARK_RECORDED_RESULTS)) {
    if (entry.path().filename() != "quality.json") continue;
    const std::string text = read_file(entry.path());
    EXPECT_EQ(quality_json(quality_from_json(text, entry.path().string())), text) << entry.path();
    ++studies;
  }
  EXPECT_GT(studies, 0);
}

TEST_F(WriteQuality, refuses_a_file_with_an_unknown_key_a_wrong_type_or_another_word) {
  keep_three_seeds();
  const std::string text = quality_json(write_suite_quality(folder_).value());
  const auto words_for = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      (void)quality_from_json(changed, "q.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string way_out = "; without the file the runs are judged as if never before";
  EXPECT_TRUE(words_for(R"("alpha")", R"("alpa": 1, "alpha")").starts_with("q.json: alpa: "));
  EXPECT_EQ(words_for(R"("alpha")", R"("alpha": 1, "alpha")"),
            "q.json: alpha: this key twice in one object (every key once)" + way_out);
  EXPECT_EQ(words_for(R"("alpha": 0.05)", R"("alpha": "low")"),
            "q.json: alpha: \"low\" (a number)" + way_out);
  EXPECT_TRUE(
      words_for(R"("log-ratio")", R"("log")").starts_with("q.json: rows[0].scale: \"log\""));
}

}  // namespace
}  // namespace noisemark::reports
