#include "memopt/plan/options.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "memopt/codec_choice.h"
#include "memopt/policies.h"
#include "memopt/replay/recipe.h"

namespace noisemark::memopt {
namespace {

size_t index_of(const StepGraph& graph, const RecordedOperator& op) {
  return static_cast<size_t>(&op - graph.operators.data());
}

using Replay = ModeParts::Replay;
using Rounding = ModeParts::Rounding;

constexpr std::array kReplays = {Replay::kNothing, Replay::kEcho, Replay::kEchoAttention,
                                 Replay::kMirrorEcho, Replay::kMirror};
constexpr std::array kRoundings = {Rounding::kDpr16, Rounding::kDpr10, Rounding::kDpr8,
                                   Rounding::kQ4, Rounding::kQ2};

BlockOption lossless_option(Replay replay) {
  const ModeParts parts{.replay = replay};
  return {replay == Replay::kNothing ? "keep" : spelling_of(parts), policy_of(parts), parts};
}

BlockOption rounding_option(Replay replay, Rounding rounding) {
  const ModeParts parts{.replay = replay, .rounding = rounding};
  BlockOption option{spelling_of(parts), policy_of(parts), parts};
  // The same codecs in the same order in every option, so that what is known of them holds in all.
  if (replay == Replay::kNothing) {
    option.policy.codec = codec_choice({.replay = Replay::kEcho, .rounding = rounding});
  }
  return option;
}

}  // namespace

std::vector<BlockOption> lossless_options() {
  std::vector<BlockOption> options;
  for (const Replay replay : kReplays) options.push_back(lossless_option(replay));
  return options;
}

std::vector<BlockOption> all_options() {
  std::vector<BlockOption> options = lossless_options();
  for (const Rounding rounding : kRoundings) {
    for (const Replay replay : kReplays) options.push_back(rounding_option(replay, rounding));
  }
  return options;
}

BlockOptions::BlockOptions(std::shared_ptr<const StepGraph> graph, std::vector<BlockOption> options,
                           Overrides overrides)
    : graph_(std::move(graph)),
      options_(std::move(options)),
      overrides_(std::move(overrides)),
      recipes_(std::make_unique<RecipeBook>(graph_, overrides_.shortcut_ns)),
      blocks_(graph_->segments.size() + 1) {
  overrides_.shortcut_ns.clear();  // the recipes know; every plan copies the rest
  mark_operators();
  mark_slots();
  mark_crossing();
  refuse_what_was_not_tried();
}

std::string BlockOptions::name(size_t block) const {
  return block == 0 ? "" : graph_->segments[block - 1];
}

size_t BlockOptions::block_of_operator(OperatorId id) const {
  return static_cast<size_t>(graph_->operators[static_cast<size_t>(id)].segment + 1);
}

/// Once, because a policy may look at the whole graph to decide about one operator.
void BlockOptions::mark_operators() {
  for (const BlockOption& option : options_) {
    const Policy& policy = option.policy;
    std::vector<bool> replays;
    std::vector<bool> light;
    for (const RecordedOperator& op : graph_->operators) {
      replays.push_back(policy.may_replay(*graph_, op));
      light.push_back(policy.light && policy.light(*graph_, op));
    }
    replays_.push_back(std::move(replays));
    light_.push_back(std::move(light));
  }
}

void BlockOptions::mark_slots() {
  size_t block = 0;
  for (const RecordedSlot& slot : graph_->slots) {
    // An operator of an earlier segment among later ones, such as what the time embedding does in
    // each block, runs when the later ones do.
    if (slot.saved_by != kNone) block = std::max(block, block_of_operator(slot.saved_by));
    block_at_.push_back(block);
  }
}

void BlockOptions::mark_crossing() {
  for (size_t v = 0; v < graph_->values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    crossing_.push_back(crosses(id) && !is_all_parts(id));
  }
}

bool BlockOptions::crosses(ValueId id) const {
  const RecordedValue& value = graph_->values[static_cast<size_t>(id)];
  if (value.producer == kNone) return false;
  const size_t block = block_of_operator(value.producer);
  return std::any_of(value.readers.begin(), value.readers.end(),
                     [&](OperatorId reader) { return block_of_operator(reader) != block; });
}

/// Such a value is not kept itself: its parts are.
bool BlockOptions::is_all_parts(ValueId id) const {
  for (const Argument& argument : graph_->producer_of(id)->arguments) {
    for (const ValueId input : argument.values) {
      if (input != kNone && !slice_of_input(*graph_, id, input).has_value()) return false;
    }
  }
  return true;
}

/// The pass that compared what could be made again did not try to encode it: where another plan
/// holds it, nothing is known of its exact codecs.
void BlockOptions::refuse_what_was_not_tried() {
  const TreatmentPlan plan = plan_to_verify();
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].codec != nullptr) continue;
    const auto id = static_cast<ValueId>(v);
    int exact = 0;
    while (exact_codec(id, exact) != nullptr) ++exact;
    if (exact == 0) continue;
    int& refusals = overrides_.refusals[id];
    refusals = std::max(refusals, exact);
  }
}

/// Of the options that are lossless and encode.
std::unique_ptr<Codec> BlockOptions::exact_codec(ValueId id, int attempt) const {
  for (const BlockOption& option : options_) {
    if (option.policy.codec) return option.policy.codec(*graph_, id, attempt);
  }
  return nullptr;
}

/// `option_of`: by operator. It must outlive the policy.
Policy BlockOptions::combined(const std::vector<size_t>& option_of) const {
  Policy policy;
  policy.may_replay = [this, &option_of](const StepGraph& graph, const RecordedOperator& op) {
    const size_t at = index_of(graph, op);
    return replays_[option_of[at]][at];
  };
  policy.light = [this, &option_of](const StepGraph& graph, const RecordedOperator& op) {
    const size_t at = index_of(graph, op);
    return light_[option_of[at]][at];
  };
  policy.codec = [this, &option_of](const StepGraph& graph, ValueId id,
                                    int attempt) -> std::unique_ptr<Codec> {
    const OperatorId producer = graph.values[static_cast<size_t>(id)].producer;
    if (producer == kNone) return nullptr;
    const CodecChoice& choice = options_[option_of[static_cast<size_t>(producer)]].policy.codec;
    return choice ? choice(graph, id, attempt) : nullptr;
  };
  return policy;
}

TreatmentPlan BlockOptions::plan(const std::vector<size_t>& chosen) const {
  std::vector<size_t> option_of;
  for (size_t op = 0; op < graph_->operators.size(); ++op) {
    option_of.push_back(chosen[block_of_operator(static_cast<OperatorId>(op))]);
  }
  Overrides overrides = overrides_;
  for (size_t v = 0; v < crossing_.size(); ++v) {
    if (!crossing_[v]) continue;
    const size_t option = option_of[static_cast<size_t>(graph_->values[v].producer)];
    if (options_[option].policy.keep_what_crosses_segments) {
      overrides.crossing.insert(static_cast<ValueId>(v));
    }
  }
  return resolve(graph_, combined(option_of), overrides, *recipes_);
}

TreatmentPlan BlockOptions::plan_to_verify() const {
  const auto replayed_by = [this](size_t op, bool although_it_crosses) {
    for (size_t o = 0; o < options_.size(); ++o) {
      const bool kept = although_it_crosses && options_[o].policy.keep_what_crosses_segments;
      if (replays_[o][op] && !kept) return true;
    }
    return false;
  };
  Policy policy;
  policy.may_replay = [replayed_by](const StepGraph& graph, const RecordedOperator& op) {
    return replayed_by(index_of(graph, op), false);
  };
  policy.codec = [this](const StepGraph&, ValueId id, int attempt) {
    return exact_codec(id, attempt);
  };
  Overrides overrides = overrides_;
  for (size_t v = 0; v < crossing_.size(); ++v) {
    const OperatorId producer = graph_->values[v].producer;
    if (crossing_[v] && !replayed_by(static_cast<size_t>(producer), true)) {
      overrides.crossing.insert(static_cast<ValueId>(v));
    }
  }
  return resolve(graph_, policy, overrides, *recipes_);
}

bool BlockOptions::may_make_again(ValueId id) const {
  const RecordedValue& value = graph_->values[static_cast<size_t>(id)];
  const RecordedStorage& storage = graph_->storages[static_cast<size_t>(value.storage)];
  if (value.producer == kNone || !value.has_history || overrides_.keep.count(id) != 0) return false;
  if (storage.external || storage.written_in_place) return false;
  const auto producer = static_cast<size_t>(value.producer);
  return graph_->operators[producer].repeatable &&
         std::any_of(replays_.begin(), replays_.end(),
                     [producer](const std::vector<bool>& replays) { return replays[producer]; });
}

/// Options that round alike have the same codecs.
std::vector<std::unique_ptr<Codec>> BlockOptions::codecs_of(ValueId id) const {
  std::vector<std::unique_ptr<Codec>> codecs;
  const auto refused = overrides_.refusals.find(id);
  const int first = refused == overrides_.refusals.end() ? 0 : refused->second;
  std::set<ModeParts::Rounding> seen;
  for (const BlockOption& option : options_) {
    if (first == Overrides::kEveryCodec) break;
    if (!option.policy.codec || !seen.insert(option.parts.rounding).second) continue;
    for (int attempt = first;; ++attempt) {
      std::unique_ptr<Codec> codec = option.policy.codec(*graph_, id, attempt);
      if (codec == nullptr) break;
      codecs.push_back(std::move(codec));
    }
  }
  return codecs;
}

bool BlockOptions::rounds_in(size_t block, const TreatmentPlan& plan) const {
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const Codec* codec = plan.values[v].codec;
    const OperatorId producer = graph_->values[v].producer;
    if (codec == nullptr || codec->lossless() || producer == kNone) continue;
    if (block_of_operator(producer) == block) return true;
  }
  return false;
}

/// The block whose option decided about what the slot saved.
size_t BlockOptions::block_that_brings(SlotId slot) const {
  const RecordedSlot& recorded = graph_->slots[static_cast<size_t>(slot)];
  const OperatorId producer = graph_->values[static_cast<size_t>(recorded.value)].producer;
  return producer == kNone ? block_at(slot) : block_of_operator(producer);
}

std::vector<plan::Block> BlockOptions::choices(const std::vector<PeakTimeline>& uniform,
                                               const std::vector<OtherBytes>& other,
                                               bool live) const {
  std::vector<plan::Block> blocks(blocks_, plan::Block(options_.size()));
  for (size_t o = 0; o < options_.size(); ++o) {
    const PeakTimeline& timeline = uniform[o];
    for (size_t s = 0; s < graph_->slots.size(); ++s) {
      const size_t block = block_that_brings(static_cast<SlotId>(s));
      blocks[block][o].held_bytes += timeline.held_by_slot[s];
    }
    for (size_t op = 0; op < graph_->operators.size(); ++op) {
      blocks[block_of_operator(static_cast<OperatorId>(op))][o].cost_ns +=
          static_cast<double>(timeline.operator_cost[op]);
    }
    std::vector<int64_t> held_before(blocks_, 0);
    for (size_t b = 1; b < blocks_; ++b) {
      held_before[b] = held_before[b - 1] + blocks[b - 1][o].held_bytes;
    }
    for (size_t e = 0; e < timeline.events.size(); ++e) {
      const TimelineEvent& event = timeline.events[e];
      const size_t block = event.slot == kNone ? 0 : block_at(event.slot);
      const int64_t bytes =
          live ? live_bytes(timeline, other, e) : std::max(event.between.saved, event.at.saved);
      int64_t& window = blocks[block][o].window_bytes;
      window = std::max(window, bytes - held_before[block]);
    }
  }
  return blocks;
}

}  // namespace noisemark::memopt
