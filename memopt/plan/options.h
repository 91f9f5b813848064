#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memopt/plan/block_program.h"
#include "memopt/plan/freed_storages.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// One way to treat a block: what `policy` would do, were all of the model treated so.
struct BlockOption {
  std::string name;  ///< as in reports: "echo"; with a price limit "echo, up to 0.8 ns/B"
  Policy policy;
  std::string forms = {};     ///< options with the same word have the same codecs, or none
  std::string rounding = {};  ///< the word of how held values are rounded; empty: they are exact
  bool recomputes = false;    ///< some values are recomputed, not all are held
  /// The blocks' shares of the error are measured by this option. Its errors are neither lost in
  /// rounding nor so large that they no longer add up.
  bool compares_blocks = false;
};

/// The model cut into its segments, each of which can be treated by another option. What a segment
/// makes is treated by its own option, whoever reads it.
class BlockOptions {
 public:
  /// `options`: the first keeps everything (modes/budget.h). `overrides`: what is known of
  /// recipes and codecs, which every plan heeds.
  BlockOptions(std::shared_ptr<const StepGraph> graph, std::vector<BlockOption> options,
               Overrides overrides);

  /// Adds to each lossless option that frees storages at different prices the same option with
  /// price limits (plan/freed_storages.h): of a block it frees what is cheap, and holds the rest.
  /// It is called once, with the options of before first.
  void add_price_limits(const CodecFigures& figures);
  /// Other options for the same graph have the same: they were made of the same list.
  void add_price_limits_of(const BlockOptions& other);
  /// Counts those of options(), the first, that have no price limit.
  [[nodiscard]] size_t unlimited() const { return options_.size() - limited_.size(); }
  /// Has `figures` tell about every codec that a plan may take, which may measure it.
  void ask_for_all(const CodecFigures& figures) const;

  [[nodiscard]] size_t blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<BlockOption>& options() const { return options_; }
  /// The first option that treats every block as this one does, by what is known: no value is
  /// sparse, say, so that "gist" is "exact".
  [[nodiscard]] size_t same_as(size_t option) const { return same_as_[option]; }
  /// The options that treat this block each in another way, the first of those that treat it alike:
  /// all other choices give plans that choices among these give too.
  [[nodiscard]] std::vector<size_t> distinct_in(size_t block) const;
  [[nodiscard]] const std::shared_ptr<const StepGraph>& graph() const { return graph_; }
  /// Returns the block's name in the graph; the first, "", is what belongs to no segment.
  [[nodiscard]] std::string name(size_t block) const;
  [[nodiscard]] size_t block_of_operator(OperatorId id) const;
  /// The block whose operators run when a timeline is at this slot.
  [[nodiscard]] size_t block_at(SlotId slot) const { return block_at_[static_cast<size_t>(slot)]; }

  /// `chosen`: an index of options() for every block. `held`: storages that are held as they were
  /// saved, whatever the options do with them.
  [[nodiscard]] TreatmentPlan plan(const std::vector<size_t>& chosen,
                                   const std::vector<StorageId>& held = {}) const;
  /// Recomputes whatever some option may recompute, and tries the codecs of all options on all
  /// that is saved, so that following it once with everything kept shows which recipes and codecs
  /// are exact.
  [[nodiscard]] TreatmentPlan plan_to_verify() const;
  /// Returns whether some plan may recompute the value: an option replays its operator, and
  /// nothing that is known of the value speaks against it.
  [[nodiscard]] bool may_make_again(ValueId id) const;
  /// The codecs that some plan may give to the value: those of all options that are not refused.
  [[nodiscard]] std::vector<std::shared_ptr<const Codec>> codecs_of(ValueId id) const;
  [[nodiscard]] RecipeBook& recipes() const { return *recipes_; }
  /// Returns whether the plan rounds what a block has made. A sign where the sign is all that is
  /// asked for is not rounded.
  [[nodiscard]] bool rounds_in(size_t block, const TreatmentPlan& plan) const;

  /// The figures of each option in each block, from the timelines in which all blocks have that
  /// option, one for each. `live`: bytes are those of all owners, otherwise only what is held for
  /// backward.
  [[nodiscard]] std::vector<plan::Block> choices(const std::vector<PeakTimeline>& uniform,
                                                 const std::vector<OtherBytes>& other,
                                                 bool live) const;

 private:
  using Codecs = std::vector<std::shared_ptr<const Codec>>;
  /// The codecs of the options with the same `forms`.
  struct CodecGroup {
    std::string forms;
    CodecChoice choice;
    std::vector<Codecs> of_value;  ///< codecs of each saved value, without those refused
  };

  /// The values that an option holds because of its price limit.
  struct Limited {
    size_t base = 0;             ///< the option without it
    std::vector<bool> spared;    ///< a value is not recomputed
    std::vector<bool> as_saved;  ///< a value is not encoded either
  };

  void mark_operators();
  void mark_needed();
  void mark_slots();
  void mark_crossing();
  void group_codecs();
  void find_same_options();
  void add_limited(Limited limited, std::string name);
  [[nodiscard]] Limited limited_by(const PriceLimit& limit, size_t base,
                                   const CodecFigures& figures) const;
  [[nodiscard]] bool encodes_within(const PriceLimit& limit, size_t base,
                                    const RecordedStorage& storage,
                                    const CodecFigures& figures) const;
  [[nodiscard]] const Limited* limits_of(size_t option) const;
  [[nodiscard]] Overrides overrides_of(const std::vector<size_t>& option_of,
                                       const std::vector<StorageId>& held) const;
  [[nodiscard]] Codecs codecs_given(size_t option, ValueId id) const;
  [[nodiscard]] std::string treatment_of(size_t block, size_t option) const;
  [[nodiscard]] size_t group_of(const BlockOption& option);
  [[nodiscard]] Codecs known_codecs(const CodecGroup& group, ValueId id) const;
  [[nodiscard]] bool have_same_codecs(size_t a, size_t b) const;
  [[nodiscard]] bool treat_alike(size_t a, size_t b) const;
  void try_codecs(TreatmentPlan& plan, ValueId id, bool whole) const;
  [[nodiscard]] bool crosses(ValueId id) const;
  [[nodiscard]] bool is_all_parts(ValueId id) const;
  [[nodiscard]] size_t block_that_brings(SlotId slot) const;
  [[nodiscard]] Policy combined(const std::vector<size_t>& option_of) const;

  std::shared_ptr<const StepGraph> graph_;
  std::vector<BlockOption> options_;
  Overrides known_;
  Overrides overrides_;  ///< overrides of every plan: known_ without what recipes_ and groups_ use
  std::unique_ptr<RecipeBook> recipes_;
  size_t blocks_ = 0;
  std::vector<CodecGroup> groups_;          ///< the first has no codecs
  std::vector<size_t> group_;               ///< group of each option
  std::vector<size_t> same_as_;             ///< first option that does the same as each option
  std::vector<std::vector<bool>> replays_;  ///< the option replays the operator
  std::vector<std::vector<bool>> light_;    ///< the operator is light in the option
  std::vector<Limited> limited_;            ///< the last of the options
  std::vector<bool> needed_;                ///< something saved is made of an operator's results
  std::vector<size_t> block_at_;            ///< block of each slot
  std::vector<bool> crossing_;              ///< a value is kept where an option keeps what crosses
};

}  // namespace noisemark::memopt
