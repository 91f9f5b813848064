#include "reports/quality/distances.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "reports/quality/judge.h"
#include "reports/quality/quality_json.h"
#include "reports/quality/quality_markdown.h"
#include "reports/quality/quality_side.h"
#include "reports/write_report.h"
#include "tests/reports/quality/seeds.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What `noisemark fid RUN/samples/pictures REFERENCE --json` says of a run's samples.
Json said(const Result& run, double value) {
  const Json extractor = {{"name", "inception"},
                          {"checksum", "abcdef0123456789"},
                          {"resize", "tf1-bilinear"},
                          {"distance", "FID"}};
  const Json drawn = {{"weights", {{"kind", "model"}, {"sha256", run.determinism.weights_sha256}}},
                      {"sampler", {{"name", "ddim"}, {"steps", 50}, {"eta", 0.0}}},
                      {"seed", run.seeds.base},
                      {"noise", {{"sha256", fmt::format("noise of seed {}", run.seeds.base)}}}};
  return {{"schema", "noisemark.distance"},
          {"version", 1},
          {"name", "FID"},
          {"d", 2048},
          {"value", value},
          {"a",
           {{"name", "pictures"},
            {"n", 5000},
            {"extractor", extractor},
            {"drawn", drawn},
            {"gateable", true}}},
          {"b",
           {{"name", "/somewhere/cifar10.npz"},
            {"n", 50000},
            {"extractor", extractor},
            {"drawn", nullptr},
            {"gateable", true},
            {"moments_sha256", "0123"}}}};
}

using ChangeJson = std::function<void(Json&, const Result&)>;

/// Five seeds of none and of dpr8, each with a distance.
class Distances : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void keep(double worse, const ChangeJson& change = {}) {
    const auto none = test::losses_of_none(5);
    const Side side = test::together(
        {test::seeds_of("none", none), test::seeds_of("dpr8", test::worse_by(1e-5, 1e-5, none))});
    for (const NamedResult& run : side.runs) {
      const bool reference = run.result.identity.mode == "none";
      const auto seed = static_cast<double>(run.result.seeds.base);
      Json json = said(run.result, (reference ? 10 : 10 * (1 + worse + 0.001 * seed)) + seed / 10);
      if (change) change(json, run.result);
      make_folder(folder_ / run.name / "distances");
      write_result(folder_ / run.name / "result.json", run.result);
      write_file_atomically(folder_ / run.name / "distances" / "fid.json", json.dump());
    }
  }

  QualityStudy judged(const QualityOptions& options = {.gates = {{"fid", {}}}}) const {
    return judge_quality(read_quality_side({folder_.string()}), options);
  }

  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Distances, of_runs_are_judged_like_any_metric) {
  keep(0.001);
  EXPECT_EQ(judged().verdict, QualityVerdict::kPass) << quality_markdown(judged());
  EXPECT_EQ(judged().rows.front().measure, "fid");
  EXPECT_EQ(judged().rows.front().margin, 0.05);
  keep(0.3);
  EXPECT_EQ(judged().verdict, QualityVerdict::kFail) << quality_markdown(judged());
  EXPECT_EQ(judged({}).verdict, QualityVerdict::kPass) << "the losses alone are judged";
}

TEST_F(Distances, are_held_to_a_range_on_both_sides) {
  keep(0.3);
  const QualityStudy study = judged({.ranges = {{"fid", 9, 11.5}}});
  EXPECT_EQ(study.ranges.at(0).variant, "dpr8-plain-fp32");
  EXPECT_EQ(study.ranges.at(0).verdict, QualityVerdict::kFail);
  EXPECT_EQ(study.ranges.at(1).verdict, QualityVerdict::kPass) << quality_markdown(study);
}

TEST_F(Distances, say_where_they_come_from) {
  keep(0.001);
  const QualityStudy study = judged();
  ASSERT_EQ(study.distances.size(), 1U);
  const DistanceOrigin& origin = study.distances[0];
  EXPECT_EQ(origin.sampler, "ddim, 50 steps, eta 0.0");
  EXPECT_EQ(origin.reference, "cifar10.npz") << "no path, so that a folder can be moved";
  const std::string page = quality_markdown(study);
  for (const char* word : {"abcdef012345", "tf1-bilinear", "2048", "5000", "50000", "0123"}) {
    EXPECT_NE(page.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(Json::parse(quality_json(study)).at("distances").at(0).at("resize"), "tf1-bilinear");
}

TEST_F(Distances, that_come_from_elsewhere_in_some_runs_are_not_comparable) {
  const auto of_dpr8 = [](const std::function<void(Json&)>& change) {
    return [=](Json& json, const Result& run) {
      if (run.identity.mode == "dpr8") change(json);
    };
  };
  const std::map<std::string, std::function<void(Json&)>> faults = {
      {"resize", [](Json& json) { json["a"]["extractor"]["resize"] = "align_corners=False"; }},
      {"extractor", [](Json& json) { json["a"]["extractor"]["checksum"] = "other"; }},
      {"stale reference", [](Json& json) { json["b"]["moments_sha256"] = "9876"; }},
      {"reference's N", [](Json& json) { json["b"]["n"] = 10000; }},
      {"N", [](Json& json) { json["a"]["n"] = 4500; }},
      {"steps", [](Json& json) { json["a"]["drawn"]["sampler"]["steps"] = 10; }},
      {"weights", [](Json& json) { json["a"]["drawn"]["weights"]["kind"] = "ema"; }},
      {"noise", [](Json& json) { json["a"]["drawn"]["noise"]["sha256"] = "other"; }}};
  for (const auto& [name, fault] : faults) {
    keep(0.001, of_dpr8(fault));
    EXPECT_EQ(judged().verdict, QualityVerdict::kNotComparable) << name;
  }
}

TEST_F(Distances, of_other_weights_or_of_too_few_samples_prove_nothing) {
  const std::map<std::string, std::function<void(Json&)>> faults = {
      {"other weights", [](Json& json) { json["a"]["drawn"]["weights"]["sha256"] = "other"; }},
      {"nobody says", [](Json& json) { json["a"]["drawn"] = nullptr; }},
      {"fewer than 2 d", [](Json& json) { json["a"]["gateable"] = false; }},
      {"NaN", [](Json& json) { json["value"] = nullptr; }}};
  for (const auto& [name, fault] : faults) {
    keep(0.001, [&](Json& json, const Result&) { fault(json); });
    EXPECT_EQ(judged().verdict, QualityVerdict::kInconclusive) << name;
    EXPECT_TRUE(judged().rows.front().seeds.empty()) << name;
  }
}

TEST_F(Distances, that_are_none_are_refused) {
  keep(0.001, [](Json& json, const Result&) { json["schema"] = "other"; });
  EXPECT_THROW((void)judged(), Error);
  keep(0.001, [](Json& json, const Result&) { json.erase("d"); });
  EXPECT_THROW((void)judged(), Error);
  keep(0.001);
  fs::copy_file(folder_ / "none-seed0" / "distances" / "fid.json",
                folder_ / "none-seed0" / "distances" / "again.json");
  EXPECT_THROW((void)judged(), Error) << "twice";
}

TEST_F(Distances, with_a_kernel_are_two_metrics) {
  keep(0.001, [](Json& json, const Result& run) {
    json["kernel"] = {{"mean", 0.01 + 1e-4 * static_cast<double>(run.seeds.base % 3) +
                                   (run.identity.mode == "none" ? 0 : 1e-6)}};
  });
  const QualityStudy study = judged({.gates = {{"kid", 0.001}}});
  EXPECT_EQ(study.rows.front().scale, DifferenceScale::kDifference);
  EXPECT_EQ(study.distances.size(), 2U);
  EXPECT_THROW((void)judged({.gates = {{"kid", {}}}}), Error) << "KID has no margin of its own";
}

TEST_F(Distances, sheets_of_samples_are_shown_by_their_place_below_the_folder) {
  keep(0.001);
  make_folder(folder_ / "dpr8-seed1" / "samples");
  write_file_atomically(folder_ / "dpr8-seed1" / "samples" / "sheet.png", "a picture");
  const QualityStudy study = judged();
  EXPECT_EQ(study.sheets, std::vector<std::string>{"dpr8-seed1/samples/sheet.png"});
  EXPECT_NE(quality_markdown(study).find("](dpr8-seed1/samples/sheet.png)"), std::string::npos);
}

TEST_F(Distances, of_a_suite_that_judges_some_benchmarks_are_of_those_alone) {
  keep(0.001);
  Suite suite;
  suite.title = "cpu";
  suite.judged = {"gmm16@cpu"};
  for (const auto& entry : fs::directory_iterator(folder_)) {
    suite.names.push_back(entry.path().filename().string());
  }
  write_suite(folder_, suite);
  EXPECT_EQ(read_suite(folder_)->judged, suite.judged);
  const QualitySide nothing = read_quality_side({folder_.string()});
  EXPECT_TRUE(nothing.side.runs.empty());
  ASSERT_EQ(nothing.side.left_out.size(), 1U);
  EXPECT_EQ(nothing.side.left_out[0], "ho-cifar10@cpu: not there for its quality over seeds");
  suite.judged = {"ho-cifar10@cpu"};
  write_suite(folder_, suite);
  EXPECT_EQ(read_quality_side({folder_.string()}).side.runs.size(), 10U);
}

}  // namespace
}  // namespace noisemark::reports
