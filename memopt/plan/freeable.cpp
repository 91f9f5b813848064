#include "memopt/plan/freeable.h"

#include <algorithm>
#include <limits>

namespace noisemark::memopt {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

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
    size_t first_slot = kNever;
    size_t last_moment = 0;
    for (const ValueId id : storage.values) {
      const RecordedValue& value = graph_.values[static_cast<size_t>(id)];
      for (const SlotId slot : value.slots) {
        const auto s = static_cast<size_t>(slot);
        first_slot = std::min(first_slot, s);
        last_moment = std::max(last_moment, until(s));
        const bool whole = value.bytes() >= storage.bytes;
        if (whole && asked_[s] != kNever) span.needed.push_back({at_event(asked_[s]), until(s)});
      }
    }
    if (first_slot == kNever) return span;
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
    asked_.assign(graph_.slots.size(), kNever);
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
    if (asked_[slot] == kNever) return kNever;
    return between(node_ends_[asked_[slot] - graph_.slots.size()]) + 1;
  }

  /// The first moment at which the program itself has let go of it.
  [[nodiscard]] size_t unused_from(const RecordedStorage& storage) const {
    if (storage.gone_at_operator > 0) {
      const auto event = std::lower_bound(ended_.begin(), ended_.end(), storage.gone_at_operator);
      return between(static_cast<size_t>(event - ended_.begin()));
    }
    if (storage.gone_at_unpack == kNone) return kNever;
    for (const size_t slot : order_) {
      const bool gone = graph_.slots[slot].unpack_order == storage.gone_at_unpack;
      if (gone) return at_event(asked_[slot]);
    }
    return kNever;
  }

  const StepGraph& graph_;
  std::vector<OperatorId> ended_;  ///< by event of forward, and after it: operators that have ended
  std::vector<size_t> order_;      ///< slots, as backward asks for them
  std::vector<size_t> asked_;      ///< by slot, the event; or kNever
  std::vector<size_t> node_ends_;  ///< by place in order_, the event at which its node is done
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

}  // namespace noisemark::memopt
