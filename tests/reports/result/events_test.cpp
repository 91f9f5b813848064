#include "reports/result/events.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "reports/base/error.h"
#include "reports/base/file.h"

namespace noisemark::reports {
namespace {

class Events : public testing::Test {
 protected:
  Events()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("noisemark_events_" + std::to_string(getpid()) + ".mlog")) {}
  ~Events() override { std::filesystem::remove(path_); }
  EventWriter::Clock ticking() {
    return [this] { return ++now_ms_; };
  }
  std::vector<Event> read() const { return read_events(read_file(path_), "e"); }
  std::vector<std::string> problems(bool finished = true) const {
    return event_problems(read(), finished);
  }
  std::filesystem::path path_;
  int64_t now_ms_ = 1000;
};

// One line of mlcommons/logging's own writer, with its key order; the prefix is what its parser
// looks for.
TEST(EventLine, has_the_form_of_mlperf_logging) {
  EXPECT_EQ(event_line({1767323045000,
                        EventType::kPointInTime,
                        "eval_accuracy",
                        0.25,
                        {{"samples_count", int64_t{64}}, {"note", std::string("a\"b")}}}),
            ":::MLLOG {\"namespace\":\"noisemark\",\"time_ms\":1767323045000,\"event_type\":"
            "\"POINT_IN_TIME\",\"key\":\"eval_accuracy\",\"value\":0.25,\"metadata\":{\"note\":"
            "\"a\\\"b\",\"samples_count\":64}}");
}

TEST(EventLine, says_what_was_not_finite) {
  const std::string line = event_line(
      {1, EventType::kPointInTime, "loss", -std::numeric_limits<double>::infinity(), {}});
  EXPECT_NE(line.find("\"value\":null,\"metadata\":{\"not_finite\":\"-inf\"}"), std::string::npos)
      << line;
}

TEST_F(Events, come_back_as_they_were_written) {
  EventWriter writer(path_, false, ticking());
  writer.start("init");
  writer.point("seed", int64_t{7}, {{"stream", std::string("noise")}});
  writer.point("verified", true);
  writer.stop("init");
  const auto events = read();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].key, "init_start");
  EXPECT_EQ(events[0].type, EventType::kIntervalStart);
  EXPECT_EQ(events[0].time_ms, 1001);
  EXPECT_EQ(std::get<int64_t>(events[1].value), 7);
  EXPECT_EQ(std::get<std::string>(events[1].metadata.at("stream")), "noise");
  EXPECT_TRUE(std::get<bool>(events[2].value));
  EXPECT_EQ(events[3].type, EventType::kIntervalEnd);
}

TEST_F(Events, of_a_whole_run_are_in_order) {
  EventWriter writer(path_, false, ticking());
  for (const char* name : {"init", "run"}) {
    writer.start(name);
    writer.stop(name);
  }
  EXPECT_TRUE(problems().empty());
}

TEST_F(Events, of_a_killed_and_resumed_run_are_in_order) {
  {
    EventWriter writer(path_, false, ticking());
    writer.start("init");
    writer.stop("init");
    writer.start("run");
  }
  std::ofstream(path_, std::ios::app) << ":::MLLOG {\"namespace\": \"noise";
  EventWriter writer(path_, true, ticking());
  for (const char* name : {"init", "run"}) {
    writer.start(name);
    writer.stop(name);
  }
  EXPECT_EQ(read().size(), 7U);
  EXPECT_TRUE(problems().empty());
}

TEST_F(Events, start_anew_unless_resumed) {
  EventWriter(path_, false, ticking()).start("init");
  EventWriter(path_, false, ticking()).start("init");
  EXPECT_EQ(read().size(), 1U);
}

TEST_F(Events, out_of_order_are_found) {
  const auto problems_of = [&](const std::function<void(EventWriter&)>& write) {
    EventWriter writer(path_, false, ticking());
    write(writer);
    return problems();
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(problems_of([](EventWriter& w) { w.start("init"), w.stop("init"); }),
            List{"0 run_start events (one)"});
  EXPECT_EQ(problems_of([](EventWriter& w) { w.start("run"), w.stop("run"); }),
            List{"no init_start"});
  EXPECT_EQ(problems_of([](EventWriter& w) {
              w.start("init"), w.start("run"), w.stop("run"), w.stop("init");
            }),
            List{"run_start before init_stop"});
  EXPECT_EQ(problems_of([](EventWriter& w) {
              w.start("init"), w.stop("init"), w.start("run"), w.stop("eval"), w.stop("run");
            }),
            List{"eval_stop without a start"});
  EXPECT_EQ(problems_of([](EventWriter& w) { w.start("init"), w.stop("init"), w.start("run"); }),
            List{"run_start has no stop"});
  EXPECT_TRUE(problems(false).empty()) << "a run that was cut off is in order as far as it goes";
}

TEST_F(Events, of_an_aborted_initialisation_are_whole_without_a_run) {
  EventWriter writer(path_, false, ticking());
  writer.start("init");
  writer.stop("init", {{"status", std::string("aborted")}});
  EXPECT_TRUE(problems().empty());
  writer.start("run");
  EXPECT_EQ(problems(), std::vector<std::string>{"run_start has no stop"});
}

TEST_F(Events, whose_time_runs_backwards_are_found) {
  EventWriter writer(path_, false, ticking());
  writer.start("init");
  writer.stop("init");
  std::vector<Event> events = read();
  events[1].time_ms = events[0].time_ms - 1;
  EXPECT_EQ(event_problems(events, false),
            std::vector<std::string>{"time runs backwards at init_stop"});
}

TEST_F(Events, are_in_order_where_the_clock_is_set_back_or_is_behind_that_of_an_earlier_process) {
  {
    EventWriter writer(path_, false, [this] { return --now_ms_; });
    writer.start("init");
    writer.stop("init");
  }
  now_ms_ = 10;
  EventWriter resumed(path_, true, ticking());
  for (const char* name : {"init", "run"}) {
    resumed.start(name);
    resumed.stop(name);
  }
  EXPECT_EQ(problems(), std::vector<std::string>{});
  EXPECT_EQ(read().back().time_ms, 999);
}

TEST(EventText, names_the_line_of_a_malformed_event) {
  const auto error = [](const std::string& json) -> std::string {
    try {
      (void)read_events("a line of another program\n12:00 :::MLLOG " + json + "\n", "e.mlog");
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const std::string good =
      R"({"namespace":"","time_ms":1,"event_type":"INTERVAL_END","key":"k","value":null,"metadata":{}})";
  EXPECT_EQ(error(good), "none");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    return error(changed.replace(changed.find(from), from.size(), to));
  };
  EXPECT_EQ(error("{").substr(0, 24), "e.mlog:2: not valid JSON");
  EXPECT_EQ(with("INTERVAL_END", "END"), "e.mlog:2: event_type: \"END\"");
  EXPECT_EQ(with("\"time_ms\":1", "\"time_ms\":\"1\""), "e.mlog:2: time_ms: \"1\" (an integer)");
  EXPECT_EQ(with("\"k\"", "\"\""), "e.mlog:2: key: \"\" (a name)");
  EXPECT_EQ(with("{}", "[]"), "e.mlog:2: metadata: [] (an object)");
  EXPECT_EQ(with(",\"metadata\":{}", "").substr(0, 14), "e.mlog:2: keys");
  EXPECT_EQ(with("{}", R"({"a":1,"a":2})"),
            "e.mlog:2: a: this key twice in one object (every key once)");
}

}  // namespace
}  // namespace noisemark::reports
