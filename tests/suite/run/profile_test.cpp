#include "suite/run/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// `noisemark profile`, as a user meets it.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::run_noisemark;
using test::TemporaryFolder;
using test::with;

std::vector<std::string> command(const fs::path& out) {
  return {"profile", "gmm16-ho@cpu", "--device=cpu", "--threads=1", "--out=" + out.string()};
}

/// The profile of training at batch 4 and of sampling at batches 1 and 3.
void expect_characterization(const nlohmann::json& network) {
  EXPECT_EQ(network.at("weight_bytes"), 4 * network.at("parameters").get<int64_t>()) << "float32";
  const auto& rows = network.at("workloads");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].at("name"), "training");
  for (const auto& row : rows) {
    double sum = 0;
    for (const auto& one : row.at("classes")) {
      sum += one.at("share_frac").get<double>();
      if (one.at("name") != "other") continue;
      EXPECT_LE(one.at("share_frac"), 0.01) << row.at("unclassified");
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_EQ(rows[2].at("batch"), 3);
  EXPECT_GT(rows[1].at("activation_bytes"), 0);
  // Every image takes and computes as much; what does not grow is the time's embedding's table.
  const auto ratio = [&](const char* key) {
    return rows[2].at(key).get<double>() / rows[1].at(key).get<double>();
  };
  EXPECT_NEAR(ratio("activation_bytes"), 3, 0.05);
  EXPECT_NEAR(ratio("flop"), 3, 0.05);
  EXPECT_LT(ratio("bytes"), 3) << "the weights are read once";
}

TEST(ProfileCommand, has_every_operator_and_layer_of_a_benchmark_and_memory_by_owner) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished done =
      run_noisemark(with(command(out), {"--steps=2", "--batch=4", "--html", "--sampling=1,3"}));
  ASSERT_EQ(done.code, 0) << done.both();
  EXPECT_EQ(done.out.find("# Profile of gmm16-ho@cpu\n"), 0U) << done.out;
  EXPECT_EQ(done.err.find("[W"), std::string::npos)
      << "LibTorch warns of blocks that are older than its profiler\n"
      << done.err;
  const auto json = nlohmann::json::parse(test::file_bytes(out / "profile.json"));
  EXPECT_EQ(json.at("steps"), 2);
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_EQ(json.at("counters_missing"), "");
  EXPECT_GT(json.at("counters"), 100);
  EXPECT_EQ(json.at("trace_bytes"), fs::file_size(out / "trace.json.gz"));
  EXPECT_GT(json.at("cost").at("ratio"), 0.5);
  for (const char* rows : {"layers", "blocks"}) {
    int64_t sum_ns = 0;
    for (const auto& row : json.at(rows)) {
      sum_ns +=
          row.at("forward_host_ns").get<int64_t>() + row.at("backward_host_ns").get<int64_t>();
    }
    for (const auto& row : json.at("operators")) {
      if (row.at("name") != "ProfilerStep*") continue;
      EXPECT_EQ(sum_ns, row.at("host_ns")) << rows;
    }
  }
  const auto has = [&](const char* rows, const char* key, const std::string& value) {
    return std::any_of(json.at(rows).begin(), json.at(rows).end(),
                       [&](const auto& row) { return row.at(key) == value; });
  };
  const auto& roofline = json.at("roofline");
  EXPECT_EQ(roofline.at("missing"), "");
  EXPECT_GT(roofline.at("products").size(), 0U);
  EXPECT_GT(roofline.at("ideal_s"), 0);
  // Half of the time: what scales a large gradient is left out, and small steps have gaps.
  EXPECT_GT(roofline.at("counted_s").get<double>(), 0.5 * roofline.at("step_s").get<double>());
  EXPECT_TRUE(std::any_of(roofline.at("operators").begin(), roofline.at("operators").end(),
                          [](const auto& row) { return row.at("name") == "aten::convolution"; }));
  EXPECT_NE(done.out.find("\n## Roofline\n"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("\n## The step by a model\n"), std::string::npos) << done.out;
  double parts_s = 0;
  for (const auto& part : roofline.at("parts")) parts_s += part.at("time_s").get<double>();
  EXPECT_NEAR(parts_s, roofline.at("step_s").get<double>(), 1e-9) << "no part overlaps another";
  expect_characterization(json.at("characterization"));
  EXPECT_NE(test::file_bytes(out / "plots" / "roofline.dat").find("\"aten::convolution "),
            std::string::npos);
  EXPECT_TRUE(has("layers", "name", "conv_in"));
  EXPECT_TRUE(has("blocks", "name", "mid_block.resnets.0"));
  EXPECT_TRUE(has("joined", "forward", "aten::convolution"));
  EXPECT_FALSE(fs::exists(out / "trace.json")) << "kineto's own file goes";
  EXPECT_NE(test::file_bytes(out / "profile.html").find("\"timeline\":{"), std::string::npos);
  const auto timeline = nlohmann::json::parse(test::file_bytes(out / "memory_timeline.json"));
  EXPECT_GT(timeline.at("points").size(), 100U);
  const auto ran = [&](const char* key, const std::string& value) {
    return std::any_of(timeline.at("points").begin(), timeline.at("points").end(),
                       [&](const auto& point) { return point.at(key) == value; });
  };
  EXPECT_TRUE(ran("layer", "conv_in"));
  EXPECT_TRUE(ran("phase", "forward"));
  EXPECT_TRUE(ran("phase", "backward"));
}

std::string limit_in(const fs::path& run) {
  const std::string report = test::file_bytes(run / "report.md");
  const size_t begin = report.find("**What limits it:** ");
  return report.substr(begin, report.find('\n', begin) - begin);
}

/// Runs the command that a report of the run advises, with its folder for DIR.
Finished run_as_advised(const fs::path& run) {
  std::string advice = limit_in(run);
  const size_t begin = advice.find('`') + 1;
  advice = advice.substr(begin, advice.find('`', begin) - begin);
  advice.replace(advice.find("DIR/"), 3, "\"$DIR\"");
  const std::string function = "noisemark() { \"$PROGRAM\" \"$@\"; }; ";
  return test::Process({"/bin/sh", "-c", function + advice},
                       {{"PROGRAM", test::noisemark_command({}).front()}, {"DIR", run.string()}})
      .wait();
}

TEST(ProfileCommand, of_a_report_finds_what_limits_that_very_run) {
  const TemporaryFolder folder;
  const fs::path own = folder.path() / "it's my.toml";
  std::ofstream(own) << test::file_bytes(NOISEMARK_SOURCE "/suite/benchmarks/v1/gmm16.toml");
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"--deterministic", "--loader-threads=2", "--precision=bf16", "--mode=echo"},
      {"--baseline=fused+channels-last", "--set=model.dropout=0.1"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const fs::path out = folder.path() / ("run " + std::to_string(i));
    std::vector<std::string> words = with(test::timed_only(out, 2), runs[i]);
    if (i == 1) words[1] = own.string() + "@cpu";
    const Finished run = run_noisemark(words);
    ASSERT_EQ(run.code, 0) << run.both();
    const std::string advice = limit_in(out);
    const Finished profile = run_as_advised(out);
    EXPECT_EQ(profile.code, 0) << advice << '\n' << profile.both();
    const Finished report = run_noisemark({"report", out.string()});
    EXPECT_EQ(report.code, 0) << report.both();
    EXPECT_EQ(limit_in(out).find("not known"), std::string::npos) << advice << limit_in(out);
    EXPECT_NE(limit_in(out).find("of a profiled step"), std::string::npos) << limit_in(out);
  }
}

TEST(ProfileCommand, leaves_a_folder_alone_that_holds_anything_else) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  fs::create_directories(out);
  std::ofstream(out / "mine.txt") << "mine";
  const Finished done = run_noisemark(with(command(out), {"--force"}));
  EXPECT_EQ(done.code, 2) << done.both();
  EXPECT_NE(done.err.find("is not an empty folder"), std::string::npos) << done.err;
  EXPECT_EQ(test::file_bytes(out / "mine.txt"), "mine");
}

TEST(ProfileCommand, leaves_no_piece_of_a_trace_that_the_disk_does_not_take) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::vector<std::string> words = with(command(out), {"--steps=1", "--batch=2"});
  const Finished done = test::run_noisemark_after("ulimit -f 64", words);
  EXPECT_EQ(done.code, 74) << done.both();
  EXPECT_NE(done.err.find("/trace.json: cannot be written: File too large"), std::string::npos)
      << done.err;
  EXPECT_TRUE(fs::is_empty(out)) << "else it is no folder for another try";
}

TEST(ProfileCommand, refuses_what_cannot_be_profiled) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  for (const char* wrong :
       {"--steps=0", "--batch=0", "--baseline=nonsense", "--sampling=1,,2", "--sampling=0"}) {
    EXPECT_EQ(run_noisemark(with(command(out), {wrong})).code, 2) << wrong;
  }
  EXPECT_EQ(run_noisemark({"profile", "smoke", "--device=cpu"}).code, 2) << "a suite";
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace noisemark::suite
