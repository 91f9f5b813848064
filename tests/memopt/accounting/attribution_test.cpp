#include "memopt/accounting/attribution.h"

#include <gtest/gtest.h>

#include <numeric>

namespace noisemark::memopt {
namespace {

using Kind = LogEvent::Kind;

/// Writes records by hand; instants are those of the events.
class Script {
 public:
  explicit Script(int64_t live_bytes = 0) { record.baseline.live_bytes = live_bytes; }

  size_t add(Kind kind, uint64_t number, int64_t bytes, uint32_t frame = 0,
             Owner born_as = Owner::kUnattributed) {
    LogEvent event;
    event.kind = kind;
    event.frame = frame;
    event.block = {number, bytes, born_as};
    event.time_ns = static_cast<int64_t>(record.events.size()) * 10;
    record.events.push_back(event);
    return record.events.size();
  }

  void walk(const std::string& name, const std::vector<OwnedBlock>& owned) {
    LogMark mark;
    mark.name = name;
    mark.walked = true;
    mark.instant = add(Kind::kMark, 0, 0);
    mark.owned = owned;
    record.marks.push_back(mark);
  }

  uint32_t open_frame(const std::string& name, uint32_t parent = 0) {
    OperatorFrame frame;
    frame.name = name;
    frame.parent = parent;
    frame.opened_at = record.events.size();
    record.frames.push_back(frame);
    return static_cast<uint32_t>(record.frames.size());
  }
  void close_frame(uint32_t id) { record.frames[id - 1].closed_at = record.events.size(); }

  AllocationRecord record;
};

void expect_closed(const Attribution& attribution) {
  for (const OwnedInstant& point : attribution.timeline) {
    EXPECT_EQ(std::accumulate(point.bytes.begin(), point.bytes.end(), int64_t{0}),
              point.live_bytes);
  }
}

TEST(Attribution, of_nothing_is_what_was_live_at_the_opening) {
  Script script(100);
  script.record.baseline.born_bytes[static_cast<size_t>(Owner::kInput)] = 30;
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.peak.live_bytes, 100);
  EXPECT_EQ(result.peak.of(Owner::kInput), 30);
  EXPECT_EQ(result.peak.of(Owner::kUnattributed), 70);
  expect_closed(result);
}

TEST(Attribution, counts_an_operators_block_as_temporary_until_its_phase_ends) {
  Script script;
  const uint32_t frame = script.open_frame("aten::add");
  script.add(Kind::kAllocate, 1, 8, frame);
  script.close_frame(frame);
  script.walk("forward_end", {});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.timeline.at(1).of(Owner::kTemporary), 8);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kTemporary), 0);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kUnattributed), 8);
  expect_closed(result);
}

TEST(Attribution, never_calls_a_block_temporary_that_no_operator_made) {
  Script script;
  script.add(Kind::kAllocate, 1, 8);
  EXPECT_EQ(attribute(script.record).peak.of(Owner::kUnattributed), 8);
}

TEST(Attribution, gives_a_walked_block_to_its_owner_from_birth_until_a_walk_misses_it) {
  Script script;
  const uint32_t frame = script.open_frame("aten::mm");
  script.add(Kind::kAllocate, 1, 8, frame);
  script.close_frame(frame);
  script.walk("backward_end", {{{1, 8}, Owner::kGradients}});
  script.walk("optimizer_end", {});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.timeline.at(1).of(Owner::kGradients), 8);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kGradients), 8);
  EXPECT_EQ(result.boundaries.at(1).at.of(Owner::kGradients), 0);
  EXPECT_EQ(result.boundaries.at(1).at.of(Owner::kUnattributed), 8);
  expect_closed(result);
}

TEST(Attribution, finds_walked_blocks_that_are_older_than_the_log) {
  Script script(50);
  script.walk("step_begin", {{{7, 40}, Owner::kWeights}});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kWeights), 40);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kUnattributed), 10);
  expect_closed(result);
}

TEST(Attribution, counts_a_block_once_under_the_first_owner) {
  Script script(40);
  script.add(Kind::kSaved, 7, 40);
  script.walk("forward_end", {{{7, 40}, Owner::kWeights}, {{7, 40}, Owner::kEma}});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kWeights), 40);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kEma), 0);
  EXPECT_EQ(result.boundaries.at(0).at.saved_bytes(), 0);
  expect_closed(result);
}

TEST(Attribution, holds_saved_blocks_as_activations_while_a_variable_is_saved) {
  Script script;
  const uint32_t frame = script.open_frame("aten::silu");
  script.add(Kind::kAllocate, 1, 8, frame);
  const size_t saved = script.add(Kind::kSaved, 1, 8, frame);
  script.close_frame(frame);
  script.walk("forward_end", {});
  const size_t gone = script.add(Kind::kUnsaved, 1, 8);
  script.record.saved = {{1, 8, saved, gone}, {1, 6, saved, gone}};
  script.walk("backward_end", {});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.boundaries.at(0).at.saved_bytes(), 8);
  EXPECT_EQ(result.boundaries.at(0).naive_saved_bytes, 14);
  EXPECT_EQ(result.peak_saved_bytes, 8);
  EXPECT_EQ(result.boundaries.at(1).at.saved_bytes(), 0);
  EXPECT_EQ(result.boundaries.at(1).naive_saved_bytes, 0);
  expect_closed(result);
}

TEST(Attribution, tells_scratch_of_a_library_from_its_result) {
  Script script;
  const uint32_t outer = script.open_frame("aten::conv2d");
  const uint32_t conv = script.open_frame("aten::convolution", outer);
  script.record.frames[conv - 1].calls_library = true;
  script.add(Kind::kAllocate, 1, 8, conv);   // scratch
  script.add(Kind::kAllocate, 2, 16, conv);  // result
  script.add(Kind::kRelease, 1, 8, conv);
  script.close_frame(conv);
  script.close_frame(outer);
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.peak.of(Owner::kWorkspace), 8);
  EXPECT_EQ(result.peak.of(Owner::kTemporary), 16);
  EXPECT_EQ(result.peak_operator, "aten::conv2d > aten::convolution");
  EXPECT_EQ(result.allocations, 2);
  expect_closed(result);
}

TEST(Attribution, tells_scratch_of_an_operator_that_is_run_again_from_what_it_makes_again) {
  for (const bool library : {true, false}) {
    Script script;
    const uint32_t frame = script.open_frame("aten::convolution");
    script.record.frames[frame - 1].calls_library = library;
    script.add(Kind::kAllocate, 1, 8, frame, Owner::kRematerialized);
    script.add(Kind::kAllocate, 2, 100, frame, Owner::kRematerialized);
    script.add(Kind::kRelease, 2, 100, frame, Owner::kRematerialized);
    script.close_frame(frame);
    script.add(Kind::kRelease, 1, 8, 0, Owner::kRematerialized);
    const Attribution result = attribute(script.record);
    EXPECT_EQ(result.peak.of(Owner::kRematerialized), 8);
    EXPECT_EQ(result.peak.of(library ? Owner::kWorkspace : Owner::kTemporary), 100);
    EXPECT_EQ(result.peak_saved_bytes, 8);
    expect_closed(result);
  }
}

TEST(Attribution, knows_the_cast_of_a_weight_for_all_its_life) {
  Script script;
  const uint32_t cast = script.open_frame("aten::to");
  script.record.frames[cast - 1].casts_weight = true;
  script.add(Kind::kAllocate, 1, 8, cast);
  script.close_frame(cast);
  script.add(Kind::kSaved, 1, 8);
  script.walk("forward_end", {});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.boundaries.at(0).at.of(Owner::kAutocastCache), 8);
  EXPECT_EQ(result.boundaries.at(0).at.saved_bytes(), 0);
}

TEST(Attribution, names_the_phase_of_the_peak) {
  Script script;
  script.walk("step_begin", {});
  script.add(Kind::kAllocate, 1, 8);
  script.walk("forward_end", {});
  script.add(Kind::kAllocate, 2, 8);
  script.add(Kind::kRelease, 2, 8);
  script.walk("backward_end", {});
  const Attribution result = attribute(script.record);
  EXPECT_EQ(result.peak.live_bytes, 16);
  EXPECT_EQ(result.peak_after, "forward_end");
}

TEST(BlockLives, are_told_by_birth_with_the_first_owner_that_a_block_ever_had) {
  Script script(40);
  script.walk("step_begin", {{{7, 40}, Owner::kWeights}});
  const uint32_t frame = script.open_frame("aten::silu");
  script.add(Kind::kAllocate, 9, 16, frame);
  script.close_frame(frame);
  script.add(Kind::kSaved, 9, 16);
  script.add(Kind::kAllocate, 8, 4);
  script.walk("forward_end", {{{7, 40}, Owner::kWeights}});
  script.add(Kind::kUnsaved, 9, 16);
  script.add(Kind::kRelease, 9, 16);
  const std::vector<BlockLife> lives = block_lives(script.record);
  ASSERT_EQ(lives.size(), 3U);
  EXPECT_EQ(lives[0].block.number, 7U);
  EXPECT_EQ(lives[0].birth, 0U);
  EXPECT_EQ(lives[0].owner, Owner::kWeights);
  EXPECT_EQ(lives[1].block.number, 9U);
  EXPECT_EQ(lives[1].owner, Owner::kActivations) << "temporary before, and never again";
  EXPECT_EQ(lives[1].frame, frame);
  EXPECT_EQ(lives[1].death, script.record.events.size());
  EXPECT_EQ(lives[2].owner, Owner::kUnattributed);
  EXPECT_EQ(lives[2].death, BlockLife::kStillLive);
}

}  // namespace
}  // namespace noisemark::memopt
