#pragma once

#include <string>

#include "reports/result/result.h"

namespace noisemark::reports::test {

/// A result with every field set and every kind of section filled, consistent enough to pass
/// check(). The figures are invented: it stands for the shape of a result, not for a measurement.
[[nodiscard]] Result full_result();
/// The same under a lossless memory mode that passed.
[[nodiscard]] Result result_under_echo();

/// The same on a GPU, with what was read beside it.
[[nodiscard]] Result result_on_a_gpu();

/// A result in which everything that may be empty is.
[[nodiscard]] Result minimal_result();

/// The full one, of two ranks that trained together.
[[nodiscard]] Result result_of_two_ranks();

[[nodiscard]] inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace noisemark::reports::test
