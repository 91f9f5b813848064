#include "reports/trace/trace.h"

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
  return R"({"traceEvents": [{"cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, )" + time + "}]}";
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
  // Kineto wrote an event without an end like this until 2022.
  const Trace endless = read_text(with_time(R"("ts": 1646000000000000, "dur": -1646000000000000)"));
  EXPECT_EQ(endless.events[0].start, 1646000000000000);
  EXPECT_EQ(endless.events[0].end, 1646000000000000);
}

TEST(TraceReader, reads_events_whatever_is_around_and_within_them) {
  const std::string text =
      R"({"a": [{"cat": "kernel", "dur": 1, "ts": 2}], "traceEvents": [)"
      R"({"args": {"Input": [[1, {"ts": "x"}]], "stream": "7", "b": {"stream": 1}, )"
      R"("correlation": 4.0}, "dur": 1, "ts": 2, "cat": "kernel", "name": "a", "pid": 1, "tid": 1}], "z": {"dur": 1}})";
  const Trace trace = read_text(text);
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.events[0].stream, 7);
  EXPECT_EQ(trace.events[0].correlation, 4);
}

TEST(TraceReader, leaves_out_the_host_from_the_last_step_on_and_what_it_launched) {
  const auto step = [](int number, int start) {
    return R"({"cat": "user_annotation", "pid": 1, "tid": 1, "name": "ProfilerStep#)" +
           std::to_string(number) + R"(", "ts": )" + std::to_string(start) + R"(, "dur": 10},)";
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
  gzFile small = gzopen(path.c_str(), "wb");
  gzwrite(small, text.data(), 100000);
  gzclose(small);
  const std::string cut = read_file(path);
  try {
    static_cast<void>(read_text(cut.substr(0, cut.size() - 50)));
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("trace.json: byte 0 "), std::string::npos)
        << error.what();
  }
}

TEST(TraceReader, refuses_what_is_no_whole_json) {
  expect_refused("", "byte 0: it is cut off (a trace of kineto");
  expect_refused("noise", "byte 1: no JSON: invalid value (a trace of kineto");
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
  expect_refused(with_time(R"("ts": null, "dur": 1)"), "traceEvents[0].ts: null");
  expect_refused(with_time(R"("dur": 1)"), "traceEvents[0].ts: missing");
  expect_refused(with_time(R"("ts": 1, "dur": [])"), "traceEvents[0].dur: a list (a number of mi");
  expect_refused(with_time(R"("ts": 1e300, "dur": 1)"), "traceEvents[0].ts: 1e300");
}

/// An event of kineto's in which `was` stands as `is`, behind one that is whole.
std::string broken(const std::string& was, const std::string& is) {
  std::string event = kernel(100, 20, 3);
  event.replace(event.find(was), was.size(), is);
  return R"({"traceEvents": [)" + std::string(kOperator) + "," + event + kEnd + "]}";
}

// An event that is passed over, or whose stream or thread is not known, is missing from every sum.
TEST(TraceReader, refuses_an_event_that_kineto_does_not_write_so) {
  const std::string at = "traceEvents[1].";
  expect_refused(broken(R"("dur": 20,)", ""), at + "dur: missing (ph, cat, name");
  expect_refused(broken(R"("tid": 7,)", ""), at + "tid: missing");
  expect_refused(broken(R"("tid": 7,)", R"("tid": null,)"), at + "tid: null (a number or a text)");
  expect_refused(broken(R"("name": "gemm")", R"("name": 7)"), at + "name: 7 (a text)");
  expect_refused(broken(R"("ph": "X")", R"("ph": "B")"), at + "ph: B (X)");
  expect_refused(broken(R"("stream": 7)", R"("stream": 7.5)"), at + "args.stream: 7.5 (a whole");
  expect_refused(broken(R"("stream": 7)", R"("stream": [7])"), at + "args.stream: a list");
  expect_refused(broken(R"("stream": 7)", R"("strange": 7)"), at + "args.stream: missing");
  expect_refused(broken(R"("stream": 7)", R"("stream": -1)"), at + "args.stream: -1 (the number");
  expect_refused(broken(R"("correlation": 3)", R"("correlation": true)"),
                 at + "args.correlation: true");
  expect_refused(broken(R"("args": {)", R"("args": 1, "x": {)"), at + "args: 1 (an object)");
  expect_refused(broken(R"("dur": 20)", R"("dur": 20, "dur": 2)"), at + "dur: twice (once)");
  expect_refused(broken(R"("stream": 7)", R"("stream": 7, "stream": 8)"),
                 at + "args.stream: twice");
  expect_refused(broken(R"("dur": 20)", R"("dur": NaN)"), "byte ");
  expect_refused(R"({"traceEvents": [)" + std::string(kOperator) + ",7]}",
                 at.substr(0, at.size() - 1) + ": 7 (an object)");
  expect_refused(R"({"traceEvents": [)" + std::string(kOperator) + ",[]]}",
                 "traceEvents[1]: a list");
  expect_refused(R"({"traceEvents": [)" + std::string(kOperator) + R"(], "traceEvents": []})",
                 "traceEvents: twice (one list)");
}

TEST(TraceReader, takes_what_other_tools_write_into_the_same_file) {
  const Trace trace = read_events(
      R"({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1, "args": {"stream": "x"}},)"
      R"({"ph": "s", "cat": "ac2g", "id": 3, "name": "ac2g", "ts": 1},)"
      R"({"ph": "X", "cat": "Trace", "name": 7, "ts": 1, "dur": 1, "args": null},)" +
      std::string(kOperator));
  EXPECT_EQ(trace.events.size(), 1U);
}

TEST(TraceReader, refuses_what_is_no_file) {
  EXPECT_THROW(static_cast<void>(read_trace("/nowhere/trace.json")), Error);
  EXPECT_THROW(static_cast<void>(read_trace("/")), Error);
}

// The first page of a process is mapped nowhere, so reading it fails.
TEST(TraceReader, says_why_a_file_cannot_be_read_on) {
  try {
    static_cast<void>(read_trace("/proc/self/mem"));
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotRead);
    EXPECT_STREQ(error.what(), "/proc/self/mem: cannot be read: Input/output error");
  }
}

}  // namespace
}  // namespace noisemark::reports::test
