#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "reports/base/file.h"

namespace noisemark::reports::test {

/// Expects `text` to be what the file holds. With NOISEMARK_UPDATE_GOLDEN in the environment it is
/// written there first.
inline void expect_golden(const std::filesystem::path& file, const std::string& text) {
  if (std::getenv("NOISEMARK_UPDATE_GOLDEN") != nullptr) write_file_atomically(file, text);
  EXPECT_EQ(text, read_file(file));
}

}  // namespace noisemark::reports::test
