#include "memopt/plan/freed_storages.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "memopt/plan/resolve.h"

namespace noisemark::memopt {
namespace {

constexpr size_t kNoInstant = std::numeric_limits<size_t>::max();

size_t between(size_t event) {
  return 2 * event;
}
size_t at_event(size_t event) {
  return 2 * event + 1;
}

}  // namespace

/// Goes through the events as a timeline does.
class FreeableSearch {
 public:
  explicit FreeableSearch(const StepGraph& graph) : graph_(graph) {
    note_what_has_ended();
    note_what_is_asked_for();
  }

  [[nodiscard]] FreeableStorages::Span span_of(const RecordedStorage& storage) const {
    FreeableStorages::Span span;
    size_t first_slot = kNoInstant;
    size_t last_moment = 0;
    for (const ValueId id : storage.values) {
      const RecordedValue& value = graph_.values[static_cast<size_t>(id)];
      for (const SlotId slot : value.slots) {
        const auto s = static_cast<size_t>(slot);
        first_slot = std::min(first_slot, s);
        last_moment = std::max(last_moment, until(s));
        const bool whole = value.bytes() >= storage.bytes;
        if (whole && asked_[s] != kNoInstant) span.needed.push_back({at_event(asked_[s]), done(s)});
      }
    }
    if (first_slot == kNoInstant) return span;
    span.saved = {std::max(at_event(first_slot), unused_from(storage)), last_moment};
    return span;
  }

 private:
  void note_what_has_ended() {
    OperatorId ended = 0;
    for (const RecordedSlot& slot : graph_.slots) {
      ended = std::max(ended, slot.saved_by);
      ended_.push_back(ended);
    }
    ended_.push_back(static_cast<OperatorId>(graph_.operators.size()));
  }

  void note_what_is_asked_for() {
    asked_.assign(graph_.slots.size(), kNoInstant);
    for (size_t s = 0; s < graph_.slots.size(); ++s) {
      if (graph_.slots[s].unpack_order != kNone) order_.push_back(s);
    }
    std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
      return graph_.slots[a].unpack_order < graph_.slots[b].unpack_order;
    });
    for (size_t i = 0; i < order_.size(); ++i) asked_[order_[i]] = graph_.slots.size() + i;
    node_ends_.assign(order_.size(), graph_.slots.size() + order_.size());
    for (size_t i = order_.size(); i-- > 1;) {
      const OperatorId node = graph_.slots[order_[i]].saved_by;
      const bool same = node != kNone && node == graph_.slots[order_[i - 1]].saved_by;
      node_ends_[i - 1] = same ? node_ends_[i] : graph_.slots.size() + i;
    }
  }

  /// The first moment at which the slot, when all is kept, has let go of its memory: when the node
  /// after its own begins. What backward does not ask for may go with another, or at the end.
  [[nodiscard]] size_t until(size_t slot) const {
    if (asked_[slot] == kNoInstant) return kNoInstant;
    const auto asked_by_then = static_cast<int64_t>(node_end(slot) - graph_.slots.size());
    return graph_.slots[slot].gone_at_unpack > asked_by_then ? kNoInstant : done(slot);
  }

  /// The first moment at which the node that asked for the slot is done with it.
  [[nodiscard]] size_t done(size_t slot) const { return between(node_end(slot)) + 1; }
  [[nodiscard]] size_t node_end(size_t slot) const {
    return node_ends_[asked_[slot] - graph_.slots.size()];
  }

  /// The first moment at which the program itself has let go of it.
  [[nodiscard]] size_t unused_from(const RecordedStorage& storage) const {
    if (storage.gone_at_operator > 0) {
      const auto event = std::lower_bound(ended_.begin(), ended_.end(), storage.gone_at_operator);
      return between(static_cast<size_t>(event - ended_.begin()));
    }
    if (storage.gone_at_unpack == kNone) return kNoInstant;
    for (const size_t slot : order_) {
      const bool gone = graph_.slots[slot].unpack_order == storage.gone_at_unpack;
      if (gone) return at_event(asked_[slot]);
    }
    return kNoInstant;
  }

  const StepGraph& graph_;
  std::vector<OperatorId> ended_;  ///< operators that have ended, at each event of forward and
                                   ///< after it
  std::vector<size_t> order_;      ///< slots, as backward asks for them
  std::vector<size_t> asked_;      ///< event of each slot, or kNoInstant
  std::vector<size_t> node_ends_;  ///< event at which the node at each place of order_ is done
};

FreeableStorages::FreeableStorages(const StepGraph& graph) {
  const FreeableSearch search(graph);
  for (const RecordedStorage& storage : graph.storages) spans_.push_back(search.span_of(storage));
}

bool FreeableStorages::at(StorageId storage, size_t moment) const {
  const auto holds = [moment](const Interval& i) { return i.from <= moment && moment < i.until; };
  const Span& span = spans_[static_cast<size_t>(storage)];
  return holds(span.saved) && std::none_of(span.needed.begin(), span.needed.end(), holds);
}

namespace {

class Shares {
 public:
  Shares(const TreatmentPlan& plan, const CodecFigures& figures)
      : plan_(plan),
        graph_(*plan.graph),
        figures_(figures),
        seen_(plan.recipes.size(), 0),
        run_for_(plan.recipes.size(), 0) {}

  std::vector<FreedStorage> all() {
    for (size_t s = 0; s < graph_.storages.size(); ++s) look_at(static_cast<StorageId>(s));
    for (size_t i = 0; i < freed_.size(); ++i) {
      for (const size_t recipe : recipes_[i]) {
        freed_[i].ns += static_cast<double>(plan_.recipes[recipe]->cost_ns) / run_for_[recipe];
      }
    }
    return std::move(freed_);
  }

 private:
  [[nodiscard]] const RecordedStorage& storage(StorageId id) const {
    return graph_.storages[static_cast<size_t>(id)];
  }
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  [[nodiscard]] const ValueTreatment& treatment(ValueId id) const {
    return plan_.values[static_cast<size_t>(id)];
  }

  void look_at(StorageId id) {
    const std::optional<Source> source = source_of(storage(id));
    if (source == Source::kEncoded) add_encoded(id);
    if (source == Source::kMadeAgain) add_made_again(id);
  }

  /// The same for all of its saved values; empty where that is not so.
  [[nodiscard]] std::optional<Source> source_of(const RecordedStorage& storage) const {
    std::optional<Source> source;
    if (storage.external) return source;
    for (const ValueId id : storage.values) {
      if (value(id).slots.empty()) continue;
      if (source.value_or(treatment(id).source) != treatment(id).source) return std::nullopt;
      source = treatment(id).source;
    }
    return source;
  }

  void add_encoded(StorageId id) {
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage(id));
    if (!memory) return;
    const Codec* codec = treatment(memory->first).codec;
    const CodecFigure figure = figures_(*codec, form_to_encode(graph_, storage(id), *memory));
    const std::vector<ValueId>& values = storage(id).values;
    const bool decoded = std::any_of(values.begin(), values.end(),
                                     [this](ValueId v) { return is_asked_for(graph_, v); });
    add({.storage = id,
         .bytes = storage(id).bytes - figure.bytes,
         .ns = static_cast<double>(figure.encode_ns + (decoded ? figure.decode_ns : 0))},
        {});
  }

  void add_made_again(StorageId id) {
    int64_t bytes = storage(id).bytes;
    for (const ValueId v : storage(id).values) {
      for (const SlotId slot : value(v).slots) bytes -= bytes_cut_out(slot);
    }
    std::vector<size_t> recipes = recipes_for(id);
    for (const size_t recipe : recipes) run_for_[recipe] += 1;
    add({.storage = id, .bytes = bytes}, std::move(recipes));
  }

  void add(const FreedStorage& freed, std::vector<size_t> recipes) {
    if (freed.bytes <= 0) return;
    freed_.push_back(freed);
    recipes_.push_back(std::move(recipes));
  }

  [[nodiscard]] int64_t bytes_cut_out(SlotId slot) const {
    int64_t bytes = 0;
    for (const Slice& slice : plan_.slots[static_cast<size_t>(slot)].slices) {
      bytes += value(slice.value).bytes();
    }
    return bytes;
  }

  /// Returns the readers of its values and, on the way, of what nobody saved. A saved value has its
  /// own.
  std::vector<size_t> recipes_for(StorageId id) {
    std::vector<ValueId> open;
    for (const ValueId v : storage(id).values) {
      if (is_asked_for(graph_, v)) open.push_back(v);
    }
    std::vector<size_t> recipes;
    ++search_;
    while (!open.empty()) {
      const ValueTreatment& made = treatment(open.back());
      open.pop_back();
      if (made.source != Source::kMadeAgain) continue;
      const auto recipe = static_cast<size_t>(made.recipe);
      if (std::exchange(seen_[recipe], search_) == search_) continue;
      recipes.push_back(recipe);
      for (const ValueId input : plan_.recipes[recipe]->inputs) {
        if (value(input).slots.empty() || value(input).storage == id) open.push_back(input);
      }
    }
    return recipes;
  }

  const TreatmentPlan& plan_;
  const StepGraph& graph_;
  const CodecFigures& figures_;
  std::vector<int32_t> seen_;    ///< last search that met each recipe
  std::vector<double> run_for_;  ///< number of storages that need each recipe
  int32_t search_ = 0;
  std::vector<FreedStorage> freed_;
  std::vector<std::vector<size_t>> recipes_;  ///< recipes of each freed storage
};

}  // namespace

std::vector<FreedStorage> freed_storages(const TreatmentPlan& plan, const CodecFigures& figures) {
  return Shares(plan, figures).all();
}

bool is_asked_for(const StepGraph& graph, ValueId id) {
  const std::vector<SlotId>& slots = graph.values[static_cast<size_t>(id)].slots;
  return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
    return graph.slots[static_cast<size_t>(slot)].unpack_order != kNone;
  });
}

namespace {

/// Shares of the bytes.
constexpr std::array<double, 2> kSharesOfBytes = {1.0 / 3, 2.0 / 3};
/// The factor by which a held byte must cost more than a freed one.
constexpr double kClearlyMore = 1.25;

/// The price of several storages together.
struct Sum {
  double bytes = 0;
  double ns = 0;

  void add(const FreedStorage& freed) {
    bytes += static_cast<double>(freed.bytes);
    ns += freed.ns;
  }
};

/// The price at which so much can be freed.
double price_of_part(const std::vector<FreedStorage>& by_price, double part) {
  Sum all;
  for (const FreedStorage& freed : by_price) all.add(freed);
  Sum taken;
  for (const FreedStorage& freed : by_price) {
    taken.add(freed);
    if (taken.bytes >= part * all.bytes) return freed.ns_per_byte();
  }
  return 0;
}

PriceLimit limit_at(double most_ns_per_byte, const std::vector<FreedStorage>& all) {
  PriceLimit limit{most_ns_per_byte, {}};
  for (const FreedStorage& freed : all) {
    if (freed.ns_per_byte() > most_ns_per_byte) limit.held.push_back(freed.storage);
  }
  return limit;
}

bool tells_apart(double most_ns_per_byte, const std::vector<FreedStorage>& all) {
  Sum cheap;
  Sum dear;
  for (const FreedStorage& freed : all) {
    (freed.ns_per_byte() > most_ns_per_byte ? dear : cheap).add(freed);
  }
  return dear.bytes > 0 && dear.ns * cheap.bytes >= kClearlyMore * cheap.ns * dear.bytes;
}

}  // namespace

std::vector<PriceLimit> price_limits(const std::vector<FreedStorage>& freed) {
  std::vector<FreedStorage> by_price = freed;
  std::stable_sort(by_price.begin(), by_price.end(),
                   [](const FreedStorage& a, const FreedStorage& b) {
                     return a.ns_per_byte() < b.ns_per_byte();
                   });
  std::vector<PriceLimit> limits;
  for (const double part : kSharesOfBytes) {
    const double most = price_of_part(by_price, part);
    if (!tells_apart(most, freed)) continue;
    PriceLimit limit = limit_at(most, freed);
    if (!limits.empty() && limits.back().held == limit.held) continue;
    limits.push_back(std::move(limit));
  }
  return limits;
}

std::string words_of(const PriceLimit& limit) {
  std::ostringstream words;
  words << "up to ";
  if (limit.most_ns_per_byte >= 10) words << std::fixed << std::setprecision(0);
  if (limit.most_ns_per_byte < 10) words << std::setprecision(2);
  words << limit.most_ns_per_byte << " ns/B";
  return words.str();
}

}  // namespace noisemark::memopt
