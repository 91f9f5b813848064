#include "suite/run/run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// `noisemark predict`, as a user meets it.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::result_in;
using test::run_noisemark;
using test::TemporaryFolder;
using test::with;

std::vector<std::string> prediction(const fs::path& out, const std::vector<std::string>& more) {
  std::vector<std::string> words{"predict", "gmm16@cpu",  "--device",    "cpu",
                                 "--out",   out.string(), "--no-profile"};
  for (const char* set : {"train.steps=12", "eval.samples=8", "eval.every=0"}) {
    words.insert(words.end(), {"--set", set});
  }
  return with(words, more);
}

/// Up to 12 images the peak is at one place, so it is predicted exactly, on the busiest machine
/// too; from 16 on oneDNN takes another algorithm. The time is not looked at, which a machine with
/// other work to do may move by more than its limit.
TEST(Predict, trains_three_sizes_and_five_more_to_check_the_prediction_by) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished done =
      run_noisemark(prediction(out, {"--batches=2,4,6", "--check", "--memory=64MiB", "--html"}));
  EXPECT_TRUE(done.code == 0 || done.code == 1 || done.code == 4) << done.both();
  for (const char* batch : {"2", "3", "4", "5", "6", "8", "9", "12"}) {
    const fs::path cell = out / ("mode=none,batch=" + std::string(batch));
    EXPECT_EQ(std::to_string(result_in(cell).protocol.batch), batch);
  }
  const std::string page = test::file_bytes(out / "predict.md");
  EXPECT_EQ(page.find("# Prediction of gmm16@cpu\n"), 0U) << page;
  EXPECT_NE(page.find("and that of the peak 0.0"), std::string::npos) << page;
  const auto figures = nlohmann::json::parse(test::file_bytes(out / "predict.json"));
  const auto& variant = figures.at("variants").at(0);
  EXPECT_EQ(variant.at("measured").size(), 3U);
  EXPECT_EQ(variant.at("held_out").size(), 5U);
  for (const char* list : {"measured", "held_out"}) {
    for (const auto& point : variant.at(list)) {
      EXPECT_GT(point.at("step_s"), 0) << "it takes its time in turns: " << point;
      EXPECT_LT(point.at("low_s"), point.at("high_s")) << point;
    }
  }
  EXPECT_EQ(variant.at("curve").at(0).at("batch"), 1);
  EXPECT_EQ(variant.at("curve").back().at("batch"), 12);
  const std::string html = test::file_bytes(out / "predict.html");
  EXPECT_NE(html.find("\"prediction\":{"), std::string::npos);
}

TEST(Predict, says_in_what_memory_a_mode_overtakes_the_first_one) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished done = run_noisemark(
      prediction(out, {"--batches=2,4,8", "--mode=none", "--mode=echo", "--no-certificate"}));
  ASSERT_EQ(done.code, 0) << done.both();
  EXPECT_NE(done.out.find("`echo` overtakes `none` in"), std::string::npos) << done.out;
}

TEST(Predict, that_is_interrupted_says_so_and_not_that_a_figure_is_missing) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "out";
    test::Process process(test::noisemark_command(
        prediction(out, {"--batches=2,4,8", "--set", "train.steps=100000"})));
    ASSERT_TRUE(test::wait_for_file(out / "mode=none,batch=2" / "events.mlog", "run_start"));
    process.signal(signal);
    const Finished done = process.wait();
    expect_interrupted(done, "batch=2: interrupted", out.string());
    EXPECT_EQ(done.err.find("not measured"), std::string::npos) << done.err;
  }
}

/// The last run is over within a moment of its result, and turns take seconds.
TEST(Predict, that_is_interrupted_in_its_turns_says_that_it_can_be_resumed) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::vector<std::string> command = prediction(out, {"--batches=2,4,6"});
  test::Process process(test::noisemark_command(command));
  ASSERT_TRUE(test::wait_for_file(out / "mode=none,batch=6" / "report.md"));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  process.signal(SIGTERM);
  const Finished done = process.wait();
  expect_interrupted(done, ": interrupted in its turns", out.string());
  const Finished resumed = run_noisemark(with(command, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_TRUE(fs::exists(out / "predict.md"));
}

TEST(Predict, refuses_sizes_that_nothing_can_be_predicted_from) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  for (const std::string sizes : {"2,4", "2,4,4", "2,4,x", "2,4,8,", "0,2,4", "2;4;8"}) {
    const Finished done = run_noisemark(prediction(out, {"--batches=" + sizes}));
    EXPECT_EQ(done.code, 2) << done.both();
    EXPECT_NE(done.err.find("--batches: " + sizes), std::string::npos) << done.err;
  }
  const Finished close = run_noisemark(prediction(out, {"--batches=1,2,3", "--check"}));
  EXPECT_EQ(close.code, 2) << close.both();
  const Finished set = run_noisemark(prediction(out, {"--set", "train.batch=4"}));
  EXPECT_EQ(set.code, 2) << set.both();
  EXPECT_NE(set.err.find("--set: train.batch: "), std::string::npos) << set.err;
  EXPECT_EQ(set.err.find("--axis"), std::string::npos) << "it is no option of predict: " << set.err;
  EXPECT_FALSE(fs::exists(out));
}

TEST(Predict, is_part_of_the_page_of_a_run_of_its_work_alone) {
  const TemporaryFolder folder;
  const fs::path same = folder.path() / "same";
  const fs::path other = folder.path() / "other";
  ASSERT_EQ(run_noisemark(test::timed_only(same)).code, 0);
  ASSERT_EQ(run_noisemark(with(test::timed_only(other), {"--precision=bf16"})).code, 0);
  const Finished made = run_noisemark(prediction(same / "predict", {"--batches=2,4,6"}));
  ASSERT_EQ(made.code, 0) << made.both();
  fs::copy(same / "predict", other / "predict", fs::copy_options::recursive);
  const auto page_of = [](const fs::path& run, const std::string& said) {
    const Finished done = run_noisemark({"report", run.string(), "--html"});
    EXPECT_EQ(done.code, 0) << done.both();
    EXPECT_NE(done.err.find(said), std::string::npos) << done.err;
    return test::file_bytes(run / "report.html").find("\"prediction\":{") != std::string::npos;
  };
  EXPECT_TRUE(page_of(same, ""));
  const std::string left_out = "predict.json: is no part of the page, because it ";
  EXPECT_FALSE(page_of(other, left_out + "is of other work: its cell is "));
  std::ofstream(same / "predict" / "predict.json") << R"({"variants": []})";
  EXPECT_FALSE(page_of(same, left_out + "does not say of which work it is: make it again"));
}

}  // namespace
}  // namespace noisemark::suite
