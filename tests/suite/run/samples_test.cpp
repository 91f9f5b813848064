// Samples that a run draws after its training.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reports/base/sha256.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::result_in;
using test::run_noisemark;
using test::TemporaryFolder;
using test::timed_only;
using test::with;

std::vector<std::string> sampling_run(const fs::path& out) {
  return with(timed_only(out), {"--set", "sample.sampler=ddim", "--set", "sample.count=5", "--set",
                                "sample.ddim_steps=2"});
}

nlohmann::json record_in(const fs::path& out) {
  return nlohmann::json::parse(std::ifstream(out / "samples" / "sampling.json"));
}

TEST(SamplesOfARun, are_drawn_after_training_and_listed_in_the_result) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished finished = run_noisemark(sampling_run(out));
  ASSERT_EQ(finished.code, 0) << finished.both();
  const reports::Result result = result_in(out);
  for (const char* name : {"samples/sampling.json", "samples/samples.npy", "samples/sheet.png"}) {
    const auto found = std::find_if(result.artifacts.begin(), result.artifacts.end(),
                                    [&](const auto& artifact) { return artifact.path == name; });
    ASSERT_NE(found, result.artifacts.end()) << name;
    EXPECT_EQ(found->sha256, reports::sha256_of_file(out / name));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(out / "samples" / "pictures"), {}), 5);
  EXPECT_EQ(record_in(out)["weights"]["sha256"], result.determinism.weights_sha256);
  EXPECT_EQ(record_in(out)["execution"]["batch"], 4);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  std::stringstream report;
  report << std::ifstream(out / "report.md").rdbuf();
  EXPECT_NE(report.str().find("](samples/sheet.png)"), std::string::npos);
  EXPECT_NE(report.str().find(result.determinism.weights_sha256), std::string::npos);
  EXPECT_EQ(result.seeds.streams.count("sampler"), 1U);
}

TEST(SamplesOfARun, change_nothing_of_its_training_and_replace_those_of_the_run_before) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(sampling_run(out)).code, 0);
  const reports::Result sampled = result_in(out);
  ASSERT_EQ(run_noisemark(with(timed_only(out), {"--force"})).code, 0);
  const reports::Result plain = result_in(out);
  EXPECT_EQ(plain.determinism.weights_sha256, sampled.determinism.weights_sha256);
  EXPECT_NE(plain.identity.definition_sha256, sampled.identity.definition_sha256);
  EXPECT_FALSE(fs::exists(out / "samples")) << "of another run than the one that is there";
}

TEST(SamplesOfARun, that_cannot_be_are_refused_before_it_begins) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Finished finished = run_noisemark(with(timed_only(out), more));
    EXPECT_EQ(finished.code, 2) << finished.both();
    return finished.err;
  };
  EXPECT_EQ(refusal({"--set", "sample.sampler=ddim", "--set", "sample.ddim_steps=1001"}),
            "noisemark: --set: sample.ddim_steps: 1001 (at most diffusion.timesteps, 1000)\n");
  EXPECT_EQ(
      refusal({"--set", "sample.count=5"}),
      "noisemark: --set: sample.count: does not apply (only when sample.sampler is \"ddim\" or "
      "\"ddpm\", here it is \"none\")\n");
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace noisemark::suite
