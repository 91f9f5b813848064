#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {

/// Every field in which two identities differ, by name, with both values: the one place that knows
/// what a difference is. A field that only one of them has differs too, and shows as an empty value
/// on the other side; so a clocks policy that one side does not know is not taken for the other's.
[[nodiscard]] std::vector<FieldDifference> differing_fields(const Strings& a, const Strings& b,
                                                            const std::string& cell = "");

/// "identity.threads and 2 more"; empty where nothing differs.
[[nodiscard]] std::string first_of(const std::vector<FieldDifference>& differences);

/// Every field in which runs of a cell differ though they must not: those of identity_fields(), and
/// the initial weights of equal seeds. Each field once, with the first two values that differ.
/// Empty: comparable.
[[nodiscard]] std::vector<FieldDifference> identity_differences(const Cell& cell);

/// Settings of the machine in which the paired runs of the two sides differ and which no identity
/// holds: they forbid no comparison, and a reader should know them. With all values of each side,
/// of no cell.
[[nodiscard]] std::vector<FieldDifference> environment_differences(const std::vector<Cell>& cells);

/// What runs of a cell must agree in, by path in result.json, but for what belongs to their seed:
/// the definition and what was changed of it, data and its bytes, threads, hardware with the clocks
/// policy, software, the deterministic profile.
[[nodiscard]] Strings identity_fields(const Result& result);

/// In what two runs are different cells: "identity.mode" and the like. For when nothing else
/// explains why two sides have no cell in common.
[[nodiscard]] std::vector<FieldDifference> cell_differences(const Identity& base,
                                                            const Identity& candidate);

}  // namespace noisemark::reports
