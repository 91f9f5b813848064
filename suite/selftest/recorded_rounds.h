#pragma once

#include <span>
#include <string_view>

#include "reports/compare/sides.h"

namespace noisemark::suite {

/// A file of suite/selftest/recorded, as it is in the repository.
struct RecordedFile {
  std::string_view name;  ///< "base/01"
  std::string_view text;  ///< of its result.json
};

/// In the order of their names.
[[nodiscard]] std::span<const RecordedFile> recorded_files();

/// Runs of one build that were made in turns, half of them called BASE and half NEW: what a
/// comparison of two equal builds looks like on a real machine.
struct RecordedRounds {
  reports::Side base;
  reports::Side candidate;
};

/// Throws Error (bad input) when a file was changed: each carries its checksum.
[[nodiscard]] RecordedRounds recorded_rounds();

}  // namespace noisemark::suite
