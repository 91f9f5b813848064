#include "reports/seeds/distances.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json_writer.h"
#include "reports/render/run_folder.h"
#include "reports/result/json_io.h"
#include "reports/seeds/distance_file.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"
#include "reports/seeds/variants.h"
#include "tests/reports/plain_user.h"
#include "tests/reports/seeds/seeds.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The answer of `noisemark fid RUN/samples/pictures REFERENCE --json` on a run's samples.
DistanceFile said(const Result& run, double value) {
  const DistanceFile::Extractor extractor = {"inception", "FID", "abcdef0123456789", "tf1-bilinear",
                                             ""};
  const DrawnSamples drawn = {
      DrawnSamples::Definition{"ho-cifar10", "cpu", "fedcba9876543210", false, {}},
      {"weights.safetensors", "", "model", run.determinism.weights_sha256, {}, {}},
      {"ddim", 50, 0.0, {}, {}},
      run.seeds.base,
      {"drawn", {}, fmt::format("noise of seed {}", run.seeds.base)},
      DrawnSamples::Execution{"", run.identity.precision, "", {}}};
  DistanceFile file;
  file.name = "FID";
  file.d = 2048;
  file.value = value;
  file.a = {.name = "pictures",
            .n = 5000,
            .exact = false,
            .extractor = extractor,
            .extractor_asserted = false,
            .moments_sha256 = {},
            .drawn = drawn,
            .gateable = true,
            .why_no_gate = {}};
  file.b = file.a;
  file.b.name = "/somewhere/cifar10.npz";
  file.b.n = 50000;
  file.b.drawn.reset();
  file.b.moments_sha256 = "0123";
  return file;
}

using ChangeFile = std::function<void(DistanceFile&, const Result&)>;

/// Five seeds of none and of dpr8, each with a distance.
class Distances : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void keep(double worse, const ChangeFile& change = {}, const test::ChangeSeed& change_run = {}) {
    const auto none = test::losses_of_none(5);
    const Side side =
        test::together({test::seeds_of("none", none, change_run),
                        test::seeds_of("dpr8", test::worse_by(1e-5, 1e-5, none), change_run)});
    for (const NamedResult& run : side.runs) {
      const bool reference = run.result.identity.mode == "none";
      const auto seed = static_cast<double>(run.result.seeds.base);
      DistanceFile file =
          said(run.result, (reference ? 10 : 10 * (1 + worse + 0.001 * seed)) + seed / 10);
      if (change) change(file, run.result);
      make_folder(folder_ / run.name / "distances");
      write_result(folder_ / run.name / "result.json", run.result);
      write_file_atomically(folder_ / run.name / "distances" / "fid.json",
                            document_text(json::kDistanceDocument, json::tree_of(file)));
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

TEST_F(Distances, that_cannot_be_read_are_named_and_the_others_judged) {
  keep(0.001);
  const fs::path locked = fs::path(read_side(folder_.string()).runs.front().name) / "distances";
  fs::permissions(locked, fs::perms::none);
  {
    const test::PlainUserGuard guard;
    const QualityStudy study = judged();
    EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive);
    ASSERT_EQ(study.without_result.size(), 1U);
    EXPECT_EQ(study.without_result[0], locked.string() + ": cannot be read: Permission denied");
    EXPECT_EQ(study.distance_values.size(), 9U);
  }
  fs::permissions(locked, fs::perms::owner_all);
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
  EXPECT_EQ(origin.definition, "ho-cifar10@cpu fedcba987654");
  EXPECT_EQ(origin.noise, "the run's seed");
  EXPECT_EQ(origin.precision, "the run's");
  const std::string page = quality_markdown(study);
  for (const char* word :
       {"abcdef012345", "tf1-bilinear", "2048", "5000", "50000", "0123", "the run's seed"}) {
    EXPECT_NE(page.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(Json::parse(quality_json(study)).at("distances").at(0).at("resize"), "tf1-bilinear");
}

TEST_F(Distances, that_come_from_elsewhere_in_some_runs_are_not_comparable) {
  const auto of_dpr8 = [](const std::function<void(DistanceFile&)>& change) {
    return [=](DistanceFile& file, const Result& run) {
      if (run.identity.mode == "dpr8") change(file);
    };
  };
  const std::map<std::string, std::function<void(DistanceFile&)>> faults = {
      {"resize", [](DistanceFile& file) { file.a.extractor->resize = "align_corners=False"; }},
      {"extractor", [](DistanceFile& file) { file.a.extractor->checksum = "other"; }},
      {"stale reference", [](DistanceFile& file) { file.b.moments_sha256 = "9876"; }},
      {"word of the user", [](DistanceFile& file) { file.b.extractor_asserted = true; }},
      {"definition", [](DistanceFile& file) { file.a.drawn->definition->sha256 = "other"; }},
      {"precision", [](DistanceFile& file) { file.a.drawn->execution->precision = "bf16"; }},
      {"seed", [](DistanceFile& file) { file.a.drawn->seed = 99; }},
      {"reference's N", [](DistanceFile& file) { file.b.n = 10000; }},
      {"N", [](DistanceFile& file) { file.a.n = 4500; }},
      {"steps", [](DistanceFile& file) { file.a.drawn->sampler.steps = 10; }},
      {"weights", [](DistanceFile& file) { file.a.drawn->weights.kind = "ema"; }},
      {"noise", [](DistanceFile& file) { file.a.drawn->noise.sha256 = "other"; }}};
  for (const auto& [name, fault] : faults) {
    keep(0.001, of_dpr8(fault));
    EXPECT_EQ(judged().verdict, QualityVerdict::kNotComparable) << name;
  }
}

TEST_F(Distances, of_other_weights_or_of_too_few_samples_prove_nothing) {
  const std::map<std::string, std::function<void(DistanceFile&)>> faults = {
      {"other weights", [](DistanceFile& file) { file.a.drawn->weights.sha256 = "other"; }},
      {"nobody says", [](DistanceFile& file) { file.a.drawn = std::nullopt; }},
      {"fewer than 2 d", [](DistanceFile& file) { file.a.gateable = false; }},
      {"another resize of the reference",
       [](DistanceFile& file) { file.b.extractor->resize = "bilinear"; }},
      {"other weights of the reference's extractor",
       [](DistanceFile& file) { file.b.extractor->checksum = "other"; }},
      {"reference of unknown make", [](DistanceFile& file) { file.b.extractor = std::nullopt; }},
      {"samples of unknown make", [](DistanceFile& file) { file.a.extractor = std::nullopt; }},
      {"both of unknown make",
       [](DistanceFile& file) { file.a.extractor = file.b.extractor = std::nullopt; }},
      {"NaN", [](DistanceFile& file) { file.value = std::nullopt; }}};
  for (const auto& [name, fault] : faults) {
    keep(0.001, [&](DistanceFile& file, const Result&) { fault(file); });
    const QualityStudy study = judged();
    EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << name;
    EXPECT_TRUE(study.rows.front().seeds.empty()) << name;
    ASSERT_EQ(study.distance_values.size(), 10U);
    EXPECT_NE(study.distance_values[0].problem, "") << name;
  }
}

/// Raw samples beside the distribution itself, which has no extractor.
TEST_F(Distances, to_the_mixture_itself_need_no_extractor) {
  keep(0.001, [](DistanceFile& file, const Result&) {
    file.name = "Fréchet distance";
    file.a.extractor = file.b.extractor = std::nullopt;
    file.b.exact = true;
    file.b.n = std::nullopt;
    file.b.name = "gmm16:exact";
  });
  const QualityStudy study = judged({.gates = {{"mixture_distance", 0.05}}});
  EXPECT_EQ(study.verdict, QualityVerdict::kPass) << quality_markdown(study);
  EXPECT_EQ(study.rows.front().measure, "mixture_distance");
  EXPECT_EQ(study.distances.at(0).reference, "gmm16:exact");
  EXPECT_NE(quality_markdown(study).find("| none "), std::string::npos);
}

/// The keys of the definition, each departed from in turn.
TEST_F(Distances, that_depart_from_the_definition_do_not_count) {
  constexpr const char* kDefinition =
      R"({"eval":{"weights":"model"},
          "sample":{"sampler":"ddim","count":5000,"ddim_steps":50,"ddim_eta":0.0},
          "quality":{"extractor":"inception","resize":"tf1-bilinear","reference":"cifar10.npz"}})";
  const auto keep_under = [&](const std::function<void(DistanceFile&)>& fault) {
    keep(
        0.001, [&](DistanceFile& file, const Result&) { fault(file); },
        [&](Result& result, uint64_t) { result.definition = kDefinition; });
  };
  keep_under([](DistanceFile&) {});
  EXPECT_EQ(judged().verdict, QualityVerdict::kPass) << quality_markdown(judged());
  const std::map<std::string, std::function<void(DistanceFile&)>> faults = {
      {"sample.count: 4500, and the run's definition locks 5000",
       [](DistanceFile& file) { file.a.n = 4500; }},
      {"sample.sampler: ddpm, and",
       [](DistanceFile& file) {
         file.a.drawn->sampler = {"ddpm", 50, {}, {}, "small"};
       }},
      {"sample.ddim_steps: 10, and", [](DistanceFile& file) { file.a.drawn->sampler.steps = 10; }},
      {"sample.ddim_eta: 1.0, and", [](DistanceFile& file) { file.a.drawn->sampler.eta = 1.0; }},
      {"the seed: 99, and", [](DistanceFile& file) { file.a.drawn->seed = 99; }},
      {"the initial noise: file, and",
       [](DistanceFile& file) { file.a.drawn->noise.source = "file"; }},
      {"eval.weights: ema, and", [](DistanceFile& file) { file.a.drawn->weights.kind = "ema"; }},
      {"quality.resize: bilinear, and",
       [](DistanceFile& file) {
         file.a.extractor->resize = file.b.extractor->resize = "bilinear";
       }},
      {"quality.extractor: cifarnet, and",
       [](DistanceFile& file) { file.a.extractor->name = file.b.extractor->name = "cifarnet"; }},
      {"quality.reference: other.npz, and",
       [](DistanceFile& file) { file.b.name = "/somewhere/other.npz"; }}};
  for (const auto& [words, fault] : faults) {
    keep_under(fault);
    const QualityStudy study = judged();
    EXPECT_EQ(study.verdict, QualityVerdict::kInconclusive) << words;
    ASSERT_FALSE(study.distance_values.empty());
    EXPECT_EQ(study.distance_values[0].problem.find(words), 0U) << study.distance_values[0].problem;
  }
}

/// The lock is by the checksum of its moments, wherever it lies.
TEST_F(Distances, may_be_locked_to_the_moments_of_their_reference) {
  const auto judged_to = [&](const std::string& sha256) {
    keep(0.001, {}, [&](Result& result, uint64_t) {
      result.definition = fmt::format(R"({{"quality":{{"reference":"{}"}}}})", sha256);
    });
    return judged().verdict;
  };
  EXPECT_EQ(judged_to("0123"), QualityVerdict::kPass);
  EXPECT_EQ(judged_to("9876"), QualityVerdict::kInconclusive);
}

TEST_F(Distances, that_are_none_are_refused) {
  const fs::path kept = folder_ / "none-seed0" / "distances" / "fid.json";
  for (const char* lost : {"schema", "d"}) {
    keep(0.001);
    Json without = Json::parse(read_file(kept));
    without.erase(lost);
    write_file_atomically(kept, without.dump());
    EXPECT_THROW((void)judged(), Error) << lost;
  }
  keep(0.001);
  fs::copy_file(kept, kept.parent_path() / "again.json");
  EXPECT_THROW((void)judged(), Error) << "twice";
}

TEST_F(Distances, with_a_kernel_are_two_metrics) {
  keep(0.001, [](DistanceFile& file, const Result& run) {
    const double mean = 0.01 + 1e-4 * static_cast<double>(run.seeds.base % 3);
    file.kernel = DistanceFile::Kernel{
        mean + (run.identity.mode == "none" ? 0 : 1e-6), 0, 0.0025, 100, 1000, "counter", 3};
  });
  const QualityStudy study = judged({.gates = {{"kid", 0.001}}});
  EXPECT_EQ(study.distances[1].kernel, (KernelOrigin{100, 1000, "counter", 3}));
  const std::string page = quality_markdown(study);
  EXPECT_NE(page.find("100 subsets of 1000, drawn by counter, seed 3"), std::string::npos) << page;
  EXPECT_NE(page.find("± 0.0025"), std::string::npos) << page;
  EXPECT_EQ(study.rows.front().scale, DifferenceScale::kDifference);
  EXPECT_EQ(study.distances.size(), 2U);
  EXPECT_THROW((void)judged({.gates = {{"kid", {}}}}), Error) << "KID has no margin of its own";
}

/// The rule of 2 d is of covariances, which kernels and neighbours do not look at.
TEST_F(Distances, that_are_no_frechet_distances_count_with_fewer_than_2_d_samples) {
  const auto few = [](DistanceFile& file) {
    file.a.gateable = false;
    file.kernel = DistanceFile::Kernel{0.01, 0, 0.0025, 100, 1000, "counter", 3};
    file.precision_frac = 0.75;
    file.recall_frac = 0.5;
  };
  const auto problems = [&](const std::function<void(DistanceFile&)>& change) {
    keep(0.001, [&](DistanceFile& file, const Result&) {
      few(file);
      change(file);
    });
    std::map<std::string, std::string> found;
    for (const DistanceValue& one : judged().distance_values) found[one.metric] = one.problem;
    return found;
  };
  auto found = problems([](DistanceFile&) {});
  EXPECT_NE(found.at("fid"), "");
  for (const char* metric : {"kid", "inception_precision", "inception_recall"}) {
    EXPECT_EQ(found.at(metric), "") << metric;
  }
  found = problems([](DistanceFile& file) { file.kernel->standard_error = std::nullopt; });
  EXPECT_EQ(found.at("kid").find("no standard error: subsets"), 0U) << found.at("kid");
  EXPECT_EQ(found.at("inception_precision"), "");
  found = problems([](DistanceFile& file) { file.b.extractor = std::nullopt; });
  for (const auto& [metric, problem] : found) EXPECT_NE(problem, "") << metric;
}

TEST_F(Distances, of_other_draws_of_a_kernel_are_not_comparable) {
  keep(0.001, [](DistanceFile& file, const Result& run) {
    const int64_t subsets = run.identity.mode == "none" ? 100 : 50;
    file.kernel = DistanceFile::Kernel{0.01, 0, 0.0025, subsets, 1000, "counter", 3};
  });
  EXPECT_EQ(judged().verdict, QualityVerdict::kNotComparable);
}

TEST_F(Distances, come_with_precision_recall_and_score_where_they_were_asked_for) {
  keep(0.001, [](DistanceFile& file, const Result&) {
    file.precision_frac = 0.75;
    file.recall_frac = 0.0;
    file.bootstrap = DistanceFile::Bootstrap{1000, 0, "a", 0.95, 9.5, 11.25};
    file.inception_score = DistanceFile::Score{"Inception score", 8.5, 0.1, 10};
  });
  const QualityStudy study = judged();
  std::set<std::string> metrics;
  for (const DistanceValue& one : study.distance_values) metrics.insert(one.metric);
  EXPECT_EQ(metrics, (std::set<std::string>{"fid", "inception_precision", "inception_recall",
                                            "inception_score"}));
  for (const char* shared : {"inception_precision", "inception_recall"}) {
    const auto row = std::find_if(study.rows.begin(), study.rows.end(),
                                  [&](const QualityRow& one) { return one.measure == shared; });
    ASSERT_NE(row, study.rows.end());
    EXPECT_EQ(row->scale, DifferenceScale::kDifference) << "none at all is a share too";
    EXPECT_EQ(row->seeds.size(), 5U);
  }
  EXPECT_NE(quality_markdown(study).find("9.5 to 11.25"), std::string::npos);
  const Json json = Json::parse(quality_json(study));
  EXPECT_EQ(json.at("distance_values").size(), 40U);
  EXPECT_EQ(json.at("distance_values").at(0).at("interval").at("high"), 11.25);
}

/// The runs that are judged may be of another work than their name says.
TEST_F(Distances, page_says_when_the_work_is_not_the_locked_one) {
  keep(0.001);
  EXPECT_EQ(quality_markdown(judged()).find("Not the locked benchmark"), std::string::npos);
  keep(0.001, {}, [](Result& result, uint64_t) {
    result.identity.custom = true;
    result.identity.overrides = {"train.steps=60"};
    result.identity.data = "unofficial";
  });
  const std::string page = quality_markdown(judged());
  EXPECT_NE(page.find("Not the locked benchmark"), std::string::npos);
  EXPECT_NE(page.find("- ho-cifar10@cpu: custom definition: train.steps=60"), std::string::npos);
  EXPECT_NE(page.find("- ho-cifar10@cpu: data: unofficial (not the files that were published)"),
            std::string::npos);
}

TEST_F(Distances, sheets_of_samples_are_shown_by_their_place_below_the_folder) {
  keep(0.001);
  make_folder(folder_ / "dpr8-seed1" / "samples");
  write_file_atomically(folder_ / "dpr8-seed1" / "samples" / "sheet.png", "an image");
  const QualityStudy study = judged();
  EXPECT_EQ(study.sheets, std::vector<std::string>{"dpr8-seed1/samples/sheet.png"});
  EXPECT_NE(quality_markdown(study).find("](dpr8-seed1/samples/sheet.png)"), std::string::npos);
}

TEST_F(Distances, sheets_of_samples_are_shown_on_a_page_that_lies_elsewhere) {
  keep(0.001);
  make_folder(folder_ / "dpr8-seed1" / "samples");
  write_file_atomically(folder_ / "dpr8-seed1" / "samples" / "sheet.png", "an image");
  const auto sheets = [&](const std::vector<std::string>& paths, const fs::path& page) {
    return read_quality_side(paths, page).sheets;
  };
  const std::vector<std::string> from_beside = {"../" + folder_.filename().string() +
                                                "/dpr8-seed1/samples/sheet.png"};
  EXPECT_EQ(sheets({folder_.string()}, folder_.parent_path() / "page"), from_beside);
  const std::string none = (folder_ / "none-seed1").string();
  const std::string dpr8 = (folder_ / "dpr8-seed1").string();
  EXPECT_EQ(sheets({none, dpr8}, folder_.parent_path() / "page"), from_beside) << "of two folders";
  const std::vector<std::string> from_here = sheets({none, dpr8}, {});
  ASSERT_EQ(from_here.size(), 1U);
  EXPECT_TRUE(fs::exists(from_here[0])) << from_here[0];
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
