#include "reports/trace/trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace noisemark::reports {
namespace {

template <size_t kCount>
bool starts_with_any(std::string_view name, const std::array<std::string_view, kCount>& starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool is_step(std::string_view name) {
  constexpr std::string_view kStep = "ProfilerStep#";
  return name.starts_with(kStep) && name.size() > kStep.size() &&
         std::isdigit(static_cast<unsigned char>(name[kStep.size()])) != 0;
}

/// The last annotation of a step on the host, where there are steps of at least two names.
const TraceEvent* last_step(const Trace& trace) {
  std::vector<char> steps(trace.names.size());
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = is_step(trace.names[i]) ? 1 : 0;
  std::set<uint32_t> names;
  const TraceEvent* last = nullptr;
  for (const TraceEvent& event : trace.events) {
    if (steps[event.name] == 0) continue;
    names.insert(event.name);
    if (!trace.on_device(event) && (last == nullptr || event.start > last->start)) last = &event;
  }
  return names.size() > 1 ? last : nullptr;
}

void leave_out_last_step(Trace& trace) {
  const TraceEvent* step = last_step(trace);
  if (step == nullptr) return;
  trace.left_out = trace.name_of(*step);
  const int64_t until = step->start;
  std::unordered_set<int64_t> launched;
  for (const TraceEvent& event : trace.events) {
    if (!trace.on_device(event) && event.start < until) launched.insert(event.correlation);
  }
  std::erase_if(trace.events, [&](const TraceEvent& event) {
    return trace.on_device(event) ? !launched.contains(event.correlation) : event.start >= until;
  });
}

void pair(Trace& trace) {
  constexpr int32_t kNone = -1;
  struct Pair {
    int32_t call = kNone;
    int32_t launched = kNone;
  };
  std::unordered_map<int64_t, Pair> pairs;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.correlation < 0) continue;
    Pair& found = pairs[event.correlation];
    (trace.on_device(event) ? found.launched : found.call) = static_cast<int32_t>(i);
  }
  for (TraceEvent& event : trace.events) {
    if (event.correlation < 0) continue;
    const Pair& found = pairs[event.correlation];
    event.partner = trace.on_device(event) ? found.call : found.launched;
  }
}

}  // namespace

bool Trace::on_device(const TraceEvent& event) const {
  if (event.category == TraceCategory::kSync) {
    const std::string& name = name_of(event);
    if (name == "Event Sync" || name == "Context Sync") return true;
  }
  return event.on_stream() && event.correlation >= 0;
}

void complete(Trace& trace) {
  leave_out_last_step(trace);
  pair(trace);
}

TraceWork work_of(std::string_view name) {
  constexpr std::array<std::string_view, 3> kCommunication{"nccl", "hip", "hccl"};
  constexpr std::array<std::string_view, 3> kMemory{"Memcpy", "Memset", "dma"};
  constexpr std::array<std::string_view, 7> kNoWork{"Stream Wait Event",
                                                    "runFunction",
                                                    "job_exe",
                                                    "packet",
                                                    "pe_exe",
                                                    "cpum_exe_subgraph",
                                                    "collective_subgraph_execution"};
  if (starts_with_any(name, kCommunication) || has(name, "ncclKernel")) {
    return TraceWork::kCommunication;
  }
  if (starts_with_any(name, kMemory)) return TraceWork::kMemory;
  const bool is_no_work = has(name, "Memcpy") || has(name, "Memset") || has(name, "dma") ||
                          has(name, "Sync") || starts_with_any(name, kNoWork) ||
                          (name.starts_with("cuda") && has(name, "LaunchKernel"));
  return is_no_work ? TraceWork::kNoWork : TraceWork::kCompute;
}

std::vector<const TraceEvent*> events_on_streams(const Trace& trace) {
  std::vector<const TraceEvent*> found;
  for (const TraceEvent& event : trace.events) {
    if (event.on_stream()) found.push_back(&event);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto* a, const auto* b) { return a->start < b->start; });
  return found;
}

}  // namespace noisemark::reports
