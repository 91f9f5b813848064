// Traces of the tests of HolisticTraceAnalysis, beside what its version 0.6.1 prints for them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "reports/trace/analyses.h"
#include "reports/trace/trace.h"

namespace noisemark::reports::test {
namespace {

/// $NOISEMARK_TRACES, or the folder beside the repository.
std::filesystem::path published(const std::string& name) {
  const char* folder = std::getenv("NOISEMARK_TRACES");
  return std::filesystem::path(folder == nullptr ? NOISEMARK_TRACES : folder) / (name + ".json.gz");
}

template <class Case>
std::string name_of_case(const testing::TestParamInfo<Case>& each) {
  std::string name = each.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct Queue {
  int64_t stream;
  int64_t changes;
  double mean;
  double quartile1;
  double median;
  double quartile3;
  double high;
};

struct Expected {
  const char* name;
  size_t events;
  std::array<int64_t, 4> times;  // idle, compute, other, total, us
  std::array<int64_t, 7> alone;  // by kinds of work, as TraceBreakdown::alone_us from 1 on
  double hidden;                 // %
  std::vector<std::array<int64_t, 4>> idle;  // stream, host, kernel, other, us
  /// These are of cudaLaunchKernel and cuda{Memcpy,Memset}Async: pairs, in calls, on the device,
  /// delays, us; kernels shorter than their call, calls above 50 us, delays above 100 us.
  std::array<int64_t, 7> launches;
  std::vector<Queue> queues;
};

class Published : public testing::TestWithParam<Expected> {
 protected:
  void SetUp() override {
    const auto path = published(GetParam().name);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    trace_ = read_trace(path);
  }
  Trace trace_;
};

TEST_P(Published, breakdown_is_equal_to_the_integer) {
  const Expected& expected = GetParam();
  const TraceBreakdown found = breakdown_of(trace_);
  EXPECT_EQ(trace_.events.size(), expected.events);
  EXPECT_EQ((std::array{found.idle_us, found.compute_us, found.other_us(), found.total_us}),
            expected.times);
  for (size_t i = 0; i < expected.alone.size(); ++i) {
    EXPECT_EQ(found.alone_us.at(i + 1), expected.alone.at(i)) << "kinds " << i + 1;
  }
  EXPECT_NEAR(100 * found.hidden_communication(), expected.hidden, 0.005);  // it prints two digits
  ASSERT_EQ(found.streams.size(), expected.idle.size());
  for (size_t i = 0; i < expected.idle.size(); ++i) {
    const StreamIdle& stream = found.streams[i];
    EXPECT_EQ((std::array{stream.stream, stream.host_us, stream.kernel_us, stream.other_us}),
              expected.idle[i]);
  }
}

TEST_P(Published, launches_by_the_names_it_knows_are_equal_to_the_integer) {
  std::array<int64_t, 7> sums{};
  for (const LaunchRow& row : launches_of(trace_)) {
    const bool is_known = row.call == "cudaLaunchKernel" || row.call == "cudaMemcpyAsync" ||
                          row.call == "cudaMemsetAsync";
    if (!is_known) continue;
    const std::array added{row.launched,      row.host_us,    row.device_us,  row.delay_us,
                           row.short_kernels, row.long_calls, row.long_delays};
    for (size_t i = 0; i < sums.size(); ++i) sums.at(i) += added.at(i);
  }
  EXPECT_EQ(sums, GetParam().launches);
}

TEST_P(Published, queues_are_equal_but_for_the_order_of_equal_times) {
  // It sorts by time with an unstable sort. With launches first, as here, and with begins first the
  // means are up to 0.041 apart and one quartile by 1. Its own are at most 0.021 from ours.
  constexpr double kTies = 0.021;
  const std::vector<QueueRow> rows = queues_of(trace_);
  for (const Queue& expected : GetParam().queues) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& each) { return each.stream == expected.stream; });
    ASSERT_NE(row, rows.end());
    EXPECT_EQ(row->changes, expected.changes);
    EXPECT_NEAR(row->mean, expected.mean, kTies);
    EXPECT_EQ(row->quartile1, expected.quartile1);
    EXPECT_EQ(row->median, expected.median);
    EXPECT_NEAR(row->quartile3, expected.quartile3, row->high > 1000 ? 1 : 0);
    EXPECT_EQ(row->high, expected.high);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Traces, Published,
    testing::Values(Expected{"ns_resolution_trace",
                             36209,
                             {10113, 372150, 2371, 384634},
                             {372150, 0, 0, 2371, 0, 0, 0},
                             0,
                             {{7, 1709, 8404, 0}},
                             {4876, 192088, 374521, 322052817, 2752, 663, 4713},
                             {{7, 9752, 812.413454, 764.75, 973, 1020, 1022}}},
                    // Stream 7 has launches of graphs, which it leaves out of its queue.
                    Expected{"negative_queue_length_values_check",
                             52923,
                             {705853, 143836, 166865, 1016554},
                             {138794, 134025, 1871, 32246, 3171, 594, 0},
                             1.37,
                             {{7, 0, 17159, 691231},
                              {25, 628598, 85, 0},
                              {27, 792592, 1000, 7135},
                              {84, 62901, 12, 665192},
                              {285, 0, 0, 675305},
                              {363, 0, 75, 673182}},
                             {5224, 684500, 233886, 635597575, 1753, 110, 5083},
                             {{25, 56, 1.357143, 0, 1, 2, 4},
                              {27, 592, 3.570946, 1, 2, 5, 17},
                              {84, 56, 1.464286, 1, 1, 2, 3},
                              {285, 32, 2.75, 2, 3, 3, 4},
                              {363, 32, 2.75, 2, 3, 3, 4}}},
                    Expected{"trace_diff-control",
                             62255,
                             {62119, 234760, 86525, 383404},
                             {151685, 69110, 55152, 16328, 20762, 1087, 7161},
                             47.03,
                             {{7, 102154, 14226, 32183},
                              {20, 346996, 621, 7470},
                              {21, 237710, 71, 0},
                              {22, 271786, 1253, 0}},
                             {7875, 115050, 413947, 15865017, 3067, 25, 5111},
                             {{7, 14940, 35.432396, 1, 17, 43, 287},
                              {20, 470, 2.576596, 1, 1, 4, 10},
                              {21, 100, 0.76, 0, 1, 1, 2},
                              {22, 240, 10.591667, 5, 10, 16, 22}}},
                    Expected{"critical_path-cuda_event_sync",
                             32,
                             {207, 49, 7, 263},
                             {49, 0, 0, 2, 0, 0, 0},
                             0,
                             {{7, 212, 0, 0}},
                             {5, 96, 51, 5, 3, 0, 0},
                             {{7, 10, 0.5, 0, 0.5, 1, 1}}},
                    Expected{"critical_path-cuda_event_sync_multi_stream",
                             56,
                             {19132, 369, 5, 19506},
                             {369, 0, 0, 3, 0, 0, 0},
                             0,
                             {{20, 32, 0, 0}, {24, 0, 15, 0}, {28, 0, 15, 0}},
                             {6, 97, 372, 18, 3, 0, 0},
                             {{20, 4, 0.5, 0, 0.5, 1, 1},
                              {24, 4, 0.5, 0, 0.5, 1, 1},
                              {28, 4, 1, 0.75, 1, 1.25, 2}}},
                    Expected{"critical_path-simple_add",
                             837,
                             {16414376, 10670, 39293, 16464339},
                             {10670, 0, 0, 39088, 0, 0, 0},
                             0,
                             {{7, 15976739, 91, 0}, {20, 13582776, 8, 0}},
                             {98, 4260778, 49816, 10264, 37, 10, 22},
                             {{7, 182, 0.917582, 0, 1, 1, 5}}},
                    Expected{"critical_path-alexnet",
                             867,
                             {12929684, 10630, 55697, 12996011},
                             {10630, 0, 0, 55511, 0, 0, 0},
                             0,
                             {{7, 12855007, 104, 0}, {20, 12011718, 3, 0}},
                             {98, 3113616, 66203, 39283, 32, 11, 43},
                             {{20, 14, 0.642857, 0, 1, 1, 2}}}),
    name_of_case<Expected>);

struct ExpectedPath {
  const char* name;
  TraceWindow window;
  std::array<size_t, 4> sizes;        // nodes and edges of the graph, nodes and events of the path
  std::array<int64_t, 4> by_kind_us;  // host, device, launch, gap
  std::array<double, 4> what_if_us;
};

class PublishedPath : public testing::TestWithParam<ExpectedPath> {};

TEST_P(PublishedPath, is_equal_to_the_integer_and_so_are_the_what_ifs) {
  const ExpectedPath& expected = GetParam();
  const auto file = published(expected.name);
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const CriticalPath path = critical_path_of(read_trace(file), expected.window, file.string());
  EXPECT_EQ((std::array{path.nodes, path.edges, path.path_nodes, path.path_events}),
            expected.sizes);
  for (size_t i = 0; i < expected.by_kind_us.size(); ++i) {
    EXPECT_EQ(path.by_kind_us.at(i), expected.by_kind_us.at(i)) << i;
    EXPECT_EQ(path.what_if.at(i).us, expected.what_if_us.at(i)) << path.what_if.at(i).change;
  }
  EXPECT_EQ(path.us, std::accumulate(expected.by_kind_us.begin(), expected.by_kind_us.end(), 0));
}

constexpr const char* kForward = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";

INSTANTIATE_TEST_SUITE_P(Traces, PublishedPath,
                         testing::Values(ExpectedPath{"critical_path-simple_add",
                                                      {kForward, 1},
                                                      {414, 415, 315, 159},
                                                      {241190, 508, 17, 9},
                                                      {241697, 241697, 121129, 241707}},
                                         ExpectedPath{"critical_path-alexnet",
                                                      {kForward, 1},
                                                      {418, 421, 149, 77},
                                                      {32042, 3712, 30, 50},
                                                      {34455, 34455, 19813, 35804}},
                                         ExpectedPath{"critical_path-cuda_event_sync",
                                                      {"ProfilerStep", 0},
                                                      {54, 57, 40, 21},
                                                      {2365, 36, 10, 0},
                                                      {2393, 2377, 1233.5, 2401}},
                                         ExpectedPath{"critical_path-cuda_event_sync_multi_stream",
                                                      {},
                                                      {78, 82, 59, 31},
                                                      {1025, 124, 14, 15},
                                                      {1116, 1068, 667.5, 1164}}),
                         name_of_case<ExpectedPath>);

TEST(PublishedGraphs, launches_of_graphs_are_counted) {
  const auto path = published("negative_queue_length_values_check");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Trace trace = read_trace(path);
  const std::vector<LaunchRow> rows = launches_of(trace);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const auto& each) { return each.call == "cudaGraphLaunch"; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->calls, 56);
  EXPECT_EQ(row->launched, 276);
  EXPECT_EQ(queues_of(trace)[0].changes, 9680 + 2 * 276);  // its own figure, and the graphs
  EXPECT_EQ(unpaired_of(trace), 0);
}

}  // namespace
}  // namespace noisemark::reports::test
