#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/base/fields.h"
#include "reports/profile/characterization.h"
#include "reports/profile/recording.h"
#include "reports/profile/roofline.h"
#include "reports/render/plot.h"
#include "reports/result/result.h"

/// The time and the memory of training steps by operator, by pair of forward and backward, and by
/// layer: profile.json.
namespace noisemark::reports {

inline constexpr double kNsPerS = 1e9;
inline constexpr const char* kProfileFile = "profile.json";

/// The times of some events. Times and bytes are of all steps together.
struct ProfileTimes {
  int64_t calls = 0;
  int64_t self_host_ns = 0;
  int64_t self_device_ns = 0;
  int64_t self_host_bytes = 0;
  int64_t self_device_bytes = 0;
};

/// A row of PyTorch's key_averages(): events of one name, with shapes of one name and shape.
struct OperatorTimes : ProfileTimes {
  std::string name;
  std::string shapes;
  std::string kind;
  int64_t host_ns = 0;
  int64_t device_ns = 0;
  int64_t host_bytes = 0;
  int64_t device_bytes = 0;
};

/// An operator of the forward pass, joined with the node that computed its gradients.
struct JoinedTimes {
  std::string forward;
  std::string backward;
  int64_t calls = 0;  ///< calls of the backward node
  int64_t forward_host_ns = 0;
  int64_t backward_host_ns = 0;
  int64_t forward_device_ns = 0;
  int64_t backward_device_ns = 0;
};

/// A layer, or a block of layers; or in parentheses a phase of the step, with what no layer did.
struct LayerTimes {
  std::string name;
  int64_t calls = 0;
  int64_t forward_host_ns = 0;
  int64_t backward_host_ns = 0;
  int64_t forward_device_ns = 0;
  int64_t backward_device_ns = 0;
  int64_t host_bytes = 0;
  int64_t device_bytes = 0;

  [[nodiscard]] int64_t host_ns() const { return forward_host_ns + backward_host_ns; }
  [[nodiscard]] int64_t device_ns() const { return forward_device_ns + backward_device_ns; }
};

/// The time that the profiler adds to a step, from steps with and without it in turns.
struct ProfilerCost {
  int64_t pairs = 0;
  double plain_s = 0;  ///< median step
  double profiled_s = 0;
  double ratio = 0;  ///< median of the pairs' ratios
};

struct Profile {
  std::string benchmark;
  std::string mode;
  std::string baseline;
  std::string precision;
  std::string device;
  bool custom = false;
  int64_t threads = 0;
  int64_t batch = 0;
  Strings work;  ///< work_of() a run of it
  int64_t steps = 0;
  bool shapes = false;
  ProfilerCost cost;
  std::string trace;
  int64_t trace_bytes = 0;
  int64_t trace_plain_bytes = 0;
  int64_t counters = 0;
  std::string counters_missing;
  std::vector<OperatorTimes> operators;
  std::vector<JoinedTimes> joined;
  std::vector<LayerTimes> layers;
  std::vector<LayerTimes> blocks;
  Roofline roofline;
  Characterization characterization;
};

/// The tables of a recording, each by falling time: of the device where it was recorded, else of
/// the host.
///
/// `operators` are the rows that Python's profiler makes of the same events, to the nanosecond. An
/// event is within another one of its thread when its time is. What a device did belongs to the
/// operator around its launch. An event that is the only one within another one of its name counts
/// as that one. Memory belongs to every event of the host during which it was taken or given back.
///
/// `joined` has each node of autograd with the operator that made it, the last that began under
/// the node's number, with all that is within both. `layers` share out the times of all events by
/// the innermost layer of their forward pass, and `blocks` by the outermost, so each sums up to the
/// whole.
void add_tables(const Recording& recording, Profile& profile);

/// The work of a step at an instant.
struct ProfiledMoment {
  std::string operators;  ///< outermost and innermost that ran: "a > b"; empty: none did
  std::string layer;      ///< innermost, of a gradient that of its forward pass; empty: none
  std::string phase;
};

/// Returns the work of the recorded steps at these instants, which rise. A pure function.
[[nodiscard]] std::vector<ProfiledMoment> moments_of(const Recording& recording,
                                                     const std::vector<int64_t>& times_ns);

/// profile.md: a pure function of what profile.json holds, and of which plots there are.
[[nodiscard]] std::string profile_markdown(const Profile& profile, const Plots& plots = {});

/// profile.json.
[[nodiscard]] std::string profile_json(const Profile& profile);

/// The memory by owner at an instant of a step, and what the step was doing then.
struct TimelinePoint : MemoryPoint, ProfiledMoment {};

/// The memory by owner over one step: memory_timeline.json.
struct MemoryTimeline {
  std::vector<std::string> owners;
  std::vector<TimelinePoint> points;  ///< bytes in the order of `owners`; times rise
};

/// More instants than so many make a page slow and no plainer.
inline constexpr size_t kMostInstants = 3000;

/// Instants of the last recorded step, at most `most` (at least 2): of those that a plot draws at
/// one place, and of neighbours where there are too many, the highest stays. It is empty without
/// counters. A pure function.
[[nodiscard]] MemoryTimeline memory_timeline(const Recording& recording,
                                             const std::vector<MemoryCounter>& counters,
                                             size_t most = kMostInstants);

/// The part of a result's section that the plot of memory by owner is drawn from.
[[nodiscard]] MemorySection section_of(const MemoryTimeline& timeline);

/// memory_timeline.json, for pages and programs.
[[nodiscard]] std::string memory_timeline_json(const MemoryTimeline& timeline);

}  // namespace noisemark::reports

namespace noisemark::reports::json {

inline constexpr Document kProfileDocument{
    "noisemark.profile",
    "The time and the memory of some training steps. Times and bytes are of all steps together."};

inline constexpr Document kMemoryTimelineDocument{
    "noisemark.memory_timeline", "The memory by owner over one step, for pages and programs.",
    false};

template <>
struct Fields<TimelinePoint> {
  static constexpr About kAbout{"TimelinePoint",
                                "An instant of the step, and what the step was doing then."};
  using T = TimelinePoint;
  static constexpr std::tuple kAll{
      field<T>("time_s", &T::time_s, "since the step's begin").at_least(0),
      field<T>("by_category", &T::by_category, "memory of each owner, in the order of `owners`")
          .at_least(0),
      field<T>("operator", &T::operators,
               "outermost and innermost that ran: \"a > b\"; empty: none did"),
      field<T>("layer", &T::layer,
               "innermost layer, of a gradient that of its forward pass; empty: none"),
      field<T>("phase", &T::phase, "phase of the step").not_empty()};
};

template <>
struct Fields<MemoryTimeline> {
  static constexpr About kAbout{"MemoryTimeline", ""};
  using T = MemoryTimeline;
  static constexpr std::tuple kAll{
      field("owners", &T::owners, "everybody to whom memory is attributed"),
      field("points", &T::points, "instants of the step, whose times rise")};
};

template <>
struct Fields<OperatorTimes> {
  static constexpr About kAbout{"OperatorTimes",
                                "Events of one name: a row of PyTorch's key_averages()."};
  using T = OperatorTimes;
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"aten::convolution\"").not_empty(),
      field("shapes", &T::shapes, "shapes of the inputs; empty without --shapes"),
      field("kind", &T::kind, "the place where it ran").one_of("operator|span|device|device span"),
      field<T>("calls", &T::calls, "number of the events").at_least(1),
      field<T>("self_host_ns", &T::self_host_ns, "without the events within"),
      field("host_ns", &T::host_ns, "with the events within"),
      field<T>("self_device_ns", &T::self_device_ns,
               "device time of what the operator itself launched"),
      field("device_ns", &T::device_ns, "device time of all that was launched within"),
      field<T>("self_host_bytes", &T::self_host_bytes,
               "taken less given back, without those within"),
      field("host_bytes", &T::host_bytes, "taken less given back"),
      field<T>("self_device_bytes", &T::self_device_bytes, "the same of the device's memory"),
      field("device_bytes", &T::device_bytes, "the device's memory: taken less given back")};
};

template <>
struct Fields<JoinedTimes> {
  static constexpr About kAbout{
      "JoinedTimes",
      "An operator of the forward pass, and the node of autograd that computed its gradients."};
  using T = JoinedTimes;
  static constexpr std::tuple kAll{
      field("forward", &T::forward, "the operator; empty where no operator made the node"),
      field("backward", &T::backward, "\"ConvolutionBackward0\"").not_empty(),
      field("calls", &T::calls, "calls of the node").at_least(1),
      field("forward_host_ns", &T::forward_host_ns,
            "host time of the operator, with the events within"),
      field("backward_host_ns", &T::backward_host_ns,
            "host time of the node, with the events within"),
      field("forward_device_ns", &T::forward_device_ns,
            "device time of all that the operator launched"),
      field("backward_device_ns", &T::backward_device_ns,
            "device time of all that the node launched")};
};

template <>
struct Fields<LayerTimes> {
  static constexpr About kAbout{
      "LayerTimes",
      "A layer or a block, or a phase in parentheses with what no layer did. Rows sum up to all."};
  using T = LayerTimes;
  static constexpr std::tuple kAll{
      field("name", &T::name, "in the tree of modules: \"mid_block.resnets.0.conv1\"").not_empty(),
      field("calls", &T::calls, "forward passes").at_least(0),
      field("forward_host_ns", &T::forward_host_ns, "in the forward pass, or in the phase"),
      field("backward_host_ns", &T::backward_host_ns, "in the nodes that the forward pass made"),
      field("forward_device_ns", &T::forward_device_ns,
            "device time in the forward pass, or in the phase"),
      field("backward_device_ns", &T::backward_device_ns,
            "device time in the nodes that the forward pass made"),
      field("host_bytes", &T::host_bytes, "taken less given back, in both passes"),
      field("device_bytes", &T::device_bytes,
            "the device's memory: taken less given back, in both passes")};
};

template <>
struct Fields<ProfilerCost> {
  static constexpr About kAbout{"ProfilerCost",
                                "The time that the profiler adds to a step, in turns with others."};
  using T = ProfilerCost;
  static constexpr std::tuple kAll{
      field("pairs", &T::pairs, "pairs of a step with the profiler and one without").at_least(1),
      field("plain_s", &T::plain_s, "median step without the profiler").above(0),
      field("profiled_s", &T::profiled_s, "median step with it").above(0),
      field("ratio", &T::ratio, "median of the pairs' ratios").above(0)};
};

template <>
struct Fields<Profile> {
  static constexpr About kAbout{"Profile", ""};
  using T = Profile;
  static constexpr std::tuple kAll{
      field("benchmark", &T::benchmark, "\"ho-cifar10@cpu\"").not_empty(),
      field("mode", &T::mode, "memory mode of the training"),
      field("baseline", &T::baseline, "kernels that executed the training"),
      field("precision", &T::precision, "type of the numbers that the network computes with"),
      field("device", &T::device, "device of the training"),
      field("custom", &T::custom, "the definition was changed"),
      field("threads", &T::threads, "threads of the host").at_least(1),
      field("batch", &T::batch, "images of a step").at_least(1),
      field("work", &T::work,
            "what a run of the same work has too: its cell, and fields by path in result.json")
          .left_out_if_empty(),
      field("steps", &T::steps, "profiled and traced").at_least(1),
      field("shapes", &T::shapes, "inputs' shapes were recorded"),
      field("cost", &T::cost, "time that the profiler adds to a step"),
      field("trace", &T::trace, "file beside this one, which Perfetto opens").not_empty(),
      field("trace_bytes", &T::trace_bytes, "size of the file").at_least(1),
      field("trace_plain_bytes", &T::trace_plain_bytes, "size of the file unpacked").at_least(1),
      field("counters", &T::counters, "instants of memory by owner in the trace").at_least(0),
      field("counters_missing", &T::counters_missing, "why there are none; empty: there are"),
      field("operators", &T::operators, "by falling self time"),
      field("joined", &T::joined, "by falling time of both"),
      field("layers", &T::layers, "by falling time"),
      field("blocks", &T::blocks, "by falling time"),
      field("roofline", &T::roofline, "the least time of operators beside the measured one"),
      field("characterization", &T::characterization, "the network's demands on a machine")};
};

}  // namespace noisemark::reports::json
