#include "reports/trace/reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "reports/base/error.h"
#include "tests/reports/trace/written.h"

namespace noisemark::reports::test {
namespace {

constexpr const char* kOperator =
    R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 10, "dur": 5})";

void expect_refused(const std::string& text, const std::string& what) {
  try {
    static_cast<void>(read_text(text));
    FAIL() << "was read: " << text.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("trace.json: " + what), std::string::npos)
        << error.what();
  }
}

std::string with_time(const std::string& time) {
  return R"({"traceEvents": [{"cat": "cpu_op", "name": "a", )" + time + "}]}";
}

TEST(TraceReader, keeps_what_an_event_says) {
  const Trace trace = read_events(kernel(100, 20, 3, "gemm", 9) + call(90, 4, 3) + kOperator);
  ASSERT_EQ(trace.events.size(), 3U);
  const TraceEvent& event = trace.events[0];
  EXPECT_EQ(trace.name_of(event), "gemm");
  EXPECT_EQ(event.category, TraceCategory::kKernel);
  EXPECT_EQ(event.start, 100);
  EXPECT_EQ(event.end, 120);
  EXPECT_EQ(event.stream, 9);
  EXPECT_EQ(event.correlation, 3);
  EXPECT_EQ(event.partner, 1);
  EXPECT_EQ(trace.events[1].partner, 0);
  EXPECT_EQ(trace.names[trace.events[2].tid], "2");
  EXPECT_EQ(trace.events[2].partner, -1);
}

TEST(TraceReader, rounds_starts_up_and_ends_down) {
  const Trace trace = read_text(with_time(R"("ts": 1712195495519689.25, "dur": 1.5)"));
  EXPECT_EQ(trace.events[0].start, 1712195495519690);
  EXPECT_EQ(trace.events[0].end, 1712195495519690);
}

TEST(TraceReader, gives_no_event_a_length_below_0) {
  const Trace trace = read_text(with_time(R"("ts": 1.2, "dur": 0.5)"));
  EXPECT_EQ(trace.events[0].start, 2);
  EXPECT_EQ(trace.events[0].end, 2);
  expect_refused(with_time(R"("ts": 9, "dur": -7)"),
                 "traceEvents[0].dur: -7 (a number of microseconds, not below 0)");
}

TEST(TraceReader, reads_events_whatever_is_around_and_within_them) {
  const std::string text =
      R"({"a": [{"cat": "kernel", "dur": 1, "ts": 2}], "traceEvents": [7, [], )"
      R"({"args": {"Input": [[1, {"ts": "x"}]], "stream": "7", "b": {"stream": 1}, )"
      R"("correlation": 4.0}, "dur": 1, "ts": 2, "cat": "kernel"}], "z": {"dur": 1}})";
  const Trace trace = read_text(text);
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.events[0].stream, 7);
  EXPECT_EQ(trace.events[0].correlation, 4);
}

TEST(TraceReader, leaves_out_the_host_from_the_last_step_on_and_what_it_launched) {
  const auto step = [](int number, int start) {
    return R"({"cat": "user_annotation", "name": "ProfilerStep#)" + std::to_string(number) +
           R"(", "ts": )" + std::to_string(start) + R"(, "dur": 10},)";
  };
  const std::string events = step(1, 0) + call(1, 1, 1) + kernel(30, 5, 1) + call(12, 1, 2) +
                             kernel(40, 5, 2) + kernel(50, 5, 3);
  EXPECT_EQ(read_events(step(1, 0) + events + kEnd).left_out, "");
  const Trace trace = read_events(events + step(2, 11) + kEnd);
  EXPECT_EQ(trace.left_out, "ProfilerStep#2");
  ASSERT_EQ(trace.events.size(), 3U);  // the first step, its call and its kernel
  EXPECT_EQ(trace.events[2].start, 30);
}

TEST(TraceReader, unpacks_gzip_and_says_where_that_is_cut_off) {
  const suite::test::TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  std::string text = R"({"traceEvents": [)";
  for (int i = 0; i < 20000; ++i) text += kernel(i * 10, (i * 7919) % 10, i);
  text += std::string(kEnd) + "]}";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_trace(path).events.size(), 20000U);

  const std::string packed = read_file(path);
  expect_refused(packed.substr(0, packed.size() / 2), "byte ");
}

TEST(TraceReader, refuses_what_is_no_whole_json) {
  expect_refused("", "byte 0: it is cut off (a trace of kineto");
  expect_refused("noise", "byte ");
  expect_refused(R"({"traceEvents": [)" + std::string(kOperator), "byte 106: it is cut off");
  expect_refused(R"({"traceEvents": [)" + std::string(kOperator) + "]} more", "byte ");
  expect_refused(std::string(100000, '['), "more than 200 levels of brackets");
}

TEST(TraceReader, refuses_a_trace_of_another_tool) {
  expect_refused("[]", "traceEvents: no such list");
  expect_refused(R"({"traceEvents": {}})", "traceEvents: no such list");
  expect_refused(R"({"traceEvents": []})", "traceEvents: no event with a category and a duration");
  expect_refused(R"({"traceEvents": [{"cat": "v8", "ts": 1, "dur": 2}]})",
                 "traceEvents: only events of other tools: v8 (a trace of kineto");
}

TEST(TraceReader, refuses_times_that_are_no_numbers) {
  expect_refused(with_time(R"("ts": "soon", "dur": 1)"),
                 "traceEvents[0].ts: soon (a number of microseconds)");
  expect_refused(with_time(R"("ts": null, "dur": 1)"), "traceEvents[0].ts: no number");
  expect_refused(with_time(R"("dur": 1)"), "traceEvents[0].ts: missing");
  expect_refused(with_time(R"("ts": 1, "dur": [])"), "traceEvents: no event with");
  expect_refused(with_time(R"("ts": 1e300, "dur": 1)"), "traceEvents[0].ts: 1e300");
}

TEST(TraceReader, refuses_what_is_no_file) {
  EXPECT_THROW(static_cast<void>(read_trace("/nowhere/trace.json")), Error);
  EXPECT_THROW(static_cast<void>(read_trace("/")), Error);
}

}  // namespace
}  // namespace noisemark::reports::test
