
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

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

constexpr size_t kWidestName = 80;  // beside two columns of figures

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

std::string trace_json(const Trace& trace, const CriticalPath& path) {
  using Json = nlohmann::ordered_json;
  const TraceBreakdown found = breakdown_of(trace);
  Json json{{"events", trace.events.size()},
            {"left_out_from", trace.left_out},
            {"total_us", found.total_us},
            {"idle_us", found.idle_us},
            {"compute_us", found.compute_us},
            {"other_us", found.other_us()},
            {"hidden_communication_frac", found.hidden_communication()}};
  constexpr const char* kAlone[] = {"compute",  "communication",  "compute_communication",
                                    "memory",   "compute_memory", "communication_memory",
                                    "all_three"};
  for (size_t i = 0; i < std::size(kAlone); ++i)
    json["alone_us"][kAlone[i]] = found.alone_us[i + 1];
  json["streams"] = json["launches"] = json["queues"] = Json::array();
  for (const StreamIdle& row : found.streams) {
    json["streams"].push_back({{"stream", row.stream},
                               {"events", row.events},
                               {"idle_host_us", row.host_us},
                               {"idle_kernel_us", row.kernel_us},
                               {"idle_other_us", row.other_us}});
  }
  for (const LaunchRow& row : launches_of(trace)) {
    json["launches"].push_back({{"call", row.call},
                                {"calls", row.calls},
                                {"launched", row.launched},
                                {"host_us", row.host_us},
                                {"device_us", row.device_us},
                                {"delay_us", row.delay_us},
                                {"short", row.short_kernels},
                                {"long_calls", row.long_calls},
                                {"long_delays", row.long_delays}});
  }
  for (const QueueRow& row : queues_of(trace)) {
    json["queues"].push_back({{"stream", row.stream},
                              {"changes", row.changes},
                              {"mean", row.mean},
                              {"sd", row.sd},
                              {"low", row.low},
                              {"quartile1", row.quartile1},
                              {"median", row.median},
                              {"quartile3", row.quartile3},
                              {"high", row.high}});
  }
  Json& critical = json["critical_path"];
  critical = {{"window", path.window},
              {"us", path.us},
              {"nodes", path.nodes},
              {"edges", path.edges},
              {"path_events", path.path_events}};
  for (size_t i = 0; i < kEdgeWords.size(); ++i) {
    critical["by_kind_us"][kEdgeWords.at(i)] = path.by_kind_us.at(i);
  }
  for (const auto& [change, us] : path.what_if) critical["what_if_us"][change] = us;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
