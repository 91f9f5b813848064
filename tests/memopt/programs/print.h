#pragma once

#include <string>

#include "tests/memopt/programs/program.h"

namespace noisemark::memopt::programs {

/// The program as C++ on LibTorch and memopt that can be pasted into a test. Functions that are
/// more than an operator are those of custom_functions.h.
[[nodiscard]] std::string cpp_of(const Program& program);

}  // namespace noisemark::memopt::programs
