#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace noisemark::reports {

/// The kinds of time of an edge of a critical path.
enum class SpanEdge : uint8_t {
  kHost,    ///< lies within operators and calls, and between those of one parent
  kDevice,  ///< an event on a stream
  kLaunch,  ///< leads from a call to the start of what it launched
  kGap,     ///< leads from an event on a stream to the next one
  kOrder,   ///< no time: one comes before the other
  kWait,    ///< no time: one waits for the other
};
inline constexpr size_t kSpanEdges = 6;

/// Points in time that wait for one another.
class SpanGraph {
 public:
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    SpanEdge kind = SpanEdge::kOrder;
    int64_t us = 0;
  };

  explicit SpanGraph(size_t nodes) : in_(nodes), out_(nodes) {}

  /// Factors for the times of edges, by their kind.
  using Scale = std::array<double, kSpanEdges>;

  /// An edge between two nodes takes the place of one that was there. Less than no time is none.
  void add(const Edge& edge);

  [[nodiscard]] size_t nodes() const { return in_.size(); }
  /// The nodes that have an edge.
  [[nodiscard]] size_t linked() const;
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }

  struct Path {
    int64_t us = 0;
    std::vector<uint32_t> edges;    ///< places in edges(), from the first to the last
    std::vector<double> scaled_us;  ///< length of the longest path under each scale
  };
  /// The longest path. Of equal ones the first found counts, as in NetworkX' dag_longest_path.
  /// It is empty where nodes wait in a circle.
  [[nodiscard]] Path longest(const std::vector<Scale>& scales = {}) const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  /// The edges of a node in the order in which they were added; each leads to the next one.
  struct Chain {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  struct Next {
    uint32_t in = kNone;   ///< the next edge to the same node
    uint32_t out = kNone;  ///< the next edge from the same node
  };
  void append(Chain& chain, uint32_t edge, uint32_t Next::*next);
  [[nodiscard]] std::vector<uint32_t> in_order() const;

  std::vector<Edge> edges_;
  std::vector<Next> next_;  ///< the followers of each edge
  std::vector<Chain> in_;   ///< the edges of each node
  std::vector<Chain> out_;
};

}  // namespace noisemark::reports
