#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "reports/base/fields.h"
#include "reports/base/json_writer.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/trace/analyses.h"

namespace noisemark::reports {
namespace {

constexpr double kUsPerS = 1e6;

std::string share(int64_t part, int64_t whole) {
  return whole <= 0 ? "-" : format_percent(static_cast<double>(part) / static_cast<double>(whole));
}

/// Events of one name.
struct Named {
  std::string name;
  int64_t count = 0;
  int64_t time_us = 0;
};

template <class Which>
std::vector<Named> longest(const Trace& trace, Which which) {
  constexpr size_t kShown = 10;
  std::map<uint32_t, Named> by_name;
  for (const TraceEvent& event : trace.events) {
    if (!which(event)) continue;
    Named& named = by_name[event.name];
    ++named.count;
    named.time_us += event.duration();
  }
  std::vector<Named> sorted;
  for (auto& [name, named] : by_name) {
    named.name = trace.names[name];
    sorted.push_back(named);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Named& a, const Named& b) { return a.time_us > b.time_us; });
  sorted.resize(std::min(sorted.size(), kShown));
  return sorted;
}

bool is_device_work(const TraceEvent& event) {
  return event.on_stream() && event.category == TraceCategory::kKernel;
}

bool is_operator(const TraceEvent& event) {
  return event.category == TraceCategory::kOperator;
}

std::string verdict(const TraceBreakdown& found, const Trace& trace) {
  if (found.total_us == 0) {
    const auto operators = std::count_if(trace.events.begin(), trace.events.end(), is_operator);
    return fmt::format(
        "No event ran on a device. On the host there are {} events, {} of them operators.\n",
        format_count(static_cast<int64_t>(trace.events.size())), format_count(operators));
  }
  const auto alone = [&](TraceWork work) {
    return found.alone_us.at(size_t{1} << static_cast<size_t>(work));
  };
  return fmt::format(
      "In the {} between its first and its last event the device was idle for **{}** and computed "
      "for **{}**. Communication alone took **{}** and memory copies alone **{}**; {} of "
      "communication ran beside compute.\n",
      format_seconds(static_cast<double>(found.total_us) / kUsPerS),
      share(found.idle_us, found.total_us), share(found.compute_us, found.total_us),
      share(alone(TraceWork::kCommunication), found.total_us),
      share(alone(TraceWork::kMemory), found.total_us),
      format_percent(found.hidden_communication()));
}

std::string section(std::string_view title, const MarkdownTable& table) {
  return table.empty() ? "" : fmt::format("\n## {}\n\n{}", title, table.text());
}

std::vector<MarkdownTable::Column> columns(const std::string& first,
                                           const std::vector<std::string>& numbers) {
  std::vector<MarkdownTable::Column> all{{first}};
  for (const std::string& number : numbers) all.push_back({number, Align::kRight});
  return all;
}

std::string breakdown_text(const TraceBreakdown& found) {
  if (found.total_us == 0) return "";
  constexpr const char* kKinds[] = {"compute", "communication", "memory"};
  MarkdownTable table(columns("the device ran", {"us", "share"}));
  const auto row = [&](const std::string& name, int64_t time) {
    table.add_row({name, format_count(time), share(time, found.total_us)});
  };
  row("nothing: idle", found.idle_us);
  for (size_t kinds = 1; kinds < found.alone_us.size(); ++kinds) {
    std::string name;
    for (size_t i = 0; i < std::size(kKinds); ++i) {
      if ((kinds >> i & 1) != 0) name += (name.empty() ? "" : " beside ") + std::string(kKinds[i]);
    }
    if (found.alone_us[kinds] > 0) row(name, found.alone_us[kinds]);
  }
  row("compute, with what overlaps it", found.compute_us);
  row("anything but compute", found.other_us());
  row("in all", found.total_us);
  return section("Where the time went", table);
}

std::string idle_text(const TraceBreakdown& found) {
  MarkdownTable table(
      columns("stream", {"events", "idle: host, us", "idle: kernel, us", "idle: other, us"}));
  for (const StreamIdle& stream : found.streams) {
    table.add_row({std::to_string(stream.stream), format_count(stream.events),
                   format_count(stream.host_us), format_count(stream.kernel_us),
                   format_count(stream.other_us)});
  }
  return section("Why streams were idle", table);
}

std::string launches_text(const Trace& trace) {
  MarkdownTable table(
      columns("call", {"calls", "launched", "in calls, us", "on device, us", "mean delay, us",
                       "shorter than call", "calls > 50 us", "delays > 100 us"}));
  for (const LaunchRow& row : launches_of(trace)) {
    const double delay = static_cast<double>(row.delay_us) / static_cast<double>(row.launched);
    table.add_row({row.call, format_count(row.calls), format_count(row.launched),
                   format_count(row.host_us), format_count(row.device_us),
                   fmt::format("{:.1f}", delay), format_count(row.short_kernels),
                   format_count(row.long_calls), format_count(row.long_delays)});
  }
  std::string text = section("Launches", table);
  if (const int64_t unpaired = unpaired_of(trace); unpaired > 0) {
    text += fmt::format("\nThe trace names no call for {} of the events on streams.\n",
                        format_count(unpaired));
  }
  return text;
}

std::string queues_text(const Trace& trace) {
  MarkdownTable table(columns("stream", {"changes", "mean", "standard deviation", "least", "25 %",
                                         "median", "75 %", "most"}));
  for (const QueueRow& row : queues_of(trace)) {
    table.add_row({std::to_string(row.stream), format_count(row.changes),
                   fmt::format("{:.3f}", row.mean), fmt::format("{:.3f}", row.sd),
                   format_number(row.low), format_number(row.quartile1), format_number(row.median),
                   format_number(row.quartile3), format_number(row.high)});
  }
  return section("Length of the queues", table);
}

constexpr size_t kWidestName = 80;  // leaves room for two columns of figures

std::string longest_text(const char* title, const std::vector<Named>& longest) {
  MarkdownTable table(columns("name", {"count", "us"}));
  for (const Named& each : longest) {
    table.add_row({code(shortened(each.name, kWidestName)), format_count(each.count),
                   format_count(each.time_us)});
  }
  return section(title, table);
}

constexpr std::array kEdgeWords{"host", "device", "launch", "gap on a stream"};

std::string path_text(const CriticalPath& path) {
  if (path.us == 0) return "";
  std::string text = fmt::format(
      "\n## Critical path\n\nIn {} the longest chain of events that wait for one another takes {}. "
      "It leads over {} of the events.\n\n",
      path.window.empty() ? "the whole trace" : code(path.window),
      format_seconds(static_cast<double>(path.us) / kUsPerS),
      format_count(static_cast<int64_t>(path.path_events)));
  MarkdownTable kinds(columns("the path is in", {"us", "share"}));
  for (size_t i = 0; i < kEdgeWords.size(); ++i) {
    const int64_t us = path.by_kind_us.at(i);
    kinds.add_row({kEdgeWords.at(i), format_count(us), share(us, path.us)});
  }
  MarkdownTable names(columns("on the path", {"us", "share"}));
  for (const auto& [name, us] : path.longest) {
    names.add_row({code(shortened(name, kWidestName)), format_count(us), share(us, path.us)});
  }
  MarkdownTable changes(columns("if", {"the longest path takes, us", "share"}));
  for (const auto& [change, us] : path.what_if) {
    changes.add_row(
        {change, fmt::format("{:.1f}", us), format_percent(us / static_cast<double>(path.us))});
  }
  return text + kinds.text() + "\n" + names.text() + "\n" + changes.text();
}

constexpr const char* kDefinitions = R"(
## What the words mean

- Times are whole microseconds: starts are rounded up and ends down. Spans that overlap count once.
- **Idle** is the time from the device's first event to its last in which no stream ran anything; one that waits is busy.
- **Communication** are kernels of NCCL and its kin, **memory** copies and fills, **compute** all other kernels.
- A stream is idle for the **host** when an event was launched only after the one before it had ended, for the
  **kernel** when a gap was below 30 us, else for another reason, for example an event of another stream.
- A **launch** is any call that shares its correlation with something on a stream. A call that launches a graph
  stands for all that the graph holds. The **delay** lasts from the end of the call to the start on the stream, and
  is never below 0.
- On the **critical path** each event waits for the one before it: on a thread, on a stream, for a call, or for an
  event, a stream or a device that was waited for, as far as the trace has such waits. Host is time in operators and
  calls outside those within them; launch lasts from the start of a call to the start on an empty stream.
- A **queue** holds what was launched on a stream and has not begun. Its figures are over its changes.
)";

}  // namespace

std::string trace_markdown(const std::string& title, const Trace& trace, const CriticalPath& path) {
  const TraceBreakdown found = breakdown_of(trace);
  std::string text = fmt::format("# Trace: {}\n\n{}", plain(title), verdict(found, trace));
  if (!trace.left_out.empty()) {
    text += fmt::format(
        "\nThe trace may end within its last step: the host's events from {} on, and what they "
        "launched, are left out.\n",
        code(trace.left_out));
  }
  text += breakdown_text(found) + idle_text(found) + launches_text(trace) + queues_text(trace);
  text += path_text(path);
  text += longest_text("Longest on the device", longest(trace, is_device_work));
  if (found.total_us == 0) {
    text += longest_text("Longest operators, with those within them", longest(trace, is_operator));
  }
  return finished_page(text + kDefinitions);
}

/// The document that `trace --format json` prints.
struct TraceFile {
  struct Path {
    std::string window;
    int64_t us = 0;
    int64_t nodes = 0;
    int64_t edges = 0;
    int64_t path_events = 0;
    std::map<std::string, int64_t> by_kind_us;
    std::map<std::string, double> what_if_us;
  };
  int64_t events = 0;
  std::string left_out;
  TraceBreakdown found;
  std::map<std::string, int64_t> alone_us;
  std::vector<LaunchRow> launches;
  std::vector<QueueRow> queues;
  Path path;
};

namespace json {

constexpr Document kTraceDocument{"noisemark.trace", "Where the time of a profiler's trace went.",
                                  false, "noisemark trace --format json"};

template <>
struct Fields<StreamIdle> {
  static constexpr About kAbout{"StreamIdle", "Why a stream had nothing to do."};
  static constexpr std::tuple kAll{
      field("stream", &StreamIdle::stream, "number of the stream"),
      field("events", &StreamIdle::events, "events on it"),
      field("idle_host_us", &StreamIdle::host_us,
            "idle because the event was launched only after the one before it had ended"),
      field("idle_kernel_us", &StreamIdle::kernel_us,
            "idle for less than 30 us between events that were launched in time"),
      field("idle_other_us", &StreamIdle::other_us, "idle for another reason")};
};

template <>
struct Fields<LaunchRow> {
  static constexpr About kAbout{"LaunchRow", "The calls of one name and what they launched."};
  static constexpr std::tuple kAll{
      field("call", &LaunchRow::call, "name of the calls"),
      field("calls", &LaunchRow::calls, "number of the calls"),
      field("launched", &LaunchRow::launched, "kernels, copies and fills"),
      field("host_us", &LaunchRow::host_us, "time in the calls"),
      field("device_us", &LaunchRow::device_us, "time in what they launched"),
      field("delay_us", &LaunchRow::delay_us,
            "time from the ends of calls to the starts of what they launched"),
      field("short", &LaunchRow::short_kernels, "launched work that took less than its call"),
      field("long_calls", &LaunchRow::long_calls, "calls of more than 50 us"),
      field("long_delays", &LaunchRow::long_delays, "delays of more than 100 us")};
};

template <>
struct Fields<QueueRow> {
  static constexpr About kAbout{"QueueRow",
                                "Work that was launched on a stream and has not begun, after each "
                                "launch and each begin."};
  static constexpr std::tuple kAll{
      field("stream", &QueueRow::stream, "number of the stream"),
      field("changes", &QueueRow::changes, "launches and begins"),
      field("mean", &QueueRow::mean, "mean length"),
      field("sd", &QueueRow::sd, "sample standard deviation of the length"),
      field("low", &QueueRow::low, "least length"),
      field("quartile1", &QueueRow::quartile1, "first quartile"),
      field("median", &QueueRow::median, "median length"),
      field("quartile3", &QueueRow::quartile3, "third quartile"),
      field("high", &QueueRow::high, "greatest length")};
};

template <>
struct Fields<TraceFile::Path> {
  using T = TraceFile::Path;
  static constexpr About kAbout{"CriticalPath",
                                "The chain of events that wait for one another and take longest."};
  static constexpr std::tuple kAll{
      field("window", &T::window, "annotation within which it was sought; empty: the whole trace"),
      field("us", &T::us, "length of the path"),
      field("nodes", &T::nodes, "starts and ends of events that wait or are waited for"),
      field("edges", &T::edges, "waits between them"),
      field("path_events", &T::path_events, "events on the path"),
      field("by_kind_us", &T::by_kind_us, "time on the path by its place"),
      field("what_if_us", &T::what_if_us, "the longest path's length after a change")
          .left_out_if_empty()};
};

template <>
struct Fields<TraceFile> {
  using T = TraceFile;
  static constexpr About kAbout{"TraceFile", ""};
  static constexpr std::tuple kAll{
      field("events", &T::events, "events that were read"),
      field("left_out_from", &T::left_out,
            "annotation from which on the host's events were left out; empty: none were"),
      computed(
          "total_us", +[](const T& file) { return file.found.total_us; },
          "time from the device's first event to the end of its last"),
      computed(
          "idle_us", +[](const T& file) { return file.found.idle_us; },
          "time in which no stream ran anything"),
      computed(
          "compute_us", +[](const T& file) { return file.found.compute_us; },
          "time in which compute ran, whatever ran beside it"),
      computed(
          "other_us", +[](const T& file) { return file.found.other_us(); },
          "time in which something but no compute ran"),
      computed(
          "hidden_communication_frac",
          +[](const T& file) { return file.found.hidden_communication(); },
          "communication that ran beside compute; 0 without communication"),
      field("alone_us", &T::alone_us, "time in which exactly these kinds of work ran"),
      computed(
          "streams", +[](const T& file) { return file.found.streams; },
          "by the number of the stream"),
      field("launches", &T::launches, "by falling time on the device"),
      field("queues", &T::queues, "by the number of the stream"),
      field("critical_path", &T::path, "the longest chain of waits")};
};

}  // namespace json

std::string trace_json(const Trace& trace, const CriticalPath& path) {
  constexpr const char* kAlone[] = {"compute",  "communication",  "compute_communication",
                                    "memory",   "compute_memory", "communication_memory",
                                    "all_three"};
  TraceFile file;
  file.events = static_cast<int64_t>(trace.events.size());
  file.left_out = trace.left_out;
  file.found = breakdown_of(trace);
  file.launches = launches_of(trace);
  file.queues = queues_of(trace);
  file.path.window = path.window;
  file.path.us = path.us;
  file.path.nodes = static_cast<int64_t>(path.nodes);
  file.path.edges = static_cast<int64_t>(path.edges);
  file.path.path_events = static_cast<int64_t>(path.path_events);
  for (size_t i = 0; i < std::size(kAlone); ++i) {
    file.alone_us[kAlone[i]] = file.found.alone_us[i + 1];
  }
  for (size_t i = 0; i < kEdgeWords.size(); ++i) {
    file.path.by_kind_us[kEdgeWords.at(i)] = path.by_kind_us.at(i);
  }
  for (const auto& [change, us] : path.what_if) file.path.what_if_us[change] = us;
  return json::printed(file);
}

json::Published trace_document() {
  return {json::kTraceDocument, json::shape_of<TraceFile>()};
}

}  // namespace noisemark::reports
