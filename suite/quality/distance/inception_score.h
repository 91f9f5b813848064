#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace noisemark::suite {

struct InceptionScore {
  double mean = 0;                ///< over the splits, at least 1
  double standard_deviation = 0;  ///< over the splits, divided by their number
  int64_t splits = 0;
};

/// exp(E KL(p(y | x) || p(y))) (Salimans et al. 2016, section 4) from logits [N, classes], in
/// float64, mean and deviation over `splits` consecutive parts of nearly one size. `order` is the
/// order in which samples are dealt to the parts; empty: as they come. torch-fidelity deals them as
/// numpy_permutation(2020, N) says. Throws Error, exit code 2: logits that are not [N, classes] or
/// not finite, fewer samples than splits, splits below 1.
[[nodiscard]] InceptionScore inception_score(const at::Tensor& logits, int64_t splits = 10,
                                             const std::vector<int64_t>& order = {});

}  // namespace noisemark::suite
