// Each figure is worked out by hand from the spans in the test.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "reports/base/error.h"
#include "reports/trace/analyses.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/trace/written.h"

namespace noisemark::reports::test {
namespace {

TEST(TraceBreakdown, spans_that_overlap_count_once_and_by_what_ran_beside_what) {
  const TraceBreakdown found = breakdown_of(read_events(
      kernel(0, 20, 1) + kernel(10, 20, 2, "ncclDevKernel_AllReduce", 8) +
      kernel(15, 10, 3, "Memcpy HtoD (Pageable -> Device)", 9) + kernel(50, 10, 4) + kEnd));
  EXPECT_EQ(found.total_us, 60);
  EXPECT_EQ(found.idle_us, 20);          // 30..50
  EXPECT_EQ(found.compute_us, 30);       // 0..20, 50..60
  EXPECT_EQ(found.other_us(), 10);       // 20..30
  EXPECT_EQ(found.alone_us[0b001], 20);  // 0..10, 50..60
  EXPECT_EQ(found.alone_us[0b010], 5);   // 25..30
  EXPECT_EQ(found.alone_us[0b100], 0);
  EXPECT_EQ(found.alone_us[0b011], 5);  // 10..15
  EXPECT_EQ(found.alone_us[0b110], 5);  // 20..25
  EXPECT_EQ(found.alone_us[0b111], 5);  // 15..20
  EXPECT_EQ(found.of_kind_us(TraceWork::kCommunication), 20);
  EXPECT_DOUBLE_EQ(found.hidden_communication(), 0.5);
}

TEST(TraceBreakdown, a_wait_is_busy_and_no_work) {
  const std::string wait =
      R"({"cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 20, "dur": 10, )"
      R"("args": {"stream": 7, "correlation": 2}},)";
  const TraceBreakdown found = breakdown_of(read_events(kernel(0, 10, 1) + wait + kEnd));
  EXPECT_EQ(found.total_us, 30);
  EXPECT_EQ(found.idle_us, 10);
  EXPECT_EQ(found.compute_us, 10);
  EXPECT_EQ(found.other_us(), 10);
}

TEST(TraceBreakdown, says_why_each_stream_was_idle) {
  const TraceBreakdown found = breakdown_of(
      read_events(call(0, 1, 1) + kernel(10, 10, 1) +   // ends at 20
                  call(1, 1, 2) + kernel(25, 10, 2) +   // the launch is in time, 5 us later: kernel
                  call(2, 1, 3) + kernel(65, 10, 3) +   // 30 us later: other
                  call(80, 1, 4) + kernel(90, 10, 4) +  // the launch comes after 75: host, 15 us
                  kernel(0, 1, 5, "gemm", 8) + kEnd));
  ASSERT_EQ(found.streams.size(), 2U);
  EXPECT_EQ(found.streams[0].stream, 7);
  EXPECT_EQ(found.streams[0].events, 4);
  EXPECT_EQ(found.streams[0].kernel_us, 5);
  EXPECT_EQ(found.streams[0].other_us, 30);
  EXPECT_EQ(found.streams[0].host_us, 15);
  EXPECT_EQ(found.streams[1].host_us + found.streams[1].kernel_us + found.streams[1].other_us, 0);
}

TEST(TraceLaunches, a_call_that_launches_a_graph_stands_for_all_of_it) {
  const Trace trace = read_events(call(0, 60, 1, "cudaGraphLaunch") + kernel(50, 10, 1) +
                                  kernel(170, 70, 1) + call(70, 5, 2, "cuLaunchKernelEx") +
                                  kernel(300, 4, 2) + kernel(310, 4, 9) + kEnd);
  const std::vector<LaunchRow> rows = launches_of(trace);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].call, "cudaGraphLaunch");
  EXPECT_EQ(rows[0].calls, 1);
  EXPECT_EQ(rows[0].launched, 2);
  EXPECT_EQ(rows[0].host_us, 60);
  EXPECT_EQ(rows[0].device_us, 80);
  EXPECT_EQ(rows[0].delay_us, 110);  // 0 for the one that began within the call, and 170 - 60
  EXPECT_EQ(rows[0].short_kernels, 1);
  EXPECT_EQ(rows[0].long_calls, 1);
  EXPECT_EQ(rows[0].long_delays, 1);
  EXPECT_EQ(rows[1].call, "cuLaunchKernelEx");
  EXPECT_EQ(rows[1].delay_us, 225);
  EXPECT_EQ(unpaired_of(trace), 1);
}

TEST(TraceLaunches, a_queue_holds_what_was_launched_and_has_not_begun) {
  // Lengths after each change: 1 at 0, 2 at 1, 1 at 5, and in 6 at once 2 and 1, 0 at 9.
  const Trace trace = read_events(call(0, 1, 1) + call(1, 1, 2) + call(6, 1, 3) + kernel(5, 1, 1) +
                                  kernel(6, 1, 2) + kernel(9, 1, 3) + kEnd);
  const std::vector<QueueRow> rows = queues_of(trace);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].changes, 6);
  EXPECT_DOUBLE_EQ(rows[0].mean, 7.0 / 6);
  EXPECT_DOUBLE_EQ(rows[0].sd, std::sqrt((11 - 49.0 / 6) / 5));  // squares sum to 11
  EXPECT_EQ(rows[0].low, 0);
  EXPECT_EQ(rows[0].quartile1, 1);  // the sorted 0 1 1 1 2 2 at the places 1.25, 2.5 and 3.75
  EXPECT_EQ(rows[0].median, 1);
  EXPECT_EQ(rows[0].quartile3, 1.75);
  EXPECT_EQ(rows[0].high, 2);
}

/// An operator on thread 1.
std::string op(int start, int duration, const std::string& name) {
  return R"({"cat": "cpu_op", "name": ")" + name + R"(", "pid": 1, "tid": 1, "ts": )" +
         std::to_string(start) + R"(, "dur": )" + std::to_string(duration) + "},";
}

int64_t us_of(const CriticalPath& path, SpanEdge kind) {
  return path.by_kind_us.at(static_cast<size_t>(kind));
}

TEST(TraceCriticalPath, leads_over_the_device_where_that_is_slower_than_the_host) {
  // The host takes 10 + 10; the kernels 100 + 100 with a gap of 5, begun 8 after the first call.
  const Trace trace =
      read_events(op(0, 10, "a") + call(2, 4, 1) + op(20, 10, "b") + call(22, 4, 2) +
                  kernel(10, 100, 1, "slow") + kernel(115, 100, 2, "slow") + kEnd);
  const CriticalPath path = critical_path_of(trace, {}, "");
  EXPECT_EQ(path.us, 2 + 8 + 100 + 5 + 100);
  EXPECT_EQ(us_of(path, SpanEdge::kHost), 2);
  EXPECT_EQ(us_of(path, SpanEdge::kLaunch), 8);
  EXPECT_EQ(us_of(path, SpanEdge::kDevice), 200);
  EXPECT_EQ(us_of(path, SpanEdge::kGap), 5);
  EXPECT_EQ(path.longest.front().name, "slow");
  EXPECT_EQ(path.what_if.at(1).us, 20);  // the kernels in no time: 10 + 10 on the host
}

TEST(TraceCriticalPath, a_wait_for_the_stream_leads_back_to_the_host) {
  const std::string wait =
      R"({"cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 10, "dur": 92, )"
      R"("args": {"stream": 7, "correlation": 2}},)";
  const Trace trace = read_events(op(0, 200, "a") + call(2, 4, 1) + kernel(8, 92, 1, "slow") +
                                  call(9, 95, 2, "cudaStreamSynchronize") + wait + kEnd);
  const CriticalPath path = critical_path_of(trace, {}, "");
  EXPECT_EQ(path.us, 2 + 6 + 92 + 96);  // to the call, launch, kernel, and from the wait's end, 104
  EXPECT_EQ(us_of(path, SpanEdge::kDevice), 92);
}

TEST(TraceCriticalPath, of_a_window_is_of_what_begins_within) {
  const std::string window =
      R"({"cat": "user_annotation", "name": "w#1", "pid": 1, "tid": 1, "ts": 50, "dur": 50},)";
  const Trace trace = read_events(op(0, 40, "a") + window + op(60, 7, "b") + kEnd);
  const CriticalPath path = critical_path_of(trace, {"w#"}, "");
  EXPECT_EQ(path.us, 7);
  EXPECT_EQ(path.window, "w#1");
  EXPECT_EQ(critical_path_of(trace, {"a"}, "").us, 40);
  try {
    static_cast<void>(critical_path_of(trace, {"w#", 1}, "t.json"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "t.json: w#: 1 in the trace (at least 2)");
  }
}

TEST(SpanGraph, has_no_path_where_spans_wait_in_a_circle) {
  SpanGraph graph(2);
  graph.add({0, 1, SpanEdge::kHost, 5});
  EXPECT_EQ(graph.longest().us, 5);
  graph.add({0, 1, SpanEdge::kHost, -3});  // takes its place; less than no time is none
  EXPECT_EQ(graph.longest().us, 0);
  graph.add({1, 0, SpanEdge::kWait, 0});
  EXPECT_TRUE(graph.longest().edges.empty());
}

TEST(TracePage, begins_with_where_the_time_went) {
  const Trace trace = read_events(call(0, 5, 1) + kernel(10, 30, 1, "gemm<8>|x") + call(50, 5, 2) +
                                  kernel(100, 10, 2, "ncclKernel") + kEnd);
  const std::string page = trace_markdown("a_b.json", trace, critical_path_of(trace, {}, ""));
  EXPECT_EQ(page.find("# Trace: a_b.json\n\n"), 0U) << page;
  EXPECT_NE(page.find("idle for **60.0\u00a0%** and computed for **30.0\u00a0%**"),
            std::string::npos)
      << page;
  for (const char* part : {"## Where the time went", "## Why streams were idle", "## Launches",
                           "## Length of the queues", "## Critical path",
                           "## Longest on the device", "`gemm<8>\\|x`"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << page;
  }
  const std::string json = trace_json(trace, critical_path_of(trace, {}, ""));
  EXPECT_NE(json.find(R"("idle_us": 60)"), std::string::npos) << json;
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_trace_test
TEST(TracePage, publishes_the_fields_of_its_json) {
  test::expect_published(NOISEMARK_TRACE_ROOM, {trace_document()});
}

TEST(TracePage, summarises_a_trace_without_a_device) {
  const Trace trace = read_events(
      R"({"cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 7})");
  const std::string page = trace_markdown("cpu.json", trace, critical_path_of(trace, {}, ""));
  EXPECT_NE(page.find("No event ran on a device. On the host there are 1 events"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("aten::add"), std::string::npos) << page;
}

}  // namespace
}  // namespace noisemark::reports::test
