#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/quality/distance_origin.h"
#include "reports/result.h"

namespace noisemark::reports {

/// How a distance departs from what the definition of its run locks: with a sampler, the keys of
/// [sample], the seed and eval.weights; with quality.extractor, its resize; with quality.reference,
/// the reference's name or the SHA-256 of its moments. `drawn` is what sampling.json says. Empty:
/// it does not, or nothing is locked.
[[nodiscard]] std::string why_not_locked_sampling(const nlohmann::json& drawn,
                                                  const DistanceOrigin& origin, const Result& run);

}  // namespace noisemark::reports
