#include "memopt/plan/cost_bound.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "memopt/plan/encodings.h"

namespace noisemark::memopt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// More than the sums of a step's bytes and times are rounded by.
constexpr double kRounding = 1e-9;

/// One way not to keep a storage.
struct Way {
  double freed_bytes = 0;
  double cost_ns = 0;
};

class SavedStorages {
 public:
  SavedStorages(const BlockOptions& options, const CodecFigures& figures)
      : options_(options), graph_(*options.graph()), figures_(figures) {}

  /// No more than all of a storage is freed, for no less than the way can cost.
  [[nodiscard]] std::vector<Way> ways_to_free(const RecordedStorage& storage) const {
    std::vector<ValueId> saved;
    for (const ValueId id : storage.values) {
      if (!value(id).slots.empty()) saved.push_back(id);
    }
    if (storage.external || saved.empty()) return {};
    std::vector<Way> ways = encodings(storage, saved);
    const double ns = made_again_ns(saved);
    if (ns < kInfinity) ways.push_back({static_cast<double>(storage.bytes), ns});
    return ways;
  }

 private:
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }

  [[nodiscard]] bool is_asked_for(ValueId id) const {
    const std::vector<SlotId>& slots = value(id).slots;
    return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) {
      return graph_.slots[static_cast<size_t>(slot)].unpack_order != kNone;
    });
  }

  [[nodiscard]] std::vector<Way> encodings(const RecordedStorage& storage,
                                           const std::vector<ValueId>& saved) const {
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage);
    if (!memory) return {};
    const bool decoded =
        std::any_of(saved.begin(), saved.end(), [&](ValueId id) { return is_asked_for(id); });
    RecordedValue form = value(memory->first);
    if (memory->whole) {
      form.sizes = {storage.bytes / static_cast<int64_t>(c10::elementSize(form.dtype))};
    }
    std::vector<Way> ways;
    for (const std::shared_ptr<const Codec>& codec : options_.codecs_of(memory->first)) {
      const CodecFigure figure = figures_(*codec, form);
      const int64_t ns = figure.encode_ns + (decoded ? figure.decode_ns : 0);
      ways.push_back({static_cast<double>(storage.bytes - figure.bytes), static_cast<double>(ns)});
    }
    return ways;
  }

  /// Of the values that share a storage the most expensive; infinity: one of them has to be kept.
  [[nodiscard]] double made_again_ns(const std::vector<ValueId>& saved) const {
    double most = 0;
    for (const ValueId id : saved) {
      const double ns = made_again_ns(id);
      if (ns == kInfinity) return ns;
      if (is_asked_for(id)) most = std::max(most, ns);
    }
    return most;
  }

  [[nodiscard]] double made_again_ns(ValueId id) const {
    if (!options_.may_make_again(id)) return kInfinity;
    const OperatorId producer = value(id).producer;
    const double sharing = storages_saved_of(producer);
    const Recipe& replay = *options_.recipes().replay(producer);
    double ns = static_cast<double>(replay.cost_ns) / sharing;
    for (const ValueId input : replay.inputs) {
      const bool same_memory = input != id && value(input).storage == value(id).storage;
      if (same_memory) ns += input_ns(input);
    }
    const std::shared_ptr<const Recipe>& shortcut = options_.recipes().shortcut(id);
    if (shortcut == nullptr) return ns;
    return std::min(ns, static_cast<double>(shortcut->cost_ns) / sharing);
  }

  /// Of what an operator made a view of, or wrote over. It is not held itself, but may have been
  /// cut out of something else.
  [[nodiscard]] double input_ns(ValueId id) const {
    if (value(id).slots.empty() && can_be_cut_out(id)) return 0;
    const double ns = made_again_ns(id);
    return ns < kInfinity ? ns : 0;
  }

  [[nodiscard]] bool can_be_cut_out(ValueId id) const {
    const std::vector<OperatorId>& readers = value(id).readers;
    return std::any_of(readers.begin(), readers.end(), [&](OperatorId reader) {
      const std::vector<ValueId>& results = graph_.operators[static_cast<size_t>(reader)].results;
      return std::any_of(results.begin(), results.end(), [&](ValueId result) {
        return result != kNone && slice_of_input(graph_, result, id).has_value();
      });
    });
  }

  /// One call of the operator makes all of them again.
  [[nodiscard]] double storages_saved_of(OperatorId id) const {
    std::set<StorageId> storages;
    for (const ValueId result : graph_.operators[static_cast<size_t>(id)].results) {
      if (result != kNone && is_saved(value(result).storage)) {
        storages.insert(value(result).storage);
      }
    }
    return static_cast<double>(std::max<size_t>(storages.size(), 1));
  }

  [[nodiscard]] bool is_saved(StorageId id) const {
    const std::vector<ValueId>& values = graph_.storages[static_cast<size_t>(id)].values;
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId v) { return !value(v).slots.empty(); });
  }

  const BlockOptions& options_;
  const StepGraph& graph_;
  const CodecFigures& figures_;
};

/// The ways on the lower convex hull, from nothing freed, each taken in place of the one before it.
template <typename Take>
void along_hull(const std::vector<Way>& ways, const Take& take) {
  Way at;
  for (;;) {
    const Way* next = nullptr;
    double least = kInfinity;
    for (const Way& way : ways) {
      if (way.freed_bytes <= at.freed_bytes) continue;
      const double price = (way.cost_ns - at.cost_ns) / (way.freed_bytes - at.freed_bytes);
      const bool further = next != nullptr && way.freed_bytes > next->freed_bytes;
      if (price > least || (price == least && !further)) continue;
      least = price;
      next = &way;
    }
    if (next == nullptr) return;
    take(next->freed_bytes - at.freed_bytes, least);
    at = *next;
  }
}

}  // namespace

CostBound::CostBound(const BlockOptions& options, const CodecFigures& figures) {
  const SavedStorages storages(options, figures);
  for (const RecordedStorage& storage : options.graph()->storages) {
    along_hull(storages.ways_to_free(storage), [&](double bytes, double ns_per_byte) {
      steps_.push_back({bytes, ns_per_byte});
    });
  }
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.ns_per_byte < b.ns_per_byte; });
}

double CostBound::to_free(int64_t bytes) const {
  auto left = static_cast<double>(bytes);
  double ns = 0;
  for (const Step& step : steps_) {
    if (left <= 0) break;
    ns += std::min(left, step.bytes) * step.ns_per_byte;
    left -= step.bytes;
  }
  return ns * (1 - kRounding);
}

}  // namespace noisemark::memopt
