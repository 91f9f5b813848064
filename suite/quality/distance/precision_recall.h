#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace noisemark::suite {

struct PrecisionRecall {
  double precision_frac = 0;  ///< of the generated samples that lie where real ones are
  double recall_frac = 0;     ///< of the real samples that lie where generated ones are
  int64_t neighbours = 0;
};

/// Kynkäänniemi et al. 2019, section 2: a set covers the balls around its samples that reach to the
/// k-th nearest other sample of the set; a ball holds its surface. real [N1, d], generated [N2, d],
/// float64 on the device of `real`. Distances are computed for blocks of rows, so that memory grows
/// with N, not with its square. Throws Error, exit code 2: dimensions that differ, values that are
/// not finite, sets of at most k samples, k below 1.
[[nodiscard]] PrecisionRecall precision_recall(const at::Tensor& real, const at::Tensor& generated,
                                               int64_t neighbours = 3);

}  // namespace noisemark::suite
