// The way from training to a verdict on samples, with every real part: `run` draws them, `fid`
// measures each run's own, `quality` judges what was measured.

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/base/file.h"
#include "suite/io/numpy.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::Finished;

// 2 * 256 values are the fewest samples that may be gated.
constexpr int64_t kSamples = 512;  // the words below name it too

/// Two seeds of none and of dpr8, trained for a moment and measured, once for all of these tests.
class QualityOfSamples : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained = new test::TemporaryFolder;
    const std::string out = (trained->path() / "runs").string();
    const Finished finished = test::noisemark({"run",
                                               "gmm16@cpu",
                                               "--device",
                                               "cpu",
                                               "--mode",
                                               "none",
                                               "--mode",
                                               "dpr8",
                                               "--seeds",
                                               "2",
                                               "--set",
                                               "train.steps=8",
                                               "--set",
                                               "train.batch=4",
                                               "--set",
                                               "eval.samples=8",
                                               "--set",
                                               "eval.every=0",
                                               "--set",
                                               "sample.sampler=ddim",
                                               "--set",
                                               "sample.ddim_steps=2",
                                               "--set",
                                               "sample.count=512",
                                               "--set",
                                               "quality.reference=gmm16:exact",
                                               "--no-memory",
                                               "--no-profile",
                                               "--no-certificate",
                                               "--out",
                                               out});
    // The losses of two seeds of so short a training are beside the point here.
    ASSERT_TRUE(finished.code == 0 || finished.code == 4) << finished.both();
    ASSERT_EQ(runs_in(trained->path() / "runs").size(), 4U) << finished.both();
    for (const fs::path& run : runs_in(trained->path() / "runs")) {
      const Finished measured = distance_of(run);
      ASSERT_EQ(measured.code, 0) << measured.both();
      keep_distance(run, measured.out);
    }
  }
  static void TearDownTestSuite() { delete trained; }

  void SetUp() override { fs::copy(trained->path() / "runs", runs(), fs::copy_options::recursive); }

  [[nodiscard]] fs::path runs() const { return folder_.path() / "runs"; }

  /// Folders of runs that drew samples, sorted: dpr8's seeds first.
  static std::vector<fs::path> runs_in(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().filename() != "samples.npy") continue;
      found.push_back(entry.path().parent_path().parent_path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  static Finished distance_of(const fs::path& run) {
    return test::noisemark({"fid", (run / "samples" / "samples.npy").string(), "gmm16:exact",
                            "--device", "cpu", "--json"});
  }

  static void keep_distance(const fs::path& run, const std::string& json) {
    reports::make_folder(run / "distances");
    reports::write_file_atomically(run / "distances" / "mixture.json", json);
  }

  /// quality.json, with the distance as its only gate.
  [[nodiscard]] Json judged() const {
    const Finished finished = test::noisemark(
        {"quality", runs().string(), "--gate", "mixture_distance=0.1", "--format", "json"});
    EXPECT_LE(finished.code, 4) << finished.both();
    EXPECT_NE(finished.code, 2) << finished.both();
    return Json::parse(finished.out);
  }

  /// Says why the distances do not count, those that do left out.
  static std::vector<std::string> problems(const Json& study) {
    std::vector<std::string> words;
    for (const Json& value : study.at("distance_values")) {
      const auto problem = value.at("problem").get<std::string>();
      if (!problem.empty()) words.push_back(problem);
    }
    return words;
  }

  static inline test::TemporaryFolder* trained = nullptr;

 private:
  test::TemporaryFolder folder_;
};

TEST_F(QualityOfSamples, counts_what_fid_says_of_every_runs_own_samples) {
  const Json study = judged();
  EXPECT_TRUE(problems(study).empty()) << study.dump(1);
  const Json& row = study.at("rows").at(0);
  EXPECT_EQ(row.at("measure"), "mixture_distance");
  EXPECT_TRUE(row.at("variant").get<std::string>().starts_with("dpr8-")) << row;
  ASSERT_EQ(row.at("seeds").size(), 2U) << study.dump(1);
  EXPECT_GT(row.at("seeds").at(0).at("reference").get<double>(), 0);
  const Json& origin = study.at("distances").at(0);
  EXPECT_EQ(origin.at("samples"), kSamples);
  EXPECT_EQ(origin.at("reference"), "gmm16:exact");
  EXPECT_EQ(origin.at("sampler"), "ddim, 2 steps, eta 0.0");
  EXPECT_EQ(origin.at("noise"), "the run's seed");
}

TEST_F(QualityOfSamples, does_not_count_samples_that_were_changed) {
  const fs::path run = runs_in(runs()).front();
  const fs::path samples = run / "samples" / "samples.npy";
  write_npy(samples, read_npy(samples.string()) * 0.5);
  const Finished refused = distance_of(run);
  EXPECT_EQ(refused.code, 2) << refused.both();
  EXPECT_NE(refused.err.find("other samples than those that sampling.json speaks of"),
            std::string::npos)
      << refused.err;
  // They do not count without the file that tells them apart either.
  fs::remove(run / "samples" / "sampling.json");
  const Finished told = distance_of(run);
  ASSERT_EQ(told.code, 0) << told.both();
  keep_distance(run, told.out);
  const Json study = judged();
  EXPECT_EQ(problems(study),
            std::vector<std::string>{"nothing says which weights drew the samples"});
  EXPECT_EQ(study.at("rows").at(0).at("seeds").size(), 1U) << study.dump(1);
  EXPECT_NE(study.at("verdict"), "PASS");
}

TEST_F(QualityOfSamples, does_not_count_the_samples_of_another_run) {
  const std::vector<fs::path> all = runs_in(runs());
  fs::copy_file(all[1] / "distances" / "mixture.json", all[0] / "distances" / "mixture.json",
                fs::copy_options::overwrite_existing);
  const Json study = judged();
  EXPECT_EQ(problems(study),
            std::vector<std::string>{"the samples were drawn with other weights than this run's"});
  EXPECT_EQ(study.at("rows").at(0).at("seeds").size(), 1U) << study.dump(1);
}

}  // namespace
}  // namespace noisemark::suite
