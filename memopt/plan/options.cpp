#include "memopt/plan/options.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "memopt/plan/resolve.h"
#include "memopt/treatment/recipe.h"

namespace noisemark::memopt {
namespace {

size_t index_of(const StepGraph& graph, const RecordedOperator& op) {
  return static_cast<size_t>(&op - graph.operators.data());
}

/// The same functions, which have no state. It is false where that cannot be told.
bool asks_alike(const Policy& a, const Policy& b) {
  using Ask = bool (*)(const StepGraph&, const RecordedOperator&);
  const auto same = [](const auto& x, const auto& y) {
    const Ask* p = x.template target<Ask>();
    const Ask* q = y.template target<Ask>();
    return (!x && !y) || (p != nullptr && q != nullptr && *p == *q);
  };
  return same(a.may_replay, b.may_replay) && same(a.light, b.light);
}

/// The part of `overrides` that recipes and codecs do not know themselves: every plan copies it.
Overrides in_every_plan(const Overrides& known) {
  Overrides overrides;
  overrides.keep = known.keep;
  overrides.crossing = known.crossing;
  overrides.no_room = known.no_room;
  overrides.replay = known.replay;
  return overrides;
}

}  // namespace

BlockOptions::BlockOptions(std::shared_ptr<const StepGraph> graph, std::vector<BlockOption> options,
                           Overrides overrides)
    : graph_(std::move(graph)),
      options_(std::move(options)),
      known_(std::move(overrides)),
      overrides_(in_every_plan(known_)),
      recipes_(std::make_unique<RecipeBook>(graph_, known_.shortcut_ns)),
      blocks_(graph_->segments.size() + 1) {
  mark_operators();
  mark_needed();
  mark_slots();
  mark_crossing();
  group_codecs();
  find_same_options();
}

std::string BlockOptions::name(size_t block) const {
  return block == 0 ? "" : graph_->segments[block - 1];
}

size_t BlockOptions::block_of_operator(OperatorId id) const {
  const SegmentId segment = graph_->operators[static_cast<size_t>(id)].segment;
  return segment == kNone ? 0 : static_cast<size_t>(segment) + 1;
}

/// Runs once, because a policy may look at the whole graph to decide about one operator.
void BlockOptions::mark_operators() {
  for (size_t o = 0; o < options_.size(); ++o) {
    const Policy& policy = options_[o].policy;
    size_t known = 0;
    while (known < o && !asks_alike(options_[known].policy, policy)) ++known;
    if (known < o) {
      replays_.push_back(replays_[known]);
      light_.push_back(light_[known]);
      continue;
    }
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

/// Backwards, because a result is read by later operators alone.
void BlockOptions::mark_needed() {
  needed_.assign(graph_->operators.size(), false);
  for (size_t op = needed_.size(); op-- > 0;) {
    for (const ValueId id : graph_->operators[op].results) {
      if (id == kNone) continue;
      const RecordedValue& value = graph_->values[static_cast<size_t>(id)];
      const bool read = std::any_of(value.readers.begin(), value.readers.end(),
                                    [&](OperatorId r) { return needed_[static_cast<size_t>(r)]; });
      if (read || !value.slots.empty()) needed_[op] = true;
    }
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

/// Runs once for all plans, because they ask for every value. Of values that share their memory
/// only the first to be saved is encoded, and was tried.
void BlockOptions::group_codecs() {
  groups_.emplace_back();
  for (const BlockOption& option : options_) group_.push_back(group_of(option));
  for (CodecGroup& group : groups_) {
    group.of_value.resize(graph_->values.size());
    for (const RecordedStorage& storage : graph_->storages) {
      const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
      if (!memory) continue;
      group.of_value[static_cast<size_t>(memory->first)] = known_codecs(group, memory->first);
    }
  }
}

size_t BlockOptions::group_of(const BlockOption& option) {
  if (!option.policy.codec) return 0;
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (groups_[g].forms == option.forms) return g;
  }
  groups_.push_back({option.forms, option.policy.codec, {}});
  return groups_.size() - 1;
}

/// A value that nobody saved may be cut out of something else. An exact codec of it is known to be
/// exact where it was tried.
BlockOptions::Codecs BlockOptions::known_codecs(const CodecGroup& group, ValueId id) const {
  if (!group.choice) return {};
  Codecs codecs = group.choice(*graph_, id);
  const bool saved = !graph_->values[static_cast<size_t>(id)].slots.empty();
  const bool tried = saved || known_.tried_parts.count(id) != 0;
  std::erase_if(codecs, [&](const std::shared_ptr<const Codec>& codec) {
    return known_.refuses(id, *codec) || (codec->lossless() && !tried);
  });
  return codecs;
}

void BlockOptions::find_same_options() {
  for (size_t o = 0; o < options_.size(); ++o) {
    size_t same = 0;
    while (!treat_alike(same, o)) ++same;
    same_as_.push_back(same);
  }
}

bool BlockOptions::treat_alike(size_t a, size_t b) const {
  return a == b || (replays_[a] == replays_[b] && light_[a] == light_[b] &&
                    options_[a].policy.keep_what_crosses_segments ==
                        options_[b].policy.keep_what_crosses_segments &&
                    have_same_codecs(group_[a], group_[b]));
}

bool BlockOptions::have_same_codecs(size_t a, size_t b) const {
  const auto same_form = [](const std::shared_ptr<const Codec>& x,
                            const std::shared_ptr<const Codec>& y) {
    return x == y || x->form() == y->form();
  };
  return a == b ||
         std::equal(groups_[a].of_value.begin(), groups_[a].of_value.end(),
                    groups_[b].of_value.begin(), [&](const Codecs& x, const Codecs& y) {
                      return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_form);
                    });
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
  for (const BlockOption& option : options_) {
    if (option.policy.runs_apart) policy.runs_apart = option.policy.runs_apart;
  }
  policy.codec = [this, &option_of](const StepGraph& graph, ValueId id) -> Codecs {
    const RecordedValue& value = graph.values[static_cast<size_t>(id)];
    if (value.producer == kNone) return {};
    return codecs_given(option_of[static_cast<size_t>(value.producer)], id);
  };
  policy.rounds = std::any_of(option_of.begin(), option_of.end(),
                              [this](size_t option) { return options_[option].policy.rounds; });
  return policy;
}

BlockOptions::Codecs BlockOptions::codecs_given(size_t option, ValueId id) const {
  const CodecGroup& group = groups_[group_[option]];
  const auto at = static_cast<size_t>(id);
  return graph_->values[at].slots.empty() ? known_codecs(group, id) : group.of_value[at];
}

TreatmentPlan BlockOptions::plan(const std::vector<size_t>& chosen,
                                 const std::vector<StorageId>& held) const {
  std::vector<size_t> option_of;
  for (size_t op = 0; op < graph_->operators.size(); ++op) {
    option_of.push_back(chosen[block_of_operator(static_cast<OperatorId>(op))]);
  }
  TreatmentPlan plan =
      resolve(graph_, combined(option_of), overrides_of(option_of, held), *recipes_);
  plan.looks_again = false;
  return plan;
}

/// The values come in order, so each is inserted at the end.
Overrides BlockOptions::overrides_of(const std::vector<size_t>& option_of,
                                     const std::vector<StorageId>& held) const {
  Overrides overrides = overrides_;
  const auto append = [](std::set<ValueId>& to, size_t v) {
    to.insert(to.end(), static_cast<ValueId>(v));
  };
  for (size_t v = 0; v < graph_->values.size(); ++v) {
    const OperatorId producer = graph_->values[v].producer;
    if (producer == kNone) continue;
    const size_t option = option_of[static_cast<size_t>(producer)];
    const bool keeps_crossing = options_[option].policy.keep_what_crosses_segments;
    if (crossing_[v] && keeps_crossing) append(overrides.crossing, v);
    const Limited* limits = limits_of(option);
    if (limits == nullptr) continue;
    if (limits->spared[v]) append(overrides.spared, v);
    if (limits->as_saved[v]) append(overrides.as_saved, v);
  }
  for (const StorageId storage : held) {
    for (const ValueId id : graph_->storages[static_cast<size_t>(storage)].values) {
      if (graph_->values[static_cast<size_t>(id)].slots.empty()) continue;
      overrides.spared.insert(id);
      overrides.as_saved.insert(id);
    }
  }
  return overrides;
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
  Overrides overrides = overrides_;
  for (size_t v = 0; v < crossing_.size(); ++v) {
    const OperatorId producer = graph_->values[v].producer;
    if (crossing_[v] && !replayed_by(static_cast<size_t>(producer), true)) {
      overrides.crossing.insert(static_cast<ValueId>(v));
    }
  }
  TreatmentPlan plan = resolve(graph_, policy, overrides, *recipes_);
  for (const RecordedStorage& storage : graph_->storages) {
    const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
    if (memory) try_codecs(plan, memory->first, memory->whole);
  }
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const bool part = plan.values[v].source == Source::kSliced;
    if (part) try_codecs(plan, static_cast<ValueId>(v), /*whole=*/false);
  }
  return plan;
}

/// The rounding ones take every value.
void BlockOptions::try_codecs(TreatmentPlan& plan, ValueId id, bool whole) const {
  CodecTrial trial;
  trial.whole = whole;
  std::set<std::string> forms;
  for (const CodecGroup& group : groups_) {
    if (!group.choice) continue;
    for (std::shared_ptr<const Codec>& codec : group.choice(*graph_, id)) {
      if (!codec->lossless() || known_.refuses(id, *codec)) continue;
      if (forms.insert(codec->form()).second) trial.codecs.push_back(std::move(codec));
    }
  }
  if (!trial.codecs.empty()) plan.trials.emplace(id, std::move(trial));
}

bool BlockOptions::may_make_again(ValueId id) const {
  const RecordedValue& value = graph_->values[static_cast<size_t>(id)];
  const RecordedStorage& storage = graph_->storages[static_cast<size_t>(value.storage)];
  if (value.producer == kNone || !value.has_history || known_.keep.count(id) != 0) return false;
  if (storage.external || storage.kept_as_is || storage.written_in_place) return false;
  const auto producer = static_cast<size_t>(value.producer);
  return graph_->operators[producer].repeatable &&
         std::any_of(replays_.begin(), replays_.end(),
                     [producer](const std::vector<bool>& replays) { return replays[producer]; });
}

std::vector<std::shared_ptr<const Codec>> BlockOptions::codecs_of(ValueId id) const {
  Codecs codecs;
  std::set<std::string> forms;
  for (const CodecGroup& group : groups_) {
    for (const std::shared_ptr<const Codec>& codec : group.of_value[static_cast<size_t>(id)]) {
      if (forms.insert(codec->form()).second) codecs.push_back(codec);
    }
  }
  return codecs;
}

bool BlockOptions::rounds_in(size_t block, const TreatmentPlan& plan) const {
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const Codec* codec = plan.values[v].codec;
    const OperatorId producer = graph_->values[v].producer;
    if (codec == nullptr || codec->keeps_sign() || producer == kNone) continue;
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

// Options with price limits: within a block, what is cheap to free is freed and the rest is held.

namespace noisemark::memopt {

void BlockOptions::add_price_limits(const CodecFigures& figures) {
  const size_t bases = options_.size();
  for (size_t base = 0; base < bases; ++base) {
    if (same_as_[base] < base || !options_[base].rounding.empty()) continue;
    const TreatmentPlan uniform = plan(std::vector<size_t>(blocks_, base));
    for (const PriceLimit& limit : price_limits(freed_storages(uniform, figures))) {
      std::string name = options_[base].name + ", " + words_of(limit);
      if (name != options_.back().name) {
        add_limited(limited_by(limit, base, figures), std::move(name));
      }
    }
  }
}

void BlockOptions::add_price_limits_of(const BlockOptions& other) {
  for (size_t i = 0; i < other.limited_.size(); ++i) {
    add_limited(other.limited_[i], other.options_[other.unlimited() + i].name);
  }
}

void BlockOptions::add_limited(Limited limited, std::string name) {
  const size_t base = limited.base;
  BlockOption option = options_[base];
  option.name = std::move(name);
  options_.push_back(std::move(option));
  replays_.push_back(replays_[base]);
  light_.push_back(light_[base]);
  group_.push_back(group_[base]);
  same_as_.push_back(same_as_.size());
  limited_.push_back(std::move(limited));
}

BlockOptions::Limited BlockOptions::limited_by(const PriceLimit& limit, size_t base,
                                               const CodecFigures& figures) const {
  const std::vector<bool> none(graph_->values.size(), false);
  Limited limited{base, none, none};
  for (const StorageId id : limit.held) {
    const RecordedStorage& storage = graph_->storages[static_cast<size_t>(id)];
    const bool encodes = encodes_within(limit, base, storage, figures);
    for (const ValueId value : storage.values) {
      const auto v = static_cast<size_t>(value);
      if (graph_->values[v].slots.empty()) continue;
      limited.spared[v] = true;
      limited.as_saved[v] = !encodes;
    }
  }
  return limited;
}

/// A storage that costs too much to recompute may be cheap to hold in another form.
bool BlockOptions::encodes_within(const PriceLimit& limit, size_t base,
                                  const RecordedStorage& storage,
                                  const CodecFigures& figures) const {
  const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
  if (!memory) return false;
  const Codecs codecs = codecs_given(base, memory->first);
  if (codecs.empty()) return false;
  const CodecFigure figure = figures(*codecs.front(), form_to_encode(*graph_, storage, *memory));
  const auto freed_bytes = static_cast<double>(storage.bytes - figure.bytes);
  const auto ns = static_cast<double>(figure.encode_ns + figure.decode_ns);
  return ns <= limit.most_ns_per_byte * freed_bytes;
}

const BlockOptions::Limited* BlockOptions::limits_of(size_t option) const {
  return option < unlimited() ? nullptr : &limited_[option - unlimited()];
}

std::vector<size_t> BlockOptions::distinct_in(size_t block) const {
  std::vector<size_t> distinct;
  std::set<std::string> known;
  for (size_t o = 0; o < options_.size(); ++o) {
    if (known.insert(treatment_of(block, o)).second) distinct.push_back(o);
  }
  return distinct;
}

/// All that a plan asks the block's option about, in letters.
std::string BlockOptions::treatment_of(size_t block, size_t option) const {
  const bool keeps_crossing = options_[option].policy.keep_what_crosses_segments;
  const Limited* limits = limits_of(option);
  std::string words;
  for (size_t op = 0; op < needed_.size(); ++op) {
    if (!needed_[op] || block_of_operator(static_cast<OperatorId>(op)) != block) continue;
    words += replays_[option][op] ? 'r' : 'k';
    if (light_[option][op]) words += 'l';
    for (const ValueId id : graph_->operators[op].results) {
      if (id == kNone) continue;
      const auto v = static_cast<size_t>(id);
      if (keeps_crossing && crossing_[v]) words += 'c';
      if (limits != nullptr && limits->spared[v]) words += 's';
      if (limits != nullptr && limits->as_saved[v]) words += 'a';
      for (const std::shared_ptr<const Codec>& codec : codecs_given(option, id)) {
        words.append(codec->form()).append(";");
      }
    }
  }
  return words;
}

void BlockOptions::ask_for_all(const CodecFigures& figures) const {
  for (const CodecGroup& group : groups_) {
    for (const RecordedStorage& storage : graph_->storages) {
      const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
      if (!memory) continue;
      const RecordedValue form = form_to_encode(*graph_, storage, *memory);
      for (const auto& codec : group.of_value[static_cast<size_t>(memory->first)]) {
        static_cast<void>(figures(*codec, form));
      }
    }
    for (const ValueId part : known_.tried_parts) {
      for (const auto& codec : known_codecs(group, part)) {
        static_cast<void>(figures(*codec, graph_->values[static_cast<size_t>(part)]));
      }
    }
  }
}

}  // namespace noisemark::memopt
