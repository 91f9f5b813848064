#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "suite/io/npz.h"
#include "suite/quality/distance/moments.h"
#include "suite/quality/features.h"

namespace noisemark::suite {

/// Mean and covariance on disk: .npz with `mu` [d] and `sigma` [d, d], which is what pytorch-fid
/// and TTUR write and read. Ours also have `n` (int64) and `extractor` (uint8: JSON), which the
/// peers pass over.
struct StatisticsFile {
  Gaussian gaussian;                       ///< samples 0: the file does not say
  std::optional<ExtractorInfo> extractor;  ///< absent from the peers' files
};

/// Whether the file is one of statistics and not of features.
[[nodiscard]] bool has_statistics(const NpzFile& file);

/// Throws Error, exit code 2, naming the file: absent or damaged arrays, shapes that do not fit,
/// values that are not finite, an n below 2.
[[nodiscard]] StatisticsFile read_statistics(const NpzFile& file);

/// Throws Error, exit code 74.
void write_statistics(const std::string& path, const StatisticsFile& statistics);

}  // namespace noisemark::suite
