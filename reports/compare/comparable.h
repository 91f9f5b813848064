#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {

/// Every field in which runs of a cell differ though they must not: the definition and what was
/// changed of it, data and its bytes, threads, hardware, software, the deterministic profile, and
/// the initial weights of equal seeds. Each field once, with the first two values that differ. A
/// clocks policy that one side does not know is no difference.
/// Empty: comparable.
[[nodiscard]] std::vector<FieldDifference> identity_differences(const Cell& cell);

/// Whether a field of identity_fields() must only agree where both sides have it: a clocks policy,
/// which not every system tells, and which results that are older than it lack.
[[nodiscard]] bool may_be_unknown(const std::string& field);

/// What runs of a cell must agree in, by path in result.json, but for what belongs to their seed.
[[nodiscard]] Strings identity_fields(const Result& result);

/// In what two runs are different cells: "identity.mode" and the like. For when nothing else
/// explains why two sides have no cell in common.
[[nodiscard]] std::vector<FieldDifference> cell_differences(const Identity& base,
                                                            const Identity& candidate);

}  // namespace noisemark::reports
