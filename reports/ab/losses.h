#pragma once

#include <optional>
#include <string>

#include "reports/ab/record.h"
#include "reports/compare/comparison.h"

namespace noisemark::reports {

/// What the losses of two builds say. Both train from the same weights, data and seeds, so that
/// their losses are equal bit for bit unless one of them computes something else.
struct LossFinding {
  std::optional<ExactRow> row;  ///< empty: nothing to judge, and `note` says why
  std::string note;             ///< may be empty
};

/// Compares every step that all processes made. A difference is a regression; with `other_losses`
/// only a note. A build that does not repeat its own losses from process to process is
/// inconclusive, unless A is such a one already and the profile does not promise it: then nothing
/// is judged.
[[nodiscard]] LossFinding compare_losses(const AbRecord& record, const std::string& cell,
                                         bool other_losses);

}  // namespace noisemark::reports
