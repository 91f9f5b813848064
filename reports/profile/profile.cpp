#include "reports/profile/profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "reports/base/document.h"
#include "reports/base/json_writer.h"

namespace noisemark::reports {
namespace {

constexpr int64_t kNone = -1;
constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";

/// Names that Python's profiler leaves out.
constexpr std::array<std::string_view, 6> kLeftOut{"profiler::_record_function_enter",
                                                   "profiler::_record_function_enter_new",
                                                   "profiler::_record_function_exit",
                                                   "aten::is_leaf",
                                                   "aten::output_nr",
                                                   "aten::_version"};

/// An event, what is within it, and what it launched.
struct Node {
  const ProfiledEvent* event = nullptr;
  std::string name;
  uint64_t thread = 0;
  int64_t parent = kNone;
  std::vector<int64_t> children;
  int64_t launched_ns = 0;  ///< time on a device of what this event launched; Python counts so
  int64_t work_ns = 0;      ///< launched_ns of kernels, copies and fills alone
  int64_t device_ns = 0;    ///< launched_ns of it and of all within
  int64_t host_bytes = 0;
  int64_t device_bytes = 0;
  bool gone = false;  ///< counts as its parent

  [[nodiscard]] bool nests() const { return !event->on_device && !event->across_threads; }
};

/// Bytes that were taken and given back until each instant.
class MemorySums {
 public:
  explicit MemorySums(std::vector<ProfiledMemory> records) : records_(std::move(records)) {
    std::stable_sort(records_.begin(), records_.end(),
                     [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
    std::array<int64_t, 2> sum{};
    sums_.push_back(sum);
    for (const ProfiledMemory& record : records_) {
      sum.at(record.on_device ? 1 : 0) += record.bytes;
      sums_.push_back(sum);
    }
    covers_.assign(records_.size() + 1, 0);
  }

  /// Gives a node what happened during it.
  void add_to(Node& node) {
    const size_t first = index_of(node.event->start_ns, false);
    const size_t last = std::max(first, index_of(node.event->end_ns, true));
    node.host_bytes = sums_[last][0] - sums_[first][0];
    node.device_bytes = sums_[last][1] - sums_[first][1];
    ++covers_[first];
    --covers_[last];
  }

  /// The row of all that happened during no operator.
  [[nodiscard]] OperatorTimes outside() const {
    OperatorTimes row;
    row.name = "[memory]";
    row.kind = "operator";
    int64_t covering = 0;
    for (size_t i = 0; i < records_.size(); ++i) {
      covering += covers_[i];
      if (covering > 0) continue;
      ++row.calls;
      (records_[i].on_device ? row.device_bytes : row.host_bytes) += records_[i].bytes;
    }
    row.self_host_bytes = row.host_bytes;
    row.self_device_bytes = row.device_bytes;
    return row;
  }

 private:
  [[nodiscard]] size_t index_of(int64_t time_ns, bool behind_equal) const {
    const auto found =
        std::partition_point(records_.begin(), records_.end(), [&](const ProfiledMemory& record) {
          return behind_equal ? record.time_ns <= time_ns : record.time_ns < time_ns;
        });
    return static_cast<size_t>(found - records_.begin());
  }

  std::vector<ProfiledMemory> records_;
  std::vector<std::array<int64_t, 2>> sums_;
  std::vector<int64_t> covers_;
};

/// The events of a recording as Python's profiler nests them.
class Tree {
 public:
  explicit Tree(const Recording& recording) : memory_(recording.memory) {
    collect(recording);
    pair_launches();
    nest();
    while (merge_twins()) {
    }
    sum_devices();
  }

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const Node& at(int64_t index) const { return nodes_[static_cast<size_t>(index)]; }
  [[nodiscard]] const MemorySums& memory() const { return memory_; }

  /// The sum of a value over what is right within a node.
  template <class Value>
  [[nodiscard]] int64_t within(const Node& node, const Value& value) const {
    int64_t sum = 0;
    for (const int64_t child : node.children) sum += value(at(child));
    return sum;
  }

  [[nodiscard]] ProfileTimes self_of(const Node& node) const {
    ProfileTimes times;
    times.calls = 1;
    if (node.event->on_device) {
      times.self_device_ns = node.event->duration_ns();
    } else if (node.nests()) {
      times.self_host_ns = node.event->duration_ns() - within(node, [](const Node& child) {
                             return child.event->duration_ns();
                           });
      times.self_device_ns = node.launched_ns;
      times.self_host_bytes =
          node.host_bytes - within(node, [](const Node& child) { return child.host_bytes; });
      times.self_device_bytes =
          node.device_bytes - within(node, [](const Node& child) { return child.device_bytes; });
    }
    return times;
  }

 private:
  void collect(const Recording& recording) {
    for (const ProfiledEvent& event : recording.events) {
      if (std::find(kLeftOut.begin(), kLeftOut.end(), event.name) != kLeftOut.end()) continue;
      Node node;
      node.event = &event;
      node.thread = event.thread;
      node.name = event.name.starts_with(kStepPrefix) ? "ProfilerStep*" : event.name;
      if (!event.on_device) memory_.add_to(node);
      nodes_.push_back(std::move(node));
    }
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
      if (a.event->start_ns != b.event->start_ns) return a.event->start_ns < b.event->start_ns;
      return a.event->end_ns > b.event->end_ns;
    });
  }

  /// A call of the runtime stands on the thread of its operator, whose thread may have had another
  /// number to the device's library.
  void pair_launches() {
    std::unordered_map<uint64_t, Node*> launchers;
    for (Node& node : nodes_) {
      if (node.nests() && node.event->launched_by == 0) launchers[node.event->id] = &node;
    }
    for (Node& node : nodes_) {
      if (node.event->launched_by == 0) continue;
      const auto found = launchers.find(node.event->launched_by);
      if (found == launchers.end()) continue;
      if (!node.event->on_device) {
        node.thread = found->second->thread;
        continue;
      }
      found->second->launched_ns += node.event->duration_ns();
      if (node.event->kind == ProfiledKind::kWork) {
        found->second->work_ns += node.event->duration_ns();
      }
    }
  }

  void nest() {
    std::map<uint64_t, std::vector<int64_t>> open;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (!node.nests()) continue;
      std::vector<int64_t>& stack = open[node.thread];
      const auto around = [&](const ProfiledEvent& event) {
        return event.end_ns > node.event->start_ns && event.end_ns >= node.event->end_ns;
      };
      while (!stack.empty() && !around(*at(stack.back()).event)) stack.pop_back();
      if (!stack.empty()) {
        node.parent = stack.back();
        nodes_[static_cast<size_t>(node.parent)].children.push_back(static_cast<int64_t>(i));
      }
      stack.push_back(static_cast<int64_t>(i));
    }
  }

  bool merge_twins() {
    bool any = false;
    for (Node& node : nodes_) {
      if (node.gone || node.parent == kNone) continue;
      Node& parent = nodes_[static_cast<size_t>(node.parent)];
      if (parent.name != node.name || parent.children.size() != 1) continue;
      parent.children = node.children;
      parent.launched_ns = node.launched_ns;
      parent.work_ns = node.work_ns;
      for (const int64_t child : node.children) {
        nodes_[static_cast<size_t>(child)].parent = node.parent;
      }
      node.gone = true;
      any = true;
    }
    return any;
  }

  /// Children stand behind their parents.
  void sum_devices() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (node.gone || !node.nests()) continue;
      node.device_ns += node.launched_ns;
      if (node.parent != kNone) {
        nodes_[static_cast<size_t>(node.parent)].device_ns += node.device_ns;
      }
    }
  }

  MemorySums memory_;
  std::vector<Node> nodes_;
};

std::string kind_of(const ProfiledEvent& event) {
  if (event.kind == ProfiledKind::kSpan) return event.on_device ? "device span" : "span";
  return event.on_device ? "device" : "operator";
}

template <class Row, class Key>
void sort_by_falling(std::vector<Row>& rows, const Key& key) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return key(a) > key(b); });
}

std::vector<OperatorTimes> operators_of(const Tree& tree, bool has_device) {
  std::map<std::tuple<std::string, std::string, std::string>, OperatorTimes> rows;
  for (const Node& node : tree.nodes()) {
    if (node.gone) continue;
    const std::string kind = kind_of(*node.event);
    OperatorTimes& row = rows[{node.name, node.event->shapes, kind}];
    row.name = node.name;
    row.shapes = node.event->shapes;
    row.kind = kind;
    const ProfileTimes self = tree.self_of(node);
    row.calls += self.calls;
    row.self_host_ns += self.self_host_ns;
    row.self_device_ns += self.self_device_ns;
    row.self_host_bytes += self.self_host_bytes;
    row.self_device_bytes += self.self_device_bytes;
    row.host_ns += node.event->on_device ? 0 : node.event->duration_ns();
    row.device_ns += node.event->on_device ? node.event->duration_ns() : node.device_ns;
    row.host_bytes += node.host_bytes;
    row.device_bytes += node.device_bytes;
  }
  std::vector<OperatorTimes> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  if (OperatorTimes outside = tree.memory().outside(); outside.calls > 0) {
    sorted.push_back(std::move(outside));
  }
  sort_by_falling(sorted, [&](const OperatorTimes& row) {
    return std::pair{has_device ? row.self_device_ns : 0, row.self_host_ns};
  });
  return sorted;
}

std::vector<JoinedTimes> joined_of(const Tree& tree, bool has_device) {
  std::map<std::pair<uint64_t, int64_t>, const Node*> made;
  for (const Node& node : tree.nodes()) {
    const ProfiledEvent& event = *node.event;
    if (node.gone || event.kind != ProfiledKind::kOperator || event.sequence < 0) continue;
    if (node.name.starts_with(kEngine)) continue;  // it has the number of the node that it runs
    made[{event.thread, event.sequence}] = &node;
  }
  std::map<std::pair<std::string, std::string>, JoinedTimes> rows;
  for (const Node& node : tree.nodes()) {
    const ProfiledEvent& event = *node.event;
    if (node.gone || event.kind != ProfiledKind::kBackward) continue;
    const auto found = made.find({event.forward_thread, event.sequence});
    const Node* forward = found == made.end() ? nullptr : found->second;
    JoinedTimes& row = rows[{forward == nullptr ? "" : forward->name, node.name}];
    row.forward = forward == nullptr ? "" : forward->name;
    row.backward = node.name;
    ++row.calls;
    row.backward_host_ns += event.duration_ns();
    row.backward_device_ns += node.device_ns;
    if (forward == nullptr) continue;
    row.forward_host_ns += forward->event->duration_ns();
    row.forward_device_ns += forward->device_ns;
  }
  std::vector<JoinedTimes> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  sort_by_falling(sorted, [&](const JoinedTimes& row) {
    return has_device ? row.forward_device_ns + row.backward_device_ns
                      : row.forward_host_ns + row.backward_host_ns;
  });
  return sorted;
}

/// The layers in whose forward pass a node of autograd was made.
struct Place {
  std::string layer;  ///< the innermost; is empty where there is none
  std::string block;  ///< the outermost
};

class Visits {
 public:
  explicit Visits(const std::vector<ModuleVisit>& all) {
    std::vector<size_t> open;
    for (const ModuleVisit& visit : all) {
      if (visit.begin >= visit.end) continue;  // it made no node
      while (!open.empty() && visits_[open.back()].end <= visit.begin) open.pop_back();
      parents_.push_back(open.empty() ? kNone : static_cast<int64_t>(open.back()));
      open.push_back(visits_.size());
      visits_.push_back(visit);
    }
  }

  [[nodiscard]] Place place_of(int64_t sequence) const {
    const auto behind =
        std::partition_point(visits_.begin(), visits_.end(),
                             [&](const ModuleVisit& visit) { return visit.begin <= sequence; });
    Place place;
    for (auto i = static_cast<int64_t>(behind - visits_.begin()) - 1; i != kNone;
         i = parents_[static_cast<size_t>(i)]) {
      const ModuleVisit& visit = visits_[static_cast<size_t>(i)];
      if (visit.end <= sequence) continue;
      if (place.layer.empty()) place.layer = visit.name;
      place.block = visit.name;
    }
    return place;
  }

 private:
  std::vector<ModuleVisit> visits_;
  std::vector<int64_t> parents_;
};

/// Shares the times of all events out over layers and phases.
class Sharing {
 public:
  Sharing(const Tree& tree, const std::vector<ModuleVisit>& visits) : tree_(tree), visits_(visits) {
    for (const Node& node : tree.nodes()) {
      if (is_span(node, kPhasePrefix)) phases_.push_back(&node);
    }
    known_.resize(tree.nodes().size());
    for (size_t i = 0; i < known_.size(); ++i) {
      const Node& node = tree.nodes()[i];
      if (node.gone || !node.nests()) continue;
      known_[i] = known_of(node);
      const ProfileTimes self = tree.self_of(node);
      add(node, self, known_[i], known_[i].place.layer, layers_);
      add(node, self, known_[i], known_[i].place.block, blocks_);
      count(node, known_[i]);
    }
  }

  [[nodiscard]] std::vector<LayerTimes> layers(bool has_device) const {
    return sorted(layers_, has_device);
  }
  [[nodiscard]] std::vector<LayerTimes> blocks(bool has_device) const {
    return sorted(blocks_, has_device);
  }

  [[nodiscard]] std::vector<ProfiledMoment> moments(const std::vector<int64_t>& times_ns) const {
    std::vector<ProfiledMoment> all;
    std::map<uint64_t, std::vector<size_t>> open;  // stack of each thread: what runs within what
    size_t next = 0;
    for (const int64_t time_ns : times_ns) {
      for (; next < known_.size() && tree_.nodes()[next].event->start_ns <= time_ns; ++next) {
        const Node& node = tree_.nodes()[next];
        if (!node.gone && node.nests()) open[node.thread].push_back(next);
      }
      all.push_back(moment(time_ns, open));
    }
    return all;
  }

 private:
  /// The thread whose innermost event began last is the one that does something.
  ProfiledMoment moment(int64_t time_ns, std::map<uint64_t, std::vector<size_t>>& open) const {
    const std::vector<size_t>* running = nullptr;
    for (auto& [thread, stack] : open) {
      std::erase_if(stack, [&](size_t i) { return tree_.nodes()[i].event->end_ns <= time_ns; });
      if (stack.empty() || (running != nullptr && running->back() > stack.back())) continue;
      running = &stack;
    }
    ProfiledMoment found{"", "", phase_at(time_ns)};
    if (running == nullptr) return found;
    found.layer = known_[running->back()].place.layer;
    std::string innermost;
    for (const size_t i : *running) {
      const Node& node = tree_.nodes()[i];
      if (node.event->kind == ProfiledKind::kSpan || node.name.starts_with(kEngine)) continue;
      if (found.operators.empty()) found.operators = node.name;
      innermost = node.name;
    }
    if (innermost != found.operators) found.operators += " > " + innermost;
    return found;
  }

  using Rows = std::map<std::string, LayerTimes>;
  struct Known {
    Place place;
    std::string phase;
    bool backward = false;
  };

  static bool is_span(const Node& node, std::string_view prefix) {
    return node.event->kind == ProfiledKind::kSpan && !node.event->on_device &&
           node.name.starts_with(prefix);
  }

  /// The node of autograd that an event is, or that the engine runs in it.
  const ProfiledEvent* gradient_of(const Node& node) const {
    if (node.event->kind == ProfiledKind::kBackward) return node.event;
    if (!node.name.starts_with(kEngine)) return nullptr;
    for (const int64_t child : node.children) {
      const ProfiledEvent* event = tree_.at(child).event;
      if (event->kind == ProfiledKind::kBackward) return event;
    }
    return nullptr;
  }

  std::string phase_at(int64_t time_ns) const {
    const auto behind =
        std::partition_point(phases_.begin(), phases_.end(),
                             [&](const Node* phase) { return phase->event->start_ns <= time_ns; });
    const Node* last = behind == phases_.begin() ? nullptr : *(behind - 1);
    if (last == nullptr || time_ns >= last->event->end_ns) return "between phases";
    return last->name.substr(std::string_view(kPhasePrefix).size());
  }

  Known known_of(const Node& node) const {
    Known known = node.parent == kNone ? Known{} : known_[static_cast<size_t>(node.parent)];
    known.phase = phase_at(node.event->start_ns);
    if (is_span(node, kLayerPrefix)) {
      known.place.layer = node.name.substr(std::string_view(kLayerPrefix).size());
      if (known.place.block.empty()) known.place.block = known.place.layer;
    } else if (const ProfiledEvent* gradient = gradient_of(node); gradient != nullptr) {
      known.place = gradient->sequence < 0 ? Place{} : visits_.place_of(gradient->sequence);
      known.backward = true;
    }
    return known;
  }

  static void add(const Node& node, const ProfileTimes& self, const Known& known,
                  const std::string& layer, Rows& rows) {
    LayerTimes& row = rows[layer.empty() ? "(" + known.phase + ")" : layer];
    const bool backward = layer.empty() ? known.phase == kBackwardPhase : known.backward;
    (backward ? row.backward_host_ns : row.forward_host_ns) += self.self_host_ns;
    (backward ? row.backward_device_ns : row.forward_device_ns) += node.work_ns;
    row.host_bytes += self.self_host_bytes;
    row.device_bytes += self.self_device_bytes;
  }

  void count(const Node& node, const Known& known) {
    if (is_span(node, kPhasePrefix)) {
      ++layers_["(" + known.phase + ")"].calls;
      ++blocks_["(" + known.phase + ")"].calls;
    }
    if (!is_span(node, kLayerPrefix)) return;
    ++layers_[known.place.layer].calls;
    if (known.place.layer == known.place.block) ++blocks_[known.place.block].calls;
  }

  static std::vector<LayerTimes> sorted(const Rows& rows, bool has_device) {
    std::vector<LayerTimes> all;
    for (const auto& [name, row] : rows) {
      all.push_back(row);
      all.back().name = name;
    }
    sort_by_falling(all, [&](const LayerTimes& row) {
      return std::pair{has_device ? row.device_ns() : 0, row.host_ns()};
    });
    return all;
  }

  const Tree& tree_;
  Visits visits_;
  std::vector<const Node*> phases_;
  std::vector<Known> known_;
  Rows layers_;
  Rows blocks_;
};

}  // namespace

void add_tables(const Recording& recording, Profile& profile) {
  const Tree tree(recording);
  profile.operators = operators_of(tree, recording.has_device);
  profile.joined = joined_of(tree, recording.has_device);
  const Sharing sharing(tree, recording.visits);
  profile.layers = sharing.layers(recording.has_device);
  profile.blocks = sharing.blocks(recording.has_device);
}

std::vector<ProfiledMoment> moments_of(const Recording& recording,
                                       const std::vector<int64_t>& times_ns) {
  const Tree tree(recording);
  return Sharing(tree, recording.visits).moments(times_ns);
}

std::string profile_json(const Profile& profile) {
  return document_text(json::kProfileDocument, json::tree_of(profile));
}

}  // namespace noisemark::reports
