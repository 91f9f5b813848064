#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "reports/base/statistics.h"
#include "reports/render/check.h"
#include "reports/result/warmup.h"
#include "suite/cli/commands.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/data/cifar10.h"
#include "suite/environment/environment.h"

// The Python side of the comparison with the peers says what Noisemark says.
namespace noisemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Peers : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("NOISEMARK_PYTHON") == nullptr) {
      if (suite::is_required("peers")) FAIL() << "NOISEMARK_REQUIRE has peers, and no Python has";
      GTEST_SKIP() << "no Python with the peers";
    }
    std::string name = (fs::temp_directory_path() / "noisemark-peers-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  [[nodiscard]] const fs::path& folder() const { return folder_; }

  /// Exit status of `python SCRIPT ARGUMENTS`, standard input and output in files.
  [[nodiscard]] int python(const std::string& script, const std::string& arguments) const {
    const std::string command = fmt::format(
        "'{}' '{}/{}' {} <'{}' >'{}' 2>'{}'", std::getenv("NOISEMARK_PYTHON"), NOISEMARK_SOURCE_DIR,
        script, arguments, input().string(), output().string(), complaints().string());
    return WEXITSTATUS(std::system(command.c_str()));
  }

  [[nodiscard]] std::vector<Json> answers(const std::vector<Json>& questions) const {
    std::ofstream file(input());
    for (const Json& question : questions) file << question.dump() << '\n';
    file.close();
    EXPECT_EQ(python("tests/baselines/peers/answers.py", ""), 0) << text_of(complaints());
    std::vector<Json> lines;
    std::ifstream replies(output());
    for (std::string line; std::getline(replies, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] fs::path input() const { return folder_ / "input"; }
  [[nodiscard]] fs::path output() const { return folder_ / "output"; }
  [[nodiscard]] fs::path complaints() const { return folder_ / "complaints"; }

 private:
  fs::path folder_;
};

/// Runs of every kind: short and long, quiet and noisy, with a slow start, a drift, outliers.
std::vector<std::vector<double>> runs() {
  std::mt19937_64 random(11);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<std::vector<double>> all;
  for (int i = 0; i < 600; ++i) {
    const auto n = static_cast<size_t>(uniform(1, i % 10 == 0 ? 1500 : 200));
    const double noise = std::pow(10, uniform(-4, -0.5));
    const double start = uniform(0, 3);
    const double length = uniform(0.5, 40);
    const double drift = i % 3 == 0 ? uniform(-0.002, 0.002) : 0;
    std::vector<double> run;
    for (size_t step = 0; step < n; ++step) {
      const auto x = static_cast<double>(step);
      const double level = 1 + start * std::exp(-x / length) + drift * x;
      const double jump = uniform(0, 1) < 0.01 ? uniform(0, 2) : 0;
      run.push_back(std::max(1e-3, level * (1 + noise * uniform(-1, 1)) + jump));
    }
    all.push_back(run);
  }
  return all;
}

TEST_F(Peers, find_the_same_warm_up_and_interval_in_every_run) {
  std::vector<Json> questions;
  for (const auto& run : runs()) questions.push_back({{"step_s", run}});
  const std::vector<Json> replies = answers(questions);
  ASSERT_EQ(replies.size(), questions.size());
  int settled = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    const auto run = questions[i]["step_s"].get<std::vector<double>>();
    const reports::Warmup warmup = reports::detect_warmup(run);
    EXPECT_EQ(replies[i]["steps"], warmup.steps) << "run " << i << ", " << warmup.reason;
    EXPECT_EQ(replies[i]["stable"], warmup.stable) << "run " << i << ", " << warmup.reason;
    const auto interval = reports::median_interval(run);
    ASSERT_EQ(replies[i]["interval"].is_null(), !interval.has_value()) << "run " << i;
    if (interval) {
      EXPECT_EQ(replies[i]["interval"], Json({interval->low, interval->high})) << "run " << i;
    }
    settled += warmup.stable && warmup.steps > 0 ? 1 : 0;
  }
  EXPECT_GT(settled, 50);  // else the runs were too easy to tell the rules apart
}

TEST_F(Peers, restore_the_canonical_text_of_every_listed_definition) {
  std::ofstream(folder() / "list.json") << suite::list_json();
  Json ids;
  for (const suite::BenchmarkFile& file : suite::benchmark_files()) {
    for (const char* scale : {"@cpu", "@gpu"}) ids.push_back(std::string(file.id) + scale);
  }
  const auto replies = answers({{{"listing", (folder() / "list.json").string()}, {"ids", ids}}});
  ASSERT_EQ(replies.size(), 1u);
  for (const auto& [name, sha256] : replies[0].items()) {
    const size_t at = name.find('@');
    const auto definition = suite::load_definition(name.substr(0, at), name.substr(at + 1));
    EXPECT_EQ(sha256, suite::definition_sha256(definition)) << name;
  }
  EXPECT_EQ(replies[0].size(), ids.size());
}

/// Six small files in CIFAR-10's format.
void write_small_cifar10(const fs::path& folder) {
  char value = 0;
  for (const suite::CifarFile& file : suite::kCifarFiles) {
    std::string record(suite::kCifarRecordBytes, ++value);
    std::ofstream(folder / file.name, std::ios::binary) << record;
  }
}

void expect_same_data(const Json& reply, const fs::path& folder) {
  const auto dataset = suite::open_cifar10({}, folder);
  EXPECT_EQ(reply["standing"], dataset->standing());
  const auto files = dataset->files();
  ASSERT_EQ(reply["files"].size(), files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const Json expected = {{"name", files[i].name},
                           {"sha256", files[i].sha256},
                           {"bytes", files[i].bytes},
                           {"verified", files[i].verified}};
    EXPECT_EQ(reply["files"][i], expected);
  }
}

TEST_F(Peers, say_of_pictures_what_noisemark_says) {
  write_small_cifar10(folder());
  std::vector<Json> questions{{{"cifar10", folder().string()}}};
  const char* real = std::getenv("NOISEMARK_CIFAR10");
  if (real != nullptr) questions.push_back({{"cifar10", real}});
  const auto replies = answers(questions);
  ASSERT_EQ(replies.size(), questions.size());
  expect_same_data(replies[0], folder());
  for (const suite::CifarFile& file : suite::kCifarFiles) {
    EXPECT_EQ(replies[0]["locked"][std::string(file.name)], file.sha256);
  }
  if (real != nullptr) expect_same_data(replies[1], real);
}

TEST_F(Peers, write_a_result_that_passes_every_check) {
  std::ofstream(folder() / "list.json") << suite::list_json();
  std::ofstream(input()).close();
  const fs::path out = folder() / "out";
  const int status = python("baselines/peers/run_peer.py",
                            fmt::format("--definition '{}' --id gmm16 --steps 2 --threads 1 --out "
                                        "'{}'",
                                        (folder() / "list.json").string(), out.string()));
  if (status == 77 && !suite::is_required("peers")) GTEST_SKIP() << text_of(complaints());
  ASSERT_EQ(status, 0) << text_of(complaints());
  for (const reports::Finding& finding : reports::check(out)) {
    ADD_FAILURE() << finding.rule << ": " << finding.words;
  }
}

}  // namespace
}  // namespace noisemark
