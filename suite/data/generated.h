#pragma once

#include <memory>

#include "suite/config/definition.h"
#include "suite/data/dataset.h"

namespace noisemark::suite {

/// Pictures of a generated split when `data.train_samples` is 0, and of every generated test split.
inline constexpr int64_t kGeneratedSamples = 65'536;

/// "gmm16": draws of GaussianMixture::gmm16().
[[nodiscard]] std::shared_ptr<const Dataset> open_gmm16(const Definition& definition);

/// "synthetic": smooth random pictures (SmoothField, 6 waves of at most 4 periods) of the model's
/// shape, cheap to make at any resolution.
[[nodiscard]] std::shared_ptr<const Dataset> open_synthetic(const Definition& definition);

}  // namespace noisemark::suite
