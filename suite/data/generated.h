#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "suite/config/definition.h"
#include "suite/data/dataset.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite {

struct FieldShape {
  int64_t channels = 1;
  int64_t resolution = 16;    ///< height and width
  int64_t waves = 4;          ///< plane waves that are added up
  int64_t max_frequency = 2;  ///< periods per width and per height, at the most
};

/// A smooth random image: a sum of plane waves with random frequency, phase and amplitude per
/// channel, scaled so that every value lies in [-1, 1]. Same bits on every machine (elementary.h).
class SmoothField {
 public:
  SmoothField(CounterRng& rng, const FieldShape& shape);

  /// Writes row `y` of `channel`, `resolution` values.
  void row(int64_t channel, int64_t y, std::span<double> out) const;
  /// Writes all of [C, H, W].
  void fill(std::span<double> out) const;

 private:
  FieldShape shape_;
  // cos(a + b) = cos a cos b - sin a sin b, a along x and b (with the phase) along y.
  std::vector<double> cos_x_, sin_x_;  ///< [waves, resolution]
  std::vector<double> cos_y_, sin_y_;  ///< [waves, resolution]
  std::vector<double> amplitudes_;     ///< [channels, waves]
};

/// Images of a generated split when `data.train_samples` is 0, and of every generated test split.
inline constexpr int64_t kGeneratedSamples = 65'536;

/// "gmm16": draws of GaussianMixture::gmm16().
[[nodiscard]] std::shared_ptr<const Dataset> open_gmm16(const Definition& definition);

/// "synthetic": smooth random images (SmoothField, 6 waves of at most 4 periods) of the model's
/// shape, cheap to make at any resolution.
[[nodiscard]] std::shared_ptr<const Dataset> open_synthetic(const Definition& definition);

}  // namespace noisemark::suite
