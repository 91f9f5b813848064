#pragma once

#include <string>
#include <vector>

#include "reports/result.h"
#include "reports/table.h"

/// The scratch memory of convolutions on a GPU, and whether a limit that was set for it took
/// effect.
namespace noisemark::reports {

enum class WorkspaceLimit {
  kNone,      ///< none was set
  kUnknown,   ///< set, and what convolutions took was not measured
  kKept,      ///< no convolution took more
  kExceeded,  ///< at least one did: it had no effect there
};

[[nodiscard]] WorkspaceLimit limit_of(const ConvolutionWorkspace& workspace);

/// For a column of a table: "none", "not known", "kept to", "**no effect**".
[[nodiscard]] std::string limit_cell(const ConvolutionWorkspace& workspace);

/// Limits and what convolutions took, beside what cuDNN was told of its algorithms; one row for
/// each result that has either. Empty where none has.
[[nodiscard]] std::string workspace_table(const std::vector<NamedResult>& results);

}  // namespace noisemark::reports
