#include "reports/profile/profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "reports/base/error.h"
#include "reports/profile/recording.h"
#include "reports/trace/trace.h"
#include "tests/reports/golden_file.h"

/// The tables of a profile, from events made by hand.
namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

ProfiledEvent event(const std::string& name, int64_t start_ns, int64_t end_ns,
                    ProfiledKind kind = ProfiledKind::kOperator) {
  static uint64_t next = 1;
  ProfiledEvent made;
  made.name = name;
  made.start_ns = start_ns;
  made.end_ns = end_ns;
  made.kind = kind;
  made.thread = 1;
  made.id = next++;
  made.on_device = kind == ProfiledKind::kWork;
  return made;
}

Profile tables(const Recording& recording) {
  Profile profile;
  add_tables(recording, profile);
  return profile;
}

const OperatorTimes& row_of(const Profile& profile, const std::string& name) {
  for (const OperatorTimes& row : profile.operators) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(name);
}

const LayerTimes& row_of(const std::vector<LayerTimes>& rows, const std::string& name) {
  for (const LayerTimes& row : rows) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(name);
}

/// A convolution with its gradient in a step: forward from 10 to 50, backward from 60 to 95.
Recording step() {
  Recording recording;
  recording.steps = 1;
  using Kind = ProfiledKind;
  recording.events = {event("ProfilerStep#0", 0, 100, Kind::kSpan),
                      event("phase forward", 5, 55, Kind::kSpan),
                      event("layer block", 8, 54, Kind::kSpan),
                      event("layer block.conv", 9, 52, Kind::kSpan),
                      event("aten::conv2d", 10, 50),
                      event("aten::convolution", 12, 48),
                      event("aten::empty", 14, 16),
                      event("phase backward", 55, 99, Kind::kSpan),
                      event("autograd::engine::evaluate_function: ConvolutionBackward0", 60, 95),
                      event("ConvolutionBackward0", 62, 90, Kind::kBackward),
                      event("aten::convolution_backward", 65, 85)};
  recording.events[4].sequence = 7;
  recording.events[5].sequence = 7;
  recording.events[8].sequence = 7;
  recording.events[9].sequence = 7;
  recording.events[9].forward_thread = 1;
  recording.memory = {
      {15, 64, 1, false}, {70, 32, 1, false}, {80, -64, 1, false}, {97, -32, 1, false}};
  recording.visits = {{"block", 7, 8}, {"block.conv", 7, 8}};
  return recording;
}

TEST(Profile, tells_the_self_time_and_memory_of_an_operator_from_what_is_within_it) {
  const Profile profile = tables(step());
  const OperatorTimes& outer = row_of(profile, "aten::conv2d");
  EXPECT_EQ(outer.calls, 1);
  EXPECT_EQ(outer.host_ns, 40);
  EXPECT_EQ(outer.self_host_ns, 4);
  EXPECT_EQ(outer.host_bytes, 64);
  EXPECT_EQ(outer.self_host_bytes, 0);
  EXPECT_EQ(row_of(profile, "aten::convolution").self_host_ns, 34);
  EXPECT_EQ(row_of(profile, "aten::empty").self_host_bytes, 64);
  EXPECT_EQ(row_of(profile, "aten::convolution_backward").self_host_bytes, -32);
  EXPECT_EQ(row_of(profile, "ProfilerStep*").kind, "span");
}

TEST(Profile, joins_a_gradient_with_the_last_operator_that_began_under_its_number) {
  const Profile profile = tables(step());
  ASSERT_EQ(profile.joined.size(), 1U);
  const JoinedTimes& row = profile.joined.front();
  EXPECT_EQ(row.forward, "aten::convolution");
  EXPECT_EQ(row.backward, "ConvolutionBackward0");
  EXPECT_EQ(row.forward_host_ns, 36);
  EXPECT_EQ(row.backward_host_ns, 28);
}

TEST(Profile, shares_the_time_of_a_step_out_over_layers_blocks_and_phases) {
  const Profile profile = tables(step());
  const LayerTimes& layer = row_of(profile.layers, "block.conv");
  EXPECT_EQ(layer.calls, 1);
  EXPECT_EQ(layer.forward_host_ns, 43);
  EXPECT_EQ(layer.backward_host_ns, 35) << "with what the engine does around the node";
  EXPECT_EQ(layer.host_bytes, 32);
  EXPECT_EQ(row_of(profile.layers, "block").forward_host_ns, 3);
  EXPECT_EQ(row_of(profile.blocks, "block").host_ns(), 81);
  EXPECT_EQ(row_of(profile.layers, "(forward)").host_ns(), 4);
  EXPECT_EQ(row_of(profile.layers, "(backward)").backward_host_ns, 9);
  EXPECT_EQ(row_of(profile.layers, "(backward)").forward_host_ns, 0);
  for (const auto* rows : {&profile.layers, &profile.blocks}) {
    int64_t sum = 0;
    for (const LayerTimes& row : *rows) sum += row.host_ns();
    EXPECT_EQ(sum, 100) << "the whole step";
  }
}

TEST(Profile, gives_the_time_on_a_device_to_the_operator_around_the_launch) {
  Recording recording;
  recording.steps = 1;
  recording.has_device = true;
  recording.events = {event("aten::linear", 0, 30), event("aten::addmm", 5, 25),
                      event("cudaLaunchKernel", 10, 12, ProfiledKind::kCall),
                      event("gemm", 40, 90, ProfiledKind::kWork)};
  recording.events[2].thread = 4711;  // the device's library numbers threads otherwise
  for (const size_t launched : {2U, 3U})
    recording.events[launched].launched_by = recording.events[1].id;
  const Profile profile = tables(recording);
  EXPECT_EQ(row_of(profile, "aten::linear").device_ns, 50);
  EXPECT_EQ(row_of(profile, "aten::linear").self_device_ns, 0);
  EXPECT_EQ(row_of(profile, "aten::addmm").self_device_ns, 50);
  EXPECT_EQ(row_of(profile, "aten::addmm").self_host_ns, 18) << "less the call";
  EXPECT_EQ(row_of(profile, "gemm").kind, "device");
  EXPECT_EQ(profile.layers.front().device_ns(), 50);
}

TEST(Profile, counts_an_event_that_is_alone_within_one_of_its_name_once) {
  Recording recording;
  recording.steps = 1;
  recording.events = {event("aten::mul", 0, 30), event("aten::mul", 2, 20),
                      event("aten::empty", 5, 10)};
  const Profile profile = tables(recording);
  EXPECT_EQ(row_of(profile, "aten::mul").calls, 1);
  EXPECT_EQ(row_of(profile, "aten::mul").self_host_ns, 25);
}

TEST(ProfiledMoment, names_the_operators_layer_and_phase_around_an_instant) {
  const std::vector<ProfiledMoment> moments = moments_of(step(), {2, 15, 53, 70, 97, 100});
  EXPECT_EQ(moments[0].phase, "between phases");
  EXPECT_EQ(moments[1].operators, "aten::conv2d > aten::empty");
  EXPECT_EQ(moments[1].layer, "block.conv");
  EXPECT_EQ(moments[1].phase, "forward");
  EXPECT_EQ(moments[2].operators, "") << "no operator runs";
  EXPECT_EQ(moments[2].layer, "block");
  EXPECT_EQ(moments[3].operators, "ConvolutionBackward0 > aten::convolution_backward");
  EXPECT_EQ(moments[3].layer, "block.conv") << "that of the forward pass";
  EXPECT_EQ(moments[3].phase, "backward");
  EXPECT_EQ(moments[4].layer, "");
  EXPECT_EQ(moments[5].phase, "between phases") << "an end belongs to nothing";
}

TEST(ProfiledMoment, is_of_the_thread_whose_innermost_event_began_last) {
  Recording recording;
  recording.events = {event("aten::wait", 0, 100), event("aten::mul", 20, 40)};
  recording.events[1].thread = 2;
  const std::vector<ProfiledMoment> moments = moments_of(recording, {10, 30, 50});
  EXPECT_EQ(moments[0].operators, "aten::wait");
  EXPECT_EQ(moments[1].operators, "aten::mul");
  EXPECT_EQ(moments[2].operators, "aten::wait");
}

MemoryCounter counter(int64_t time_ns, int64_t weights, int64_t activations) {
  return {time_ns, {{"weights", weights}, {"activations", activations}}};
}

TEST(MemoryTimeline, has_the_last_step_with_its_moments) {
  Recording recording = step();
  ProfiledEvent before = event("ProfilerStep#0", -200, -100, ProfiledKind::kSpan);
  recording.events.insert(recording.events.begin(), before);
  const MemoryTimeline timeline =
      memory_timeline(recording, {counter(-150, 9, 9), counter(15, 1, 64), counter(70, 1, 96)});
  EXPECT_EQ(timeline.owners, (std::vector<std::string>{"weights", "activations"}));
  ASSERT_EQ(timeline.points.size(), 2U);
  EXPECT_DOUBLE_EQ(timeline.points[0].time_s, 15e-9);
  EXPECT_EQ(timeline.points[1].by_category, (std::vector<int64_t>{1, 96}));
  EXPECT_EQ(timeline.points[1].layer, "block.conv");
  EXPECT_EQ(section_of(timeline).peak_bytes, 97);
  EXPECT_TRUE(memory_timeline(recording, {}).points.empty());
}

TEST(MemoryTimeline, keeps_the_highest_of_instants_that_a_plot_cannot_tell_apart) {
  Recording recording;
  recording.events = {event("ProfilerStep#0", 0, 4'000'000'000, ProfiledKind::kSpan)};
  const MemoryTimeline timeline =
      memory_timeline(recording, {counter(3'000'000'000, 1, 1), counter(3'000'000'100, 1, 9),
                                  counter(3'000'000'200, 1, 3), counter(3'100'000'000, 1, 2)});
  ASSERT_EQ(timeline.points.size(), 2U);
  EXPECT_EQ(timeline.points[0].by_category.back(), 9);
}

TEST(MemoryTimeline, keeps_the_peak_where_there_are_too_many_instants) {
  Recording recording;
  recording.events = {event("ProfilerStep#0", 0, 1'000'000, ProfiledKind::kSpan)};
  std::vector<MemoryCounter> counters;
  for (int64_t i = 0; i < 1000; ++i) counters.push_back(counter(1000 * i, 1, i == 321 ? 5000 : i));
  const MemoryTimeline timeline = memory_timeline(recording, counters, 10);
  EXPECT_LE(timeline.points.size(), 10U);
  EXPECT_EQ(section_of(timeline).peak_bytes, 5001);
}

TEST(MemoryTimeline, is_written_with_a_point_on_each_line) {
  EXPECT_EQ(memory_timeline_json(memory_timeline(step(), {counter(15, 1, 64)})),
            "{\n  \"schema\": {\"name\": \"noisemark.memory_timeline\", \"version\": \"1.0.0\"},\n"
            "  \"owners\": [\"weights\", \"activations\"],\n  \"points\": [\n"
            "    {\"time_s\": 1.5e-08, \"by_category\": [1, 64], "
            "\"operator\": \"aten::conv2d > aten::empty\", \"layer\": \"block.conv\", "
            "\"phase\": \"forward\"}\n  ]\n}\n");
}

TEST(ProfilePage, shows_the_memory_of_a_step_or_why_there_is_no_plot) {
  Profile profile = tables(step());
  profile.steps = 1;
  const std::string without = profile_markdown(profile);
  EXPECT_EQ(without.find("## Memory by owner"), std::string::npos);
  const Plots drawn{{{"Memory by owner over one step", "plots/memory.svg"}}, ""};
  EXPECT_NE(
      profile_markdown(profile, drawn)
          .find("\n## Memory by owner\n\n![Memory by owner over one step](plots/memory.svg)\n"),
      std::string::npos);
  EXPECT_NE(profile_markdown(profile, {{}, "gnuplot is not installed"})
                .find("\nPlots were left out: gnuplot is not installed.\n"),
            std::string::npos);
}

TEST(ProfilePage, says_what_is_asked_of_the_profilers_cost_and_what_more_of_it_means) {
  Profile profile = tables(step());
  profile.steps = 1;
  const auto says = [&](double ratio, const char* words) {
    profile.cost = {5, 0.1, 0.1 * ratio, ratio};
    return profile_markdown(profile).find(words) != std::string::npos;
  };
  EXPECT_TRUE(says(1.1, "is **1.100** (at most 1.10 is asked of the profiler). The profile"));
  EXPECT_TRUE(says(1.142,
                   "is **1.142**, more than the 1.10 that is asked of the profiler: small "
                   "operators look slower than they are. The profile"));
}

TEST(ProfilePage, shows_the_roofline_above_its_table) {
  Profile profile = tables(step());
  profile.steps = 1;
  profile.roofline.operators = {{"aten::mm", "", "float32", 1, 0.002, 1e9, 1e6, 0.001, true}};
  const Plots drawn{{{"Roofline", "plots/roofline.svg"}}, ""};
  EXPECT_NE(profile_markdown(profile, drawn)
                .find("of a profiled step.\n\n![Roofline](plots/roofline.svg)\n\n| operator"),
            std::string::npos)
      << profile_markdown(profile, drawn);
}

TEST(Profile, tells_operators_apart_by_shapes_where_they_were_recorded) {
  Recording recording;
  recording.steps = 1;
  recording.events = {event("aten::mul", 0, 10), event("aten::mul", 10, 30)};
  recording.events[0].shapes = "[[2, 3]]";
  recording.events[1].shapes = "[[4]]";
  const Profile profile = tables(recording);
  ASSERT_EQ(profile.operators.size(), 2U);
  EXPECT_EQ(profile.operators.front().shapes, "[[4]]") << "it took longer";
}

TEST(Profile, keeps_memory_that_changed_outside_of_all_events) {
  Recording recording;
  recording.steps = 1;
  recording.events = {event("aten::mul", 10, 20)};
  recording.memory = {{5, 100, 1, false}, {20, 7, 1, false}};
  const Profile profile = tables(recording);
  EXPECT_EQ(row_of(profile, "[memory]").host_bytes, 100);
  EXPECT_EQ(row_of(profile, "aten::mul").host_bytes, 7) << "an end belongs to the event";
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_profile_test
TEST(ProfileFile, is_published_with_its_documentation_as_its_fields_say) {
  test::expect_published(NOISEMARK_PROFILE_ROOM,
                         {{json::kProfileDocument, json::shape_of<Profile>()},
                          {json::kMemoryTimelineDocument, json::shape_of<MemoryTimeline>()}});
}

class TraceFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& text) const {
    std::ofstream(folder_ / "trace.json") << text;
    return folder_ / "trace.json";
  }
  fs::path folder_ = fs::temp_directory_path() / "noisemark_profile_test";
};

TEST_F(TraceFile, has_the_counters_on_the_clock_of_its_events) {
  const fs::path plain = write(
      "{\n  \"baseTimeNanoseconds\": 1000000,\n  \"traceEvents\": [\n"
      "  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mul\", \"pid\": 3, \"tid\": 3, "
      "\"ts\": 1.000, \"dur\": 5.000}\n  ]\n}\n");
  const fs::path packed = folder_ / "trace.json.gz";
  const TraceSizes sizes = pack_trace(plain, packed, {{1002500, {{"weights", 64}}}}, 3);
  EXPECT_GT(sizes.plain_bytes, static_cast<int64_t>(fs::file_size(plain)));
  EXPECT_EQ(sizes.packed_bytes, static_cast<int64_t>(fs::file_size(packed)));
  const Trace trace = read_trace(packed);
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.name_of(trace.events.front()), "aten::mul");
}

TEST_F(TraceFile, is_refused_where_it_has_no_events) {
  EXPECT_THROW((void)pack_trace(write("{}\n"), folder_ / "trace.json.gz", {}, 3), Error);
}

}  // namespace
}  // namespace noisemark::reports
