#include "memopt/plan/cuts.h"

#include <algorithm>
#include <cstddef>

namespace noisemark::memopt {
namespace {

/// The bytes that operators before each one made and that it or later ones read.
std::vector<int64_t> bytes_across(const StepGraph& graph) {
  std::vector<int64_t> change(graph.operators.size() + 2, 0);
  for (const RecordedStorage& storage : graph.storages) {
    const OperatorId maker = graph.values[static_cast<size_t>(storage.values.front())].producer;
    if (storage.external || maker == kNone) continue;
    OperatorId last_reader = maker;
    for (const ValueId id : storage.values) {
      for (const OperatorId reader : graph.values[static_cast<size_t>(id)].readers) {
        last_reader = std::max(last_reader, reader);
      }
    }
    change[static_cast<size_t>(maker) + 1] += storage.bytes;
    change[static_cast<size_t>(last_reader) + 1] -= storage.bytes;
  }
  for (size_t op = 1; op < change.size(); ++op) change[op] += change[op - 1];
  return change;
}

}  // namespace

std::vector<int32_t> parts_between(
    const StepGraph& graph,
    const std::function<bool(const StepGraph&, const RecordedOperator&)>& runs_apart) {
  const std::vector<int64_t> across = bytes_across(graph);
  std::vector<int32_t> parts(graph.operators.size(), 0);
  int32_t part = 0;
  size_t from = 0;  // the first operator behind the last cut and the last that runs apart
  bool any = false;
  for (size_t op = 0; op < graph.operators.size(); ++op) {
    parts[op] = part;
    if (!runs_apart(graph, graph.operators[op])) continue;
    if (any) {
      size_t cut = from;
      for (size_t at = from; at <= op; ++at) {
        if (across[at] <= across[cut]) cut = at;
      }
      std::fill(parts.begin() + static_cast<std::ptrdiff_t>(cut),
                parts.begin() + static_cast<std::ptrdiff_t>(op) + 1, ++part);
    }
    any = true;
    from = op + 1;
  }
  return parts;
}

}  // namespace noisemark::memopt
