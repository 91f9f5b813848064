#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memopt/plan/codec_figures.h"
#include "memopt/treatment/treatment.h"

/// The bytes that a plan will hold and its cost, without running anything: the recorded step is
/// gone through event by event, with the same order of making, caching and letting go as in its
/// execution.
namespace noisemark::memopt {

/// Live bytes at one moment.
struct MemoryLevel {
  int64_t saved = 0;  ///< bytes for backward: kept, encoded, recomputed, and what is dropped, as
                      ///< long as the forward pass itself still uses it
  int64_t live = 0;   ///< bytes of what is saved, the results that the forward pass still uses, and
                      ///< scratch
};

/// A tensor is saved, or backward asks for one.
struct TimelineEvent {
  SlotId slot = kNone;  ///< kNone: the end of the step
  bool backward = false;
  MemoryLevel between;  ///< the most since the event before, while the step's operators ran
  MemoryLevel at;       ///< the most while the tensor was saved, or made
};

/// The bytes beyond what a timeline counts, per event: weights, gradients, and what operators need
/// while they run.
struct OtherBytes {
  int64_t between = 0;
  int64_t at = 0;
};

struct PeakTimeline {
  std::vector<TimelineEvent> events;
  int64_t saved_bytes = 0;             ///< at the end of forward
  int64_t peak_saved_bytes = 0;        ///< the most at any event
  int64_t cost_ns = 0;                 ///< time of all recomputing, encoding and decoding
  std::vector<int64_t> held_by_slot;   ///< bytes at the end of forward, by the slot that brought
                                       ///< them; sums to saved_bytes
  std::vector<int64_t> operator_cost;  ///< cost_ns by the operator that made the value first
};

/// Passes that are held while the one of a timeline runs, each as it is when its forward ends.
struct PassesBeside {
  int64_t passes = 0;
  int64_t bytes_each = 0;  ///< each holds so many beside what a timeline counts
};

/// `figures` is asked for encoded values only.
[[nodiscard]] PeakTimeline simulate(const TreatmentPlan& plan, const CodecFigures& figures);

/// The timeline of the step when everything is kept, as mode "none" does.
[[nodiscard]] PeakTimeline kept_timeline(std::shared_ptr<const StepGraph> graph);

/// Returns them per event of the graph's timelines; zeros where the recorder did not read the
/// memory.
[[nodiscard]] std::vector<OtherBytes> other_bytes(std::shared_ptr<const StepGraph> graph);
/// The same by kept_timeline() of the graph.
[[nodiscard]] std::vector<OtherBytes> other_bytes(const StepGraph& graph, const PeakTimeline& kept);

/// The live bytes of all owners at event `i`.
[[nodiscard]] int64_t live_bytes(const PeakTimeline& timeline, const std::vector<OtherBytes>& other,
                                 size_t i);
/// The most of all owners over the step, if the passes beside have the plan of the timeline.
[[nodiscard]] int64_t peak_bytes(const PeakTimeline& timeline, const std::vector<OtherBytes>& other,
                                 const PassesBeside& beside = {});

}  // namespace noisemark::memopt
