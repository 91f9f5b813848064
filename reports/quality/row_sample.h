#pragma once

#include <cstdint>
#include <string>

#include "reports/quality/difference_test.h"
#include "reports/quality/measures.h"
#include "reports/quality/quality.h"
#include "reports/quality/variants.h"

namespace noisemark::reports {

/// A row and the figures that it is judged by.
struct RowSample {
  QualityRow row;  ///< names, scale, seeds and means filled in
  Measure measure;
  SeedValues values;
  bool same_bits = false;  ///< every pair trained to the same weights
  /// What forbids a PASS before anything is tested: a run without the figure, or one that was not
  /// finite, which is a FAIL where the reference was. kPass: nothing.
  QualityVerdict problem = QualityVerdict::kPass;
  std::string problem_words;
};

/// Of all pairs of a pairing; pairs without the figure on both sides are left out and are a
/// problem.
[[nodiscard]] RowSample sample_row(const Pairing& pairing, const Measure& measure);

/// The same of the unweighted loss at one timestep.
[[nodiscard]] RowSample sample_timestep(const Pairing& pairing, int64_t timestep);

}  // namespace noisemark::reports
