#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// A kind of program that is known to fail. A row goes when its kind is mended.
struct KnownKind {
  std::string_view name;
  std::string_view issue;           ///< the text that describes it
  bool (*matches)(const Program&);  ///< such programs are not run by the driver
  uint64_t example;                 ///< seed of one that fails (generate.h)
  std::string_view finding;         ///< the kind of its finding
};

/// Constant table.
[[nodiscard]] const std::vector<KnownKind>& known_kinds();
/// The first that matches; null: none.
[[nodiscard]] const KnownKind* known_kind(const Program& program);

}  // namespace noisemark::memopt::programs
