#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/base/fields.h"
#include "reports/base/file.h"

namespace noisemark::reports::test {

/// Expects `text` to be what the file holds. With NOISEMARK_UPDATE_GOLDEN in the environment it is
/// written there first.
inline void expect_golden(const std::filesystem::path& file, const std::string& text) {
  if (std::getenv("NOISEMARK_UPDATE_GOLDEN") != nullptr) write_file_atomically(file, text);
  EXPECT_EQ(text, read_file(file));
}

/// Expects in `room` the schema of each document, and fields.md with the tables of all.
inline void expect_published(const std::filesystem::path& room,
                             const std::vector<json::Published>& documents) {
  std::string page;
  for (const auto& [document, body] : documents) {
    expect_golden(room / json::schema_file(document), json::schema_text(document, body));
    if (!page.empty()) page += '\n';
    page += json::fields_markdown(document, body);
  }
  expect_golden(room / "fields.md", page);
}

}  // namespace noisemark::reports::test
