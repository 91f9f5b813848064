#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memopt/mode_grammar.h"
#include "memopt/plan/block_program.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// One way to treat a block: what `policy` would do, were all of the model treated so.
struct BlockOption {
  std::string name;  ///< as in reports: "echo"
  Policy policy;
  ModeParts parts = {};  ///< "echo"; of "keep" nothing
};

/// From keeping everything, the first, to replaying everything, all of them lossless.
[[nodiscard]] std::vector<BlockOption> lossless_options();
/// Those, and each of them with every way to round what it holds. Masks are held in 1 bit, what was
/// widened as it was before.
[[nodiscard]] std::vector<BlockOption> all_options();

/// The model cut into its segments, each of which can be treated by another option. What a segment
/// makes is treated by its own option, whoever reads it.
class BlockOptions {
 public:
  /// `overrides`: what is known of recipes and codecs, which every plan heeds.
  BlockOptions(std::shared_ptr<const StepGraph> graph, std::vector<BlockOption> options,
               Overrides overrides);

  [[nodiscard]] size_t blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<BlockOption>& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<const StepGraph>& graph() const { return graph_; }
  /// As in the graph; the first, "", is what belongs to no segment.
  [[nodiscard]] std::string name(size_t block) const;
  [[nodiscard]] size_t block_of_operator(OperatorId id) const;
  /// The block whose operators run when a timeline is at this slot.
  [[nodiscard]] size_t block_at(SlotId slot) const { return block_at_[static_cast<size_t>(slot)]; }

  /// `chosen`: an index of options() for every block.
  [[nodiscard]] TreatmentPlan plan(const std::vector<size_t>& chosen) const;
  /// Makes again whatever some option may make again, so that following it once with everything
  /// kept shows which recipes and codecs are exact.
  [[nodiscard]] TreatmentPlan plan_to_verify() const;
  /// Whether some plan may make the value again: an option replays its operator, and nothing that
  /// is known of the value speaks against it.
  [[nodiscard]] bool may_make_again(ValueId id) const;
  /// The codecs that a plan may give to the value, of every way to round, without those refused.
  [[nodiscard]] std::vector<std::unique_ptr<Codec>> codecs_of(ValueId id) const;
  /// Shared by all plans.
  [[nodiscard]] RecipeBook& recipes() const { return *recipes_; }
  /// Whether the plan rounds what a block has made.
  [[nodiscard]] bool rounds_in(size_t block, const TreatmentPlan& plan) const;

  /// What each option costs each block, from the timelines in which all blocks have that option,
  /// one for each. `live`: bytes are those of all owners, otherwise only what is held for backward.
  [[nodiscard]] std::vector<plan::Block> choices(const std::vector<PeakTimeline>& uniform,
                                                 const std::vector<OtherBytes>& other,
                                                 bool live) const;

 private:
  void mark_operators();
  void mark_slots();
  void mark_crossing();
  void refuse_what_was_not_tried();
  [[nodiscard]] bool crosses(ValueId id) const;
  [[nodiscard]] bool is_all_parts(ValueId id) const;
  [[nodiscard]] size_t block_that_brings(SlotId slot) const;
  [[nodiscard]] std::unique_ptr<Codec> exact_codec(ValueId id, int attempt) const;
  [[nodiscard]] Policy combined(const std::vector<size_t>& option_of) const;

  std::shared_ptr<const StepGraph> graph_;
  std::vector<BlockOption> options_;
  Overrides overrides_;
  std::unique_ptr<RecipeBook> recipes_;
  size_t blocks_ = 0;
  std::vector<std::vector<bool>> replays_;  ///< by option and operator
  std::vector<std::vector<bool>> light_;    ///< by option and operator
  std::vector<size_t> block_at_;            ///< by slot
  std::vector<bool> crossing_;              ///< by value: kept where an option keeps what crosses
};

}  // namespace noisemark::memopt
