#include "memopt/plan/cost_bound.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "memopt/plan/freed_storages.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A part that is more than the sums of a step's bytes and times are rounded by.
constexpr double kRounding = 1e-9;

/// The number of moments that show where the peak is; each costs a search.
constexpr size_t kMoments = 64;

/// One way not to keep a storage.
struct Way {
  double freed_bytes = 0;
  double cost_ns = 0;
};

class SavedStorages {
 public:
  SavedStorages(const BlockOptions& options, const CodecFigures& figures)
      : options_(options),
        graph_(*options.graph()),
        figures_(figures),
        run_for_(graph_.values.size()),
        sharing_(graph_.operators.size(), 0),
        cut_out_(graph_.values.size()) {
    for (const RecordedStorage& storage : graph_.storages) share_out(storage);
  }

  /// No more than all of a storage is freed, for no less than the way can cost.
  [[nodiscard]] std::vector<Way> ways_to_free(const RecordedStorage& storage) const {
    const std::vector<ValueId> saved = saved_of(storage);
    if (saved.empty()) return {};
    std::vector<Way> ways = encodings(storage, saved);
    const double ns = made_again_ns(saved);
    if (ns < kInfinity) ways.push_back({static_cast<double>(storage.bytes), ns});
    return ways;
  }

 private:
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }

  /// None of what is not the step's own.
  [[nodiscard]] std::vector<ValueId> saved_of(const RecordedStorage& storage) const {
    std::vector<ValueId> saved;
    for (const ValueId id : storage.values) {
      if (!storage.external && !value(id).slots.empty()) saved.push_back(id);
    }
    return saved;
  }

  [[nodiscard]] std::vector<Way> encodings(const RecordedStorage& storage,
                                           const std::vector<ValueId>& saved) const {
    const std::optional<SavedMemory> memory = saved_memory(graph_, storage);
    if (!memory) return {};
    const bool decoded = std::any_of(saved.begin(), saved.end(),
                                     [this](ValueId id) { return is_asked_for(graph_, id); });
    const RecordedValue form = form_to_encode(graph_, storage, *memory);
    std::vector<Way> ways;
    for (const std::shared_ptr<const Codec>& codec : options_.codecs_of(memory->first)) {
      const CodecFigure figure = figures_(*codec, form);
      const int64_t ns = figure.encode_ns + (decoded ? figure.decode_ns : 0);
      ways.push_back({static_cast<double>(storage.bytes - figure.bytes), static_cast<double>(ns)});
    }
    return ways;
  }

  /// The most expensive of the values that share a storage; infinity: one of them has to be kept.
  [[nodiscard]] double made_again_ns(const std::vector<ValueId>& saved) const {
    double most = 0;
    for (const ValueId id : saved) {
      if (!options_.may_make_again(id)) return kInfinity;
      if (is_asked_for(graph_, id)) most = std::max(most, made_again_ns(id));
    }
    return most;
  }

  [[nodiscard]] double made_again_ns(ValueId id) const {
    double ns = 0;
    for (const Run& run : run_for_[static_cast<size_t>(id)]) ns += run.ns / sharing_of(run.what);
    const std::shared_ptr<const Recipe>& shortcut = options_.recipes().shortcut(id);
    if (shortcut == nullptr) return ns;
    return std::min(ns, static_cast<double>(shortcut->cost_ns) / sharing_of(value(id).producer));
  }

  [[nodiscard]] double sharing_of(OperatorId id) const { return sharing_[static_cast<size_t>(id)]; }

  /// An operator that must be run again, and what that costs at least.
  struct Run {
    OperatorId what = kNone;
    double ns = 0;
  };

  void share_out(const RecordedStorage& storage) {
    std::set<OperatorId> operators;
    for (const ValueId id : saved_of(storage)) {
      if (!options_.may_make_again(id)) continue;
      std::vector<Run> runs = runs_for(id);
      for (const Run& run : runs) operators.insert(run.what);
      run_for_[static_cast<size_t>(id)] = std::move(runs);
    }
    for (const OperatorId id : operators) sharing_[static_cast<size_t>(id)] += 1;
  }

  /// Returns the runs for a value that is recomputed by calling its operator: that one, and those
  /// back to what was saved.
  std::vector<Run> runs_for(ValueId wanted) {
    std::vector<Run> runs;
    std::vector<ValueId> open = {wanted};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const OperatorId producer = value(id).producer;
      const bool known = std::any_of(runs.begin(), runs.end(),
                                     [producer](const Run& run) { return run.what == producer; });
      if (known) continue;
      const Recipe& replay = *options_.recipes().replay(producer);
      runs.push_back({producer, static_cast<double>(replay.cost_ns)});
      const std::shared_ptr<const Recipe>& shortcut = options_.recipes().shortcut(id);
      if (id != wanted && shortcut != nullptr) {
        runs.back().ns = std::min(runs.back().ns, static_cast<double>(shortcut->cost_ns));
        continue;
      }
      for (const ValueId input : replay.inputs) {
        if (input != id && must_be_made(input, value(wanted).storage)) open.push_back(input);
      }
    }
    return runs;
  }

  /// A saved value is held or recomputed for itself, unless it shares the memory that is freed.
  /// A value that nobody saved may have been cut out of something else.
  bool must_be_made(ValueId id, StorageId freed) {
    if (!options_.may_make_again(id)) return false;
    return value(id).slots.empty() ? !can_be_cut_out(id) : value(id).storage == freed;
  }

  bool can_be_cut_out(ValueId id) {
    std::optional<bool>& known = cut_out_[static_cast<size_t>(id)];
    if (known) return *known;
    const std::vector<OperatorId>& readers = value(id).readers;
    known = std::any_of(readers.begin(), readers.end(), [&](OperatorId reader) {
      const std::vector<ValueId>& results = graph_.operators[static_cast<size_t>(reader)].results;
      return std::any_of(results.begin(), results.end(), [&](ValueId result) {
        return result != kNone && slice_of_input(graph_, result, id).has_value();
      });
    });
    return *known;
  }

  const BlockOptions& options_;
  const StepGraph& graph_;
  const CodecFigures& figures_;
  std::vector<std::vector<Run>> run_for_;     ///< one list for each value
  std::vector<double> sharing_;               ///< number of storages for which each operator is run
  std::vector<std::optional<bool>> cut_out_;  ///< the value is cut out; is empty where that is not
                                              ///< known
};

/// Returns at most kMoments of the moments of the step, the one with the most bytes of each part.
template <typename Moment>
std::vector<Moment> highest_moments(const PeakTimeline& kept, const std::vector<OtherBytes>& other,
                                    bool live) {
  const size_t count = 2 * kept.events.size();
  std::vector<Moment> moments(std::min(count, kMoments));
  for (size_t at = 0; at < count; ++at) {
    const TimelineEvent& event = kept.events[at / 2];
    const MemoryLevel& level = at % 2 == 0 ? event.between : event.at;
    const int64_t beyond = at % 2 == 0 ? other[at / 2].between : other[at / 2].at;
    const int64_t bytes = live ? level.live + beyond : level.saved;
    Moment& highest = moments[at * moments.size() / count];
    if (bytes > highest.bytes) highest = {at, bytes};
  }
  return moments;
}

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

CostBound::CostBound(const BlockOptions& options, const CodecFigures& figures,
                     const PeakTimeline& kept, const std::vector<OtherBytes>& other, bool live)
    : freeable_(*options.graph()), moments_(highest_moments<Moment>(kept, other, live)) {
  const SavedStorages storages(options, figures);
  const std::vector<RecordedStorage>& all = options.graph()->storages;
  for (size_t s = 0; s < all.size(); ++s) {
    along_hull(storages.ways_to_free(all[s]), [&](double bytes, double ns_per_byte) {
      by_price_.push_back({static_cast<StorageId>(s), bytes, ns_per_byte});
    });
  }
  std::stable_sort(
      by_price_.begin(), by_price_.end(),
      [](const PricedBytes& a, const PricedBytes& b) { return a.ns_per_byte < b.ns_per_byte; });
}

double CostBound::cheapest(int64_t bytes, size_t moment) const {
  auto left = static_cast<double>(bytes);
  double ns = 0;
  for (const PricedBytes& step : by_price_) {
    if (left <= 0) break;
    if (!freeable_.at(step.storage, moment)) continue;
    ns += std::min(left, step.bytes) * step.ns_per_byte;
    left -= step.bytes;
  }
  return ns * (1 - kRounding);
}

double CostBound::within(int64_t bytes) const {
  double most = 0;
  for (const Moment& moment : moments_) {
    if (moment.bytes <= bytes) continue;
    most = std::max(most, cheapest(moment.bytes - bytes, moment.at));
  }
  return most;
}

}  // namespace noisemark::memopt
