#include "reports/trace/analyses.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "reports/base/error.h"

namespace noisemark::reports {
namespace {

using Index = uint32_t;
constexpr Index kNone = std::numeric_limits<Index>::max();

/// The rules ask this of a name, once for each.
struct NameTraits {
  bool locks = false;   ///< takes the lock of the runtime
  bool blocks = false;  ///< its own time is a wait
};

std::vector<NameTraits> traits_of(const std::vector<std::string>& names) {
  const std::set<std::string_view> locks{"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"};
  const std::set<std::string_view> blocks{"cudaDeviceSynchronize",
                                          "cudaStreamSynchronize",
                                          "cudaEventQuery",
                                          "cudaEventSynchronize",
                                          "cudaMemcpy",
                                          "cudaMemcpyAsync"};
  std::vector<NameTraits> traits;
  for (const std::string& name : names)
    traits.push_back({locks.contains(name), blocks.contains(name)});
  return traits;
}

/// Builds the graph of a window. Events go by their place in the trace.
class Builder {
 public:
  Builder(const Trace& trace, int64_t from, int64_t until)
      : trace_(trace),
        traits_(traits_of(trace.names)),
        start_(trace.events.size(), kNone),
        end_(start_),
        within_(trace.events.size()) {
    choose(from, until);
    make_nodes();
  }

  CriticalPath path();

 private:
  struct Node {
    int64_t at = 0;
    Index event = 0;
    bool is_start = false;
  };
  /// A call and what it launched on a stream.
  struct Launch {
    int64_t at = 0;
    Index kernel = 0;
  };

  [[nodiscard]] const TraceEvent& event(Index index) const { return trace_.events[index]; }
  [[nodiscard]] bool has_nodes(Index index) const { return start_[index] != kNone; }
  [[nodiscard]] int64_t at(Index node) const { return nodes_[node].at; }
  [[nodiscard]] bool locks(Index node) const {
    return traits_[event(nodes_[node].event).name].locks;
  }

  void choose(int64_t from, int64_t until);
  void make_nodes();
  void add(Index from, Index to, SpanEdge kind, bool takes_time = true);
  void add_locks();
  void add_threads();
  void add_thread(std::vector<Index>& events);
  void add_streams();
  void note_launches();
  void add_wait(Index index);
  void add_kernel(Index index, const QueueLengths& queues);
  [[nodiscard]] Index waited_for(const TraceEvent& wait) const;
  [[nodiscard]] Index held_up(const TraceEvent& wait) const;
  [[nodiscard]] std::optional<uint32_t> only_thread_with(std::string_view part) const;
  void name_shares(const SpanGraph::Path& found, CriticalPath& path) const;

  const Trace& trace_;
  std::vector<NameTraits> traits_;
  std::vector<Index> start_;  ///< node of the start of an event
  std::vector<Index> end_;
  std::vector<char> within_;
  std::vector<Node> nodes_;
  std::optional<SpanGraph> graph_;
  std::vector<Index> parent_;  ///< the innermost event around each node's own

  std::map<std::pair<uint32_t, int64_t>, std::vector<Launch>> launches_;  ///< launches of each
                                                                          ///< device and stream
  std::unordered_map<int64_t, int64_t> records_;  ///< time at which events were recorded, of each
                                                  ///< correlation
  std::map<int64_t, Index> last_;                 ///< the last end on each stream
  std::vector<int64_t> last_order_;               ///< streams as they came
  std::unordered_map<Index, Index> held_;         ///< a kernel and the one that it waits for
};

/// The host's events that begin within, and what they launched.
void Builder::choose(int64_t from, int64_t until) {
  const auto is_in = [&](const TraceEvent& each) {
    return each.start >= from && each.start <= until && each.duration() > 0;
  };
  for (Index i = 0; i < within_.size(); ++i) {
    const TraceEvent& each = event(i);
    const bool launched_within =
        each.partner >= 0 && is_in(event(static_cast<Index>(each.partner)));
    within_[i] = each.on_stream() ? launched_within || trace_.name_of(each) == "Stream Wait Event"
                                  : is_in(each);
  }
}

void Builder::make_nodes() {
  for (Index i = 0; i < within_.size(); ++i) {
    const TraceEvent& each = event(i);
    const bool is_spanned = each.category == TraceCategory::kOperator ||
                            each.category == TraceCategory::kRuntime ||
                            (each.on_stream() && each.correlation >= 0);
    if (within_[i] == 0 || !is_spanned) continue;
    nodes_.push_back({each.start, i, true});
    nodes_.push_back({each.end, i, false});
  }
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    return std::tuple(a.at, a.event, !a.is_start) < std::tuple(b.at, b.event, !b.is_start);
  });
  for (Index i = 0; i < nodes_.size(); ++i) {
    (nodes_[i].is_start ? start_ : end_)[nodes_[i].event] = i;
  }
  graph_.emplace(nodes_.size());
  parent_.assign(nodes_.size(), kNone);
}

void Builder::add(Index from, Index to, SpanEdge kind, bool takes_time) {
  const bool is_timed = takes_time && kind != SpanEdge::kOrder && kind != SpanEdge::kWait;
  graph_->add({from, to, kind, is_timed ? at(to) - at(from) : 0});
}

/// Calls that take the lock end one after the other, and each start leads to the next end.
void Builder::add_locks() {
  std::vector<Index> open;
  Index last = kNone;
  for (Index node = 0; node < nodes_.size(); ++node) {
    if (!locks(node)) continue;
    if (nodes_[node].is_start) {
      open.push_back(node);
    } else {
      for (; !open.empty(); open.pop_back()) {
        const bool is_own = nodes_[open.back()].event == nodes_[node].event;
        add(open.back(), node, is_own ? SpanEdge::kHost : SpanEdge::kOrder);
      }
      if (last != kNone && !nodes_[last].is_start) add(last, node, SpanEdge::kOrder);
    }
    last = node;
  }
}

/// The only thread with operators or annotations whose name holds `part`.
std::optional<uint32_t> Builder::only_thread_with(std::string_view part) const {
  std::vector<char> holds;
  for (const std::string& name : trace_.names) {
    holds.push_back(name.find(part) != std::string::npos ? 1 : 0);
  }
  std::set<uint32_t> threads;
  for (Index i = 0; i < within_.size(); ++i) {
    const TraceCategory category = event(i).category;
    const bool counts =
        category == TraceCategory::kOperator || category == TraceCategory::kAnnotation;
    if (within_[i] != 0 && counts && holds[event(i).name] != 0) threads.insert(event(i).tid);
  }
  return threads.size() == 1 ? std::optional(*threads.begin()) : std::nullopt;
}

/// The backward pass has a thread of its own and yet follows the forward pass: both are one.
void Builder::add_threads() {
  const std::optional<uint32_t> forward = only_thread_with("forward");
  const std::optional<uint32_t> backward = only_thread_with("autograd");
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Index>> threads;
  std::set<std::pair<uint32_t, uint32_t>> streams;
  for (Index i = 0; i < within_.size(); ++i) {
    if (within_[i] == 0) continue;
    const TraceEvent& each = event(i);
    const bool is_moved = forward && backward && each.tid == *backward;
    const std::pair thread{each.pid, is_moved ? *forward : each.tid};
    if (each.on_stream()) streams.insert(thread);
    threads[thread].push_back(i);
  }
  for (auto& [thread, events] : threads) {
    if (!streams.contains(thread)) add_thread(events);
  }
}

/// Starts and ends of nested events in their order. At one time ends come first, the shortest one
/// first, then the longest start.
void Builder::add_thread(std::vector<Index>& events) {
  struct Step {
    int64_t at;
    bool is_start;
    int64_t order;
    Index event;
  };
  std::vector<Step> steps;
  for (const Index i : events) {
    const int64_t duration = event(i).duration();
    steps.push_back({event(i).start, true, -duration, i});
    steps.push_back({event(i).end, false, duration, i});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    const int64_t by_place = a.is_start ? 1 : -1;
    return std::tuple(a.at, a.is_start, a.order, by_place * int64_t{a.event}) <
           std::tuple(b.at, b.is_start, b.order, by_place * int64_t{b.event});
  });
  std::vector<Index> open;
  Index last = kNone;
  size_t depth = 0;
  for (const Step& step : steps) {
    const Index i = step.is_start ? step.event : open.back();
    if (!step.is_start) open.pop_back();
    const Index parent = open.empty() ? kNone : open.back();
    if (step.is_start) open.push_back(i);
    if (!has_nodes(i)) continue;
    const Index node = step.is_start ? start_[i] : end_[i];
    const bool is_locks =
        last != kNone && locks(last) && locks(node) && (nodes_[last].is_start || !step.is_start);
    if (last != kNone && !is_locks) {
      const bool is_apart = step.is_start && depth == 0;
      add(last, node, is_apart ? SpanEdge::kOrder : SpanEdge::kHost,
          step.is_start || !traits_[event(i).name].blocks);
    }
    depth += step.is_start ? 1 : -1;
    parent_[node] = parent;
    last = node;
  }
}

void Builder::note_launches() {
  const bool has_waits = !trace_.waits.empty();
  for (Index i = 0; i < trace_.events.size(); ++i) {
    const TraceEvent& each = event(i);
    if (has_waits && each.category == TraceCategory::kRuntime && each.correlation >= 0) {
      records_[each.correlation] = each.start;
    }
    const bool is_launched =
        each.on_stream() && each.category == TraceCategory::kKernel && each.partner >= 0;
    if (!is_launched) continue;
    launches_[{each.pid, each.stream}].push_back(
        {event(static_cast<Index>(each.partner)).start, i});
  }
  for (auto& [stream, launches] : launches_) {
    std::stable_sort(launches.begin(), launches.end(),
                     [](const Launch& a, const Launch& b) { return a.at < b.at; });
  }
}

/// The last kernel that was launched on the stream before the event was recorded there.
Index Builder::waited_for(const TraceEvent& wait) const {
  if (wait.wait < 0) return kNone;
  const TraceWait& words = trace_.waits[static_cast<size_t>(wait.wait)];
  const auto record = records_.find(words.record);
  const auto launches = launches_.find({wait.pid, words.stream});
  if (record == records_.end() || launches == launches_.end()) return kNone;
  const auto after =
      std::upper_bound(launches->second.begin(), launches->second.end(), record->second,
                       [](int64_t at, const Launch& launch) { return at < launch.at; });
  return after == launches->second.begin() ? kNone : std::prev(after)->kernel;
}

/// The next kernel that the thread of the wait's call launched on the stream of the wait.
Index Builder::held_up(const TraceEvent& wait) const {
  const auto launches = launches_.find({wait.pid, wait.stream});
  if (wait.partner < 0 || launches == launches_.end()) return kNone;
  const TraceEvent& call = event(static_cast<Index>(wait.partner));
  auto next = std::lower_bound(launches->second.begin(), launches->second.end(), call.start,
                               [](const Launch& launch, int64_t at) { return launch.at < at; });
  for (; next != launches->second.end(); ++next) {
    const TraceEvent& launch = event(static_cast<Index>(event(next->kernel).partner));
    if (launch.pid == call.pid && launch.tid == call.tid) return next->kernel;
  }
  return kNone;
}

void Builder::add_wait(Index index) {
  const TraceEvent& wait = event(index);
  const std::string& name = trace_.name_of(wait);
  const Index call_end = wait.partner < 0 ? kNone : end_[static_cast<size_t>(wait.partner)];
  const auto to_call = [&](Index from) {
    if (call_end != kNone) add(from, call_end, SpanEdge::kWait);
  };
  if (name == "Stream Wait Event" || name == "Event Sync") {
    const Index first = waited_for(wait);
    if (first == kNone) return;
    if (name == "Event Sync") {
      if (end_[first] != kNone) to_call(end_[first]);
    } else if (const Index second = held_up(wait); second != kNone) {
      held_[second] = first;
    }
  } else if (name == "Context Sync") {
    for (const int64_t stream : last_order_) to_call(last_.at(stream));
  } else if (const auto last = last_.find(wait.stream); last != last_.end()) {
    to_call(last->second);
  }
}

void Builder::add_kernel(Index index, const QueueLengths& queues) {
  constexpr int64_t kLongestGap = 1500;  // us; what is longer waits for something unknown
  const TraceEvent& kernel = event(index);
  const Index start = start_[index];
  if (start == kNone) return;
  add(start, end_[index], SpanEdge::kDevice);
  Index waits_for = kNone;
  if (const auto held = held_.find(index); held != held_.end()) {
    waits_for = end_[held->second];
    if (waits_for != kNone) add(waits_for, start, SpanEdge::kWait);
  }
  const auto found = last_.find(kernel.stream);
  const Index last = found == last_.end() ? kNone : found->second;
  const auto is_before = [&](Index node, int64_t time) { return node == kNone || at(node) < time; };
  const auto call = static_cast<Index>(kernel.partner);
  const bool was_empty = kernel.partner >= 0 && start_[call] != kNone &&
                         queues.at_launch[index] == 1 && queues.at_begin[index] == 0;
  if (was_empty && is_before(last, event(call).start) && is_before(waits_for, event(call).start)) {
    add(start_[call], start, SpanEdge::kLaunch);
  } else if (last != kNone && at(start) - at(last) < kLongestGap &&
             is_before(waits_for, at(last))) {
    add(last, start, SpanEdge::kGap);
  }
  if (last == kNone) last_order_.push_back(kernel.stream);
  last_[kernel.stream] = end_[index];
}

void Builder::add_streams() {
  note_launches();
  const QueueLengths queues = queue_lengths(trace_);
  std::vector<Index> events;
  for (Index i = 0; i < within_.size(); ++i) {
    if (within_[i] != 0 && trace_.on_device(event(i))) events.push_back(i);
  }
  const auto time = [&](Index i) {
    return event(i).category == TraceCategory::kSync ? event(i).end : event(i).start;
  };
  std::stable_sort(events.begin(), events.end(),
                   [&](Index a, Index b) { return time(a) < time(b); });
  for (const Index i : events) {
    event(i).category == TraceCategory::kSync ? add_wait(i) : add_kernel(i, queues);
  }
}

void Builder::name_shares(const SpanGraph::Path& found, CriticalPath& path) const {
  constexpr size_t kShown = 10;
  std::unordered_map<uint32_t, int64_t> by_name;
  for (const uint32_t place : found.edges) {
    const SpanGraph::Edge& edge = graph_->edges()[place];
    const Node& from = nodes_[edge.from];
    const Node& to = nodes_[edge.to];
    if (edge.kind != SpanEdge::kHost && edge.kind != SpanEdge::kDevice) continue;
    const Index within = from.is_start ? from.event : !to.is_start ? to.event : parent_[edge.from];
    if (within != kNone) by_name[event(within).name] += edge.us;
  }
  for (const auto& [name, us] : by_name) path.longest.push_back({trace_.names[name], us});
  std::sort(path.longest.begin(), path.longest.end(), [](const auto& a, const auto& b) {
    return a.us != b.us ? a.us > b.us : a.name < b.name;
  });
  path.longest.resize(std::min(path.longest.size(), kShown));
}

constexpr const char* kChanges[] = {"device twice as fast", "device in no time",
                                    "host twice as fast", "launches in no time"};
constexpr SpanGraph::Scale kScales[] = {
    {1, 0.5, 1, 1, 1, 1}, {1, 0, 1, 1, 1, 1}, {0.5, 1, 1, 1, 1, 1}, {1, 1, 0, 1, 1, 1}};

CriticalPath Builder::path() {
  add_locks();
  add_threads();
  add_streams();
  CriticalPath path;
  path.nodes = graph_->linked();
  path.edges = graph_->edges().size();
  const SpanGraph::Path found = graph_->longest({std::begin(kScales), std::end(kScales)});
  if (found.edges.empty()) return path;
  path.path_nodes = found.edges.size() + 1;
  std::vector<char> is_on_path(trace_.events.size());
  is_on_path[nodes_[graph_->edges()[found.edges.front()].from].event] = 1;
  for (const uint32_t place : found.edges) {
    const SpanGraph::Edge& edge = graph_->edges()[place];
    is_on_path[nodes_[edge.to].event] = 1;
    path.by_kind_us.at(static_cast<size_t>(edge.kind)) += edge.us;
  }
  path.us = found.us;
  path.path_events = static_cast<size_t>(std::count(is_on_path.begin(), is_on_path.end(), char{1}));
  name_shares(found, path);
  for (size_t i = 0; i < std::size(kChanges); ++i) {
    path.what_if.push_back({kChanges[i], found.scaled_us[i]});
  }
  return path;
}

}  // namespace

CriticalPath critical_path_of(const Trace& trace, const TraceWindow& window,
                              const std::string& where) {
  if (window.annotation.empty()) {
    using Limits = std::numeric_limits<int64_t>;
    return Builder(trace, Limits::min(), Limits::max()).path();
  }
  size_t seen = 0;
  const auto found =
      std::find_if(trace.events.begin(), trace.events.end(), [&](const TraceEvent& event) {
        return trace.name_of(event).find(window.annotation) != std::string::npos &&
               seen++ == window.instance;
      });
  if (found == trace.events.end()) {
    throw bad_input(where, window.annotation, fmt::format("{} in the trace", seen),
                    fmt::format("at least {}", window.instance + 1));
  }
  CriticalPath path = Builder(trace, found->start, found->end).path();
  path.window = trace.name_of(*found);
  return path;
}

TraceWindow default_window(const Trace& trace) {
  const std::string step = "ProfilerStep#";
  const bool has_steps =
      std::any_of(trace.events.begin(), trace.events.end(),
                  [&](const TraceEvent& event) { return trace.name_of(event).starts_with(step); });
  return {has_steps ? step : "", 0};
}

void SpanGraph::append(Chain& chain, uint32_t edge, uint32_t Next::*next) {
  (chain.first == kNone ? chain.first : next_[chain.last].*next) = edge;
  chain.last = edge;
}

void SpanGraph::add(const Edge& edge) {
  Edge added = edge;
  added.us = std::max<int64_t>(0, edge.us);
  for (uint32_t each = out_[edge.from].first; each != kNone; each = next_[each].out) {
    if (edges_[each].to == edge.to) {
      edges_[each] = added;
      return;
    }
  }
  const auto place = static_cast<uint32_t>(edges_.size());
  edges_.push_back(added);
  next_.emplace_back();
  append(in_[edge.to], place, &Next::in);
  append(out_[edge.from], place, &Next::out);
}

size_t SpanGraph::linked() const {
  size_t count = 0;
  for (size_t i = 0; i < nodes(); ++i) {
    count += in_[i].first == kNone && out_[i].first == kNone ? 0 : 1;
  }
  return count;
}

/// Nodes after all that they wait for; shorter than nodes() where some wait in a circle.
std::vector<uint32_t> SpanGraph::in_order() const {
  std::vector<uint32_t> open(nodes());
  for (const Edge& edge : edges_) ++open[edge.to];
  std::vector<uint32_t> order;
  order.reserve(nodes());
  for (uint32_t node = 0; node < nodes(); ++node) {
    if (open[node] == 0) order.push_back(node);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (uint32_t edge = out_[order[i]].first; edge != kNone; edge = next_[edge].out) {
      if (--open[edges_[edge].to] == 0) order.push_back(edges_[edge].to);
    }
  }
  return order;
}

SpanGraph::Path SpanGraph::longest(const std::vector<Scale>& scales) const {
  const std::vector<uint32_t> order = in_order();
  const size_t count = scales.size();
  Path path{.us = 0, .edges = {}, .scaled_us = std::vector<double>(count)};
  if (order.size() < nodes() || order.empty()) return path;
  std::vector<int64_t> length(nodes());
  std::vector<double> scaled(nodes() * count);  // those of a node are neighbours
  std::vector<uint32_t> by(nodes(), kNone);
  uint32_t last = order.front();
  for (const uint32_t node : order) {
    double* const own = scaled.data() + node * count;
    for (uint32_t place = in_[node].first; place != kNone; place = next_[place].in) {
      const Edge& edge = edges_[place];
      const double* const from = scaled.data() + edge.from * count;
      for (size_t i = 0; i < count; ++i) {
        const double factor = scales[i][static_cast<size_t>(edge.kind)];
        own[i] = std::max(own[i], from[i] + static_cast<double>(edge.us) * factor);
      }
      const int64_t found = length[edge.from] + edge.us;
      if (by[node] != kNone && found <= length[node]) continue;
      length[node] = found;
      by[node] = place;
    }
    for (size_t i = 0; i < count; ++i) path.scaled_us[i] = std::max(path.scaled_us[i], own[i]);
    if (length[node] > length[last]) last = node;
  }
  path.us = length[last];
  for (uint32_t node = last; by[node] != kNone; node = edges_[by[node]].from) {
    path.edges.push_back(by[node]);
  }
  std::reverse(path.edges.begin(), path.edges.end());
  return path;
}

}  // namespace noisemark::reports
