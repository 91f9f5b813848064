#include "memopt/plan/peak_timeline.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "memopt/plan/plan_walk.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {
namespace {

class Meter {
 public:
  void add(int64_t saved, int64_t live) {
    now_.saved += saved;
    now_.live += live;
    high_.saved = std::max(high_.saved, now_.saved);
    high_.live = std::max(high_.live, now_.live);
  }
  [[nodiscard]] const MemoryLevel& now() const { return now_; }
  /// The most since it was last asked for.
  MemoryLevel take_high() { return std::exchange(high_, now_); }

 private:
  MemoryLevel now_;
  MemoryLevel high_;
};

/// A block of memory, live as long as a Memory refers to it.
struct SimulatedBlock {
  int64_t bytes = 0;
  int64_t references = 0;
  bool saved = false;
  bool noted = false;
};

/// Counts the references to a block by itself, because planning spent a fifth of its time on those
/// of std::shared_ptr and on blocks that come and go. A default one is nobody's memory to count.
class Memory {
 public:
  Memory() = default;
  Memory(SimulatedBlock& block, Meter& meter) : block_(&block), meter_(&meter) {
    ++block.references;
  }
  Memory(const Memory& other) : block_(other.block_), meter_(other.meter_) {
    if (block_ != nullptr) ++block_->references;
  }
  Memory(Memory&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), meter_(other.meter_) {}
  Memory& operator=(Memory other) noexcept {
    std::swap(block_, other.block_);
    std::swap(meter_, other.meter_);
    return *this;
  }
  ~Memory() {
    if (block_ == nullptr || --block_->references > 0) return;
    meter_->add(block_->saved ? -block_->bytes : 0, -block_->bytes);
  }
  [[nodiscard]] bool is_there() const { return block_ != nullptr; }
  SimulatedBlock* operator->() const { return block_; }

 private:
  SimulatedBlock* block_ = nullptr;
  Meter* meter_ = nullptr;
};

/// Returns, for every operator, the storages that the program let go when it had ended. What it
/// reads later than that was saved.
std::vector<std::vector<StorageId>> last_uses(const StepGraph& graph) {
  std::vector<std::vector<StorageId>> last(graph.operators.size());
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    const OperatorId gone = graph.storages[s].gone_at_operator;
    if (gone > 0) last[static_cast<size_t>(gone) - 1].push_back(static_cast<StorageId>(s));
  }
  return last;
}

/// Slots in the order in which backward asks for them.
std::vector<SlotId> unpacked_slots(const StepGraph& graph) {
  std::vector<SlotId> slots;
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    if (graph.slots[s].unpack_order != kNone) slots.push_back(static_cast<SlotId>(s));
  }
  std::sort(slots.begin(), slots.end(), [&](SlotId a, SlotId b) {
    return graph.slots[static_cast<size_t>(a)].unpack_order <
           graph.slots[static_cast<size_t>(b)].unpack_order;
  });
  return slots;
}

class Simulation {
 public:
  Simulation(const TreatmentPlan& plan, const CodecFigures& figures)
      : plan_(plan),
        graph_(*plan.graph),
        figures_(figures),
        in_use_(graph_.storages.size()),
        block_of_(graph_.storages.size(), nullptr),
        last_uses_(last_uses(graph_)),
        kept_(graph_.slots.size()),
        held_(graph_.values.size()),
        walk_(plan, *this),
        released_(graph_.slots.size(), false) {
    result_.operator_cost.assign(graph_.operators.size() + 1, 0);
  }

  PeakTimeline run() {
    forward();
    backward();
    for (const TimelineEvent& event : result_.events) {
      const int64_t most = std::max(event.between.saved, event.at.saved);
      result_.peak_saved_bytes = std::max(result_.peak_saved_bytes, most);
    }
    for (const int64_t cost : result_.operator_cost) result_.cost_ns += cost;
    return std::move(result_);
  }

 private:
  [[nodiscard]] const RecordedValue& recorded(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const ValueTreatment& treatment(ValueId id) const {
    return plan_.values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const RecordedStorage& storage(StorageId id) const {
    return graph_.storages[static_cast<size_t>(id)];
  }
  Memory allocate(int64_t bytes, bool saved) {
    meter_.add(saved ? bytes : 0, bytes);
    return {blocks_.emplace_back(SimulatedBlock{.bytes = bytes, .saved = saved}), meter_};
  }
  void mark_saved(const Memory& memory) {
    if (memory.is_there() && !std::exchange(memory->saved, true)) meter_.add(memory->bytes, 0);
  }
  void add_cost(ValueId id, int64_t ns) {
    const OperatorId producer = recorded(id).producer;
    const size_t last = graph_.operators.size();
    result_.operator_cost[producer == kNone ? last : static_cast<size_t>(producer)] += ns;
  }

  void forward() {
    for (size_t s = 0; s < graph_.slots.size(); ++s) {
      const RecordedSlot& slot = graph_.slots[s];
      // Autograd saves what an operator reads before the operator runs, and its result after.
      const OperatorId producer = recorded(slot.value).producer;
      const OperatorId saver = slot.saved_by != kNone ? slot.saved_by : producer;
      if (saver != kNone) run_until(saver);
      if (saver != kNone && saver == producer && saver == next_) begin(saver);
      save(static_cast<SlotId>(s));
    }
    run_until(static_cast<OperatorId>(graph_.operators.size()));
    between_ = meter_.take_high();
    result_.saved_bytes = meter_.now().saved;
    note_held();
  }

  /// Ends the operators before `id`.
  void run_until(OperatorId id) {
    for (; next_ < id; ++next_) {
      begin(next_);
      for (const StorageId done : last_uses_[static_cast<size_t>(next_)]) {
        in_use_[static_cast<size_t>(done)] = {};
      }
    }
  }

  /// May be called again for an operator that has begun.
  void begin(OperatorId id) {
    if (std::exchange(begun_, id) == id) return;
    const RecordedOperator& op = graph_.operators[static_cast<size_t>(id)];
    for (const ValueId result : op.results) {
      if (result != kNone) use(recorded(result).storage);
    }
    use_scratch(op.scratch_bytes);
  }

  /// None also for what nothing refers to any more.
  Memory use(StorageId id) {
    const auto at = static_cast<size_t>(id);
    if (storage(id).external) return {};
    SimulatedBlock*& block = block_of_[at];
    if (block != nullptr) return block->references > 0 ? Memory(*block, meter_) : Memory();
    Memory memory = allocate(storage(id).bytes, false);
    block = &blocks_.back();
    in_use_[at] = memory;
    return memory;
  }

  void save(SlotId slot) {
    TimelineEvent event{slot, false, meter_.take_high(), {}};
    const SlotTreatment& own = plan_.slots[static_cast<size_t>(slot)];
    const Memory memory = use(recorded(own.value).storage);
    mark_saved(memory);
    walk_.supply(slot, memory);
    if (!own.drops) kept_[static_cast<size_t>(slot)] = memory;
    event.at = meter_.take_high();
    result_.events.push_back(event);
  }

  void note_held() {
    result_.held_by_slot.assign(graph_.slots.size(), 0);
    const auto note = [&](SlotId slot, const Memory& memory) {
      if (!memory.is_there() || slot == kNone || std::exchange(memory->noted, true)) return;
      result_.held_by_slot[static_cast<size_t>(slot)] += memory->bytes;
    };
    for (size_t s = 0; s < kept_.size(); ++s) note(static_cast<SlotId>(s), kept_[s]);
    for (size_t v = 0; v < held_.size(); ++v) note(plan_.values[v].supplied_by, held_[v].memory);
    for (size_t s = 0; s < kept_.size(); ++s) {
      const Memory& used = in_use_[static_cast<size_t>(recorded(plan_.slots[s].value).storage)];
      note(static_cast<SlotId>(s), used);
    }
  }

  void backward() {
    note_what_goes();
    SlotId before = kNone;
    for (const SlotId slot : unpacked_slots(graph_)) {
      TimelineEvent event{slot, true, take_between(), {}};
      end_uses(graph_.slots[static_cast<size_t>(slot)].unpack_order);
      if (!are_of_one_node(before, slot)) finish_node();
      before = slot;
      static_cast<void>(meter_.take_high());
      unpack(slot);
      event.at = meter_.take_high();
      result_.events.push_back(event);
    }
    TimelineEvent end{kNone, true, take_between(), {}};
    finish_node();
    in_use_.assign(in_use_.size(), {});
    given_.clear();
    for (size_t s = 0; s < kept_.size(); ++s) release(static_cast<SlotId>(s));
    end.at = meter_.now();
    result_.events.push_back(end);
  }

  /// Returns whether both were asked for by one node, the second right after the first. A function
  /// of the program's own asks in the order in which it saved, and functions are asked in reverse.
  [[nodiscard]] bool are_of_one_node(SlotId first, SlotId second) const {
    if (first == kNone) return false;
    const OperatorId saved_by = graph_.slots[static_cast<size_t>(second)].saved_by;
    if (saved_by != graph_.slots[static_cast<size_t>(first)].saved_by) return false;
    return saved_by != kNone || static_cast<size_t>(second) == static_cast<size_t>(first) + 1;
  }

  /// Lets go of what the program held beyond the forward pass, or retained of its graph, until
  /// backward had asked for so many slots.
  void end_uses(int32_t unpacked) {
    for (; !retained_.empty() && retained_.begin()->first <= unpacked;
         retained_.erase(retained_.begin())) {
      for (const SlotId slot : retained_.begin()->second) release(slot);
    }
    const auto gone = gone_at_.find(unpacked);
    if (gone == gone_at_.end()) return;
    for (const size_t s : gone->second) in_use_[s] = {};
  }

  /// Runs once, because every unpacking asks.
  void note_what_goes() {
    for (size_t s = 0; s < graph_.storages.size(); ++s) {
      const int32_t at = graph_.storages[s].gone_at_unpack;
      if (at != kNone) gone_at_[at].push_back(s);
    }
  }

  MemoryLevel take_between() {
    const MemoryLevel since = meter_.take_high();
    const MemoryLevel before = std::exchange(between_, {});
    return {std::max(since.saved, before.saved), std::max(since.live, before.live)};
  }

  void unpack(SlotId slot) {
    ++unpackings_;
    node_slots_.push_back(slot);
    const SlotTreatment& own = plan_.slots[static_cast<size_t>(slot)];
    unpacked_.push_back(own.drops ? walk_.ask(slot) : kept_[static_cast<size_t>(slot)]);
    // The derivative of backward saves it, and stays until the graph of both has gone.
    if (graph_.slots[static_cast<size_t>(slot)].differentiated) given_.push_back(unpacked_.back());
  }

  /// A view that was written over is recomputed in memory of its own, with the gaps of its strides,
  /// on which a kernel's bits may depend.
  [[nodiscard]] int64_t bytes_made(ValueId id, const RecordedOperator& op) const {
    const RecordedValue& value = recorded(id);
    if (op.overwrites == kNone) return value.bytes();
    const size_t bytes =
        at::detail::computeStorageNbytes(value.sizes, value.strides, c10::elementSize(value.dtype));
    return static_cast<int64_t>(bytes);
  }

  /// The node has run: what it asked for goes, and with it what it saved and never asked for.
  void finish_node() {
    unpacked_.clear();
    for (const SlotId slot : std::exchange(node_slots_, {})) {
      const OperatorId saved_by = graph_.slots[static_cast<size_t>(slot)].saved_by;
      release_as_recorded(slot);
      if (saved_by == kNone) continue;
      release_neighbours(slot, saved_by, -1);
      release_neighbours(slot, saved_by, +1);
    }
  }

  void release_neighbours(SlotId slot, OperatorId saved_by, int step) {
    for (int64_t s = static_cast<int64_t>(slot) + step;
         s >= 0 && s < static_cast<int64_t>(kept_.size()); s += step) {
      const RecordedSlot& neighbour = graph_.slots[static_cast<size_t>(s)];
      if (neighbour.saved_by != saved_by) return;
      if (neighbour.unpack_order == kNone) release_as_recorded(static_cast<SlotId>(s));
    }
  }

  /// Lets go of it later than its node, where the graph was retained.
  void release_as_recorded(SlotId slot) {
    const int32_t gone_at = graph_.slots[static_cast<size_t>(slot)].gone_at_unpack;
    if (gone_at == kNone || gone_at <= unpackings_) return release(slot);
    retained_[gone_at].push_back(slot);
  }

  void release(SlotId slot) {
    const auto s = static_cast<size_t>(slot);
    if (released_[s]) return;
    released_[s] = true;
    kept_[s] = {};
    walk_.release(slot);
  }

  /// The value in whose name `id` is held: values that share their memory are encoded as one.
  [[nodiscard]] ValueId bringer_of(ValueId id) const {
    const ValueId bringer = treatment(id).encoded_with;
    return bringer == kNone ? id : bringer;
  }

  /// The memory that the codec is given: the value, or all of the memory that it shares.
  [[nodiscard]] RecordedValue encoded_form(ValueId id) const {
    RecordedValue form = recorded(id);
    if (treatment(id).encoded_with == kNone) return form;
    form.sizes = {storage(form.storage).bytes / static_cast<int64_t>(c10::elementSize(form.dtype))};
    return form;
  }

  // The walk's store, with bytes.
  friend class PlanWalk<Memory, Simulation>;

  [[nodiscard]] static bool is_there(const Memory& memory) { return memory.is_there(); }
  void look_at(SlotId /*slot*/, const Memory& /*saved*/) {}
  void hold_slice(const Slice& slice, const Memory& /*whole*/) {
    hold(slice.value, allocate(recorded(slice.value).bytes(), true));
  }

  void hold(ValueId id, Memory memory) {
    if (bringer_of(id) != id) return;
    Held& held = held_[static_cast<size_t>(id)];
    held.memory = std::move(memory);
    const Codec* codec = treatment(id).codec;
    if (codec == nullptr) return;
    held.figure = figures_(*codec, encoded_form(id));
    held.encoded = true;
    held.memory = allocate(held.figure.bytes, true);
    add_cost(id, held.figure.encode_ns);
  }

  Memory from_elsewhere(ValueId /*id*/) { return {}; }

  Memory held(ValueId id) {
    Held& held = held_[static_cast<size_t>(bringer_of(id))];
    if (!held.encoded) return held.memory;
    if (held.decoded.is_there()) return held.decoded;
    const RecordedValue& value = recorded(id);
    const bool whole = treatment(id).encoded_with != kNone;
    Memory decoded = allocate(whole ? storage(value.storage).bytes : value.bytes(), true);
    add_cost(id, held.figure.decode_ns);
    if (whole) held.decoded = decoded;
    return decoded;
  }

  [[nodiscard]] bool decodes_for_reader(ValueId id) const {
    return held_[static_cast<size_t>(id)].encoded && treatment(id).encoded_with == kNone;
  }

  void begin(RecipeId /*recipe*/, bool /*aside*/) {}

  /// Views share the memory of what they look at.
  std::vector<Memory> run(const Recipe& recipe, const std::vector<Memory>& inputs) {
    const RecordedOperator& op = graph_.operators[static_cast<size_t>(recipe.replaces)];
    result_.operator_cost[static_cast<size_t>(recipe.replaces)] += recipe.cost_ns;
    std::vector<Memory> results;
    results.reserve(recipe.results.size());
    for (size_t r = 0; r < recipe.results.size(); ++r) {
      const ValueId id = recipe.results[r];
      const Memory* known = id == kNone ? nullptr : memory_of(recipe, r, inputs, results);
      if (id == kNone || known != nullptr) {
        results.push_back(id == kNone ? Memory() : *known);
        continue;
      }
      const RecordedStorage& of = storage(recorded(id).storage);
      results.push_back(allocate(of.values.front() == id ? of.bytes : bytes_made(id, op), true));
    }
    if (!recipe.is_shortcut) use_scratch(op.scratch_bytes);
    return results;
  }

  /// Gives the memory of an input or of an earlier result that has the storage of result `r`; null
  /// where there is none, and none of the inputs where the operator writes over one.
  [[nodiscard]] const Memory* memory_of(const Recipe& recipe, size_t r,
                                        const std::vector<Memory>& inputs,
                                        const std::vector<Memory>& results) const {
    const StorageId of = recorded(recipe.results[r]).storage;
    const bool overwrites =
        graph_.operators[static_cast<size_t>(recipe.replaces)].overwrites != kNone;
    for (size_t i = 0; i < inputs.size() && !overwrites; ++i) {
      if (recorded(recipe.inputs[i]).storage == of) return &inputs[i];
    }
    for (size_t e = 0; e < r; ++e) {
      const ValueId earlier = recipe.results[e];
      if (earlier != kNone && recorded(earlier).storage == of) return &results[e];
    }
    return nullptr;
  }

  void use_scratch(int64_t bytes) {
    meter_.add(0, bytes);
    meter_.add(0, -bytes);
  }

  void require_made(const Recipe& /*recipe*/, ValueId /*id*/, const Memory& /*made*/) {}
  void let_go(ValueId id) { held_[static_cast<size_t>(id)] = {}; }
  void let_go_decoded(ValueId id) { held_[static_cast<size_t>(id)].decoded = {}; }

  struct Held {
    Memory memory;
    bool encoded = false;
    CodecFigure figure;
    Memory decoded;  ///< all of the memory that several values share
  };

  const TreatmentPlan& plan_;
  const StepGraph& graph_;
  const CodecFigures& figures_;
  Meter meter_;                        ///< stands before all that it counts
  std::deque<SimulatedBlock> blocks_;  ///< blocks to the end, so that references to them stay valid
  MemoryLevel between_;
  std::vector<Memory> in_use_;                                ///< memory of each storage in forward
  std::unordered_map<int32_t, std::vector<size_t>> gone_at_;  ///< storages, by unpacking
  std::vector<SimulatedBlock*> block_of_;  ///< block of each storage; null before its allocation
  const std::vector<std::vector<StorageId>> last_uses_;
  std::vector<Memory> kept_;  ///< memory of each slot
  std::vector<Held> held_;
  PlanWalk<Memory, Simulation> walk_;
  std::vector<bool> released_;
  int32_t unpackings_ = 0;
  std::map<int32_t, std::vector<SlotId>> retained_;  ///< slots, by the unpacking that they await
  std::vector<Memory> unpacked_;                     ///< memory that the node that runs has
                                                     ///< unpacked
  std::vector<Memory> given_;                        ///< memory for a backward that is
                                                     ///< differentiated
  std::vector<SlotId> node_slots_;
  OperatorId next_ = 0;
  OperatorId begun_;  ///< the last that has
  PeakTimeline result_;
};

const MemoryReading& reading_of(const StepGraph& graph, const TimelineEvent& event) {
  if (event.slot == kNone) return graph.at_end;
  const RecordedSlot& slot = graph.slots[static_cast<size_t>(event.slot)];
  return event.backward ? slot.at_unpack : slot.at_save;
}

}  // namespace

PeakTimeline simulate(const TreatmentPlan& plan, const CodecFigures& figures) {
  return Simulation(plan, figures).run();
}

PeakTimeline kept_timeline(std::shared_ptr<const StepGraph> graph) {
  Policy nothing;
  nothing.may_replay = [](const StepGraph&, const RecordedOperator&) { return false; };
  return simulate(resolve(std::move(graph), nothing), {});
}

std::vector<OtherBytes> other_bytes(std::shared_ptr<const StepGraph> graph) {
  return other_bytes(*graph, kept_timeline(graph));
}

std::vector<OtherBytes> other_bytes(const StepGraph& graph, const PeakTimeline& kept) {
  std::vector<OtherBytes> other;
  for (const TimelineEvent& event : kept.events) {
    const MemoryReading& reading = reading_of(graph, event);
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

int64_t peak_bytes(const PeakTimeline& timeline, const std::vector<OtherBytes>& other,
                   const PassesBeside& beside) {
  int64_t peak = 0;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    peak = std::max(peak, live_bytes(timeline, other, i));
  }
  return peak + beside.passes * (timeline.saved_bytes + beside.bytes_each);
}

}  // namespace noisemark::memopt
