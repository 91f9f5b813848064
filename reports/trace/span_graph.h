#pragma once

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

  /// An edge between two nodes takes the place of one that was there. Less than no time is none.
  void add(const Edge& edge);

  [[nodiscard]] size_t nodes() const { return in_.size(); }
  /// The nodes that have an edge.
  [[nodiscard]] size_t linked() const;
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }

  struct Path {
    double us = 0;
    std::vector<uint32_t> edges;  ///< places in edges(), from the first to the last
  };
  /// The longest path, where an edge of each kind takes its time times `scale`. Of equal ones the
  /// first found counts, as in NetworkX' dag_longest_path. It is empty where nodes wait in a
  /// circle.
  [[nodiscard]] Path longest(const std::vector<double>& scale = std::vector<double>(kSpanEdges,
                                                                                    1.0)) const;

 private:
  [[nodiscard]] std::vector<uint32_t> in_order() const;

  std::vector<Edge> edges_;
  std::vector<std::vector<uint32_t>> in_;  ///< edges, in the order in which they were added
  std::vector<std::vector<uint32_t>> out_;
};

}  // namespace noisemark::reports
