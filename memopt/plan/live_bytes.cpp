#include <algorithm>
#include <utility>

#include "memopt/plan/peak_timeline.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {
namespace {

const MemoryReading& reading_of(const StepGraph& graph, const TimelineEvent& event) {
  if (event.slot == kNone) return graph.at_end;
  const RecordedSlot& slot = graph.slots[static_cast<size_t>(event.slot)];
  return event.backward ? slot.at_unpack : slot.at_save;
}

}  // namespace

PeakTimeline kept_timeline(std::shared_ptr<const StepGraph> graph) {
  Policy nothing;
  nothing.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
  return simulate(resolve(std::move(graph), nothing), {});
}

std::vector<OtherBytes> other_bytes(std::shared_ptr<const StepGraph> graph) {
  const PeakTimeline kept = kept_timeline(graph);
  std::vector<OtherBytes> other;
  for (const TimelineEvent& event : kept.events) {
    const MemoryReading& reading = reading_of(*graph, event);
    OtherBytes bytes;
    if (reading.live_bytes >= 0) bytes.at = reading.live_bytes - event.at.live;
    if (reading.high_bytes >= 0) bytes.between = reading.high_bytes - event.between.live;
    other.push_back(bytes);
  }
  return other;
}

int64_t live_bytes(const PeakTimeline& timeline, const std::vector<OtherBytes>& other, size_t i) {
  const TimelineEvent& event = timeline.events[i];
  return std::max(event.between.live + other[i].between, event.at.live + other[i].at);
}

int64_t peak_bytes(const PeakTimeline& timeline, const std::vector<OtherBytes>& other) {
  int64_t peak = 0;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    peak = std::max(peak, live_bytes(timeline, other, i));
  }
  return peak;
}

}  // namespace noisemark::memopt
