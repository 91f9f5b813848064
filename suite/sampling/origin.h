#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace noisemark::suite {

/// Where a set of samples comes from, as the sampling.json beside it says.
struct SamplingOrigin {
  std::string words;  ///< "ddim, 50 steps, eta 0, averaged (EMA) weights 0123456789ab, seed 7"
  std::string json;   ///< the definition, weights, sampler, seed and noise of sampling.json
};

/// Of the pictures/ or samples.npy of a sampling's folder; nothing where there is no sampling.json
/// beside it, or that is of fewer samples than `count`. Throws Error (exit code 2)
/// where it cannot be understood.
[[nodiscard]] std::optional<SamplingOrigin> sampling_origin(const std::filesystem::path& samples,
                                                            int64_t count);

}  // namespace noisemark::suite
