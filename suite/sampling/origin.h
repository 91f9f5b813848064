#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace noisemark::suite {

/// Where a set of samples comes from, as the sampling.json beside it says.
struct SamplingOrigin {
  /// "ddim, 50 steps, eta 0, averaged (EMA) weights 0123456789ab, seed 7, fp32"
  std::string words;
  std::string
      json;  ///< the definition, weights, sampler, seed, noise and execution of sampling.json
};

/// Of the pictures/ or samples.npy of a sampling's folder; nothing where there is no sampling.json
/// beside it, where that is of fewer samples than `count`, and where it is an old one that has no
/// checksum of them. `sha256` is that of all the pictures in pictures/ (PictureSet::checksum());
/// samples.npy is read for its own. Throws Error (exit code 2) where it cannot be understood, and
/// where what is there now are not the samples that it speaks of.
[[nodiscard]] std::optional<SamplingOrigin> sampling_origin(const std::filesystem::path& samples,
                                                            int64_t count,
                                                            const std::string& sha256 = "");

}  // namespace noisemark::suite
