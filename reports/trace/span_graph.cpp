#include "reports/trace/span_graph.h"

#include <algorithm>

namespace noisemark::reports {

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
