#include "reports/trace/span_graph.h"

#include <algorithm>

namespace noisemark::reports {

void SpanGraph::add(const Edge& edge) {
  Edge added = edge;
  added.us = std::max<int64_t>(0, edge.us);
  for (const uint32_t each : out_[edge.from]) {
    if (edges_[each].to == edge.to) {
      edges_[each] = added;
      return;
    }
  }
  const auto place = static_cast<uint32_t>(edges_.size());
  edges_.push_back(added);
  in_[edge.to].push_back(place);
  out_[edge.from].push_back(place);
}

size_t SpanGraph::linked() const {
  size_t count = 0;
  for (size_t i = 0; i < nodes(); ++i) count += in_[i].empty() && out_[i].empty() ? 0 : 1;
  return count;
}

/// Nodes after all that they wait for; shorter than nodes() where some wait in a circle.
std::vector<uint32_t> SpanGraph::in_order() const {
  std::vector<size_t> open(nodes());
  std::vector<uint32_t> order;
  for (uint32_t node = 0; node < nodes(); ++node) {
    open[node] = in_[node].size();
    if (open[node] == 0) order.push_back(node);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const uint32_t edge : out_[order[i]]) {
      if (--open[edges_[edge].to] == 0) order.push_back(edges_[edge].to);
    }
  }
  return order;
}

SpanGraph::Path SpanGraph::longest(const std::vector<double>& scale) const {
  constexpr uint32_t kNone = 0xffffffff;
  const std::vector<uint32_t> order = in_order();
  Path path;
  if (order.size() < nodes() || order.empty()) return path;
  std::vector<double> length(nodes(), 0);
  std::vector<uint32_t> by(nodes(), kNone);
  uint32_t last = order.front();
  for (const uint32_t node : order) {
    for (const uint32_t place : in_[node]) {
      const Edge& edge = edges_[place];
      const double found =
          length[edge.from] + static_cast<double>(edge.us) * scale[static_cast<size_t>(edge.kind)];
      if (by[node] != kNone && found <= length[node]) continue;
      length[node] = found;
      by[node] = place;
    }
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
