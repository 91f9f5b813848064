// The results that the repository shows are of the benchmarks that it locks.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "reports/base/file.h"
#include "reports/render/check.h"
#include "reports/result/json_io.h"
#include "suite/config/lock.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recorded_folders() {
  std::vector<fs::path> folders;
  for (const char* part : {"baselines/results", "reports/example"}) {
    const auto found = reports::result_folders(fs::path(NOISEMARK_SOURCE) / part);
    folders.insert(folders.end(), found.begin(), found.end());
  }
  return folders;
}

reports::Result result_in(const fs::path& folder) {
  const fs::path file = folder / "result.json";
  return reports::from_json(reports::read_file(file), file.string());
}

/// The lock of what a result says it ran; empty: nothing of that name is locked.
std::string locked_sha256(const reports::Identity& identity) {
  const auto entry = shipped_lock().find(identity.benchmark + "@" + identity.scale);
  return entry == shipped_lock().end() ? "" : entry->second.definition_sha256;
}

TEST(RecordedResults, are_of_definitions_that_are_locked_today) {
  for (const fs::path& folder : recorded_folders()) {
    const reports::Identity identity = result_in(folder).identity;
    if (identity.custom) continue;
    EXPECT_EQ(identity.definition_sha256, locked_sha256(identity)) << folder;
  }
}

TEST(RecordedResults, are_whole_and_unchanged) {
  for (const fs::path& folder : recorded_folders()) {
    for (const reports::Finding& finding : reports::check(folder)) {
      ADD_FAILURE() << finding.file << ": " << finding.rule << ": " << finding.words;
    }
  }
}

TEST(RecordedResults, come_from_commits_without_local_changes) {
  for (const fs::path& folder : recorded_folders()) {
    const reports::Provenance provenance = result_in(folder).provenance;
    EXPECT_FALSE(provenance.git_commit.empty()) << folder;
    EXPECT_FALSE(provenance.git_dirty) << folder;
  }
}

}  // namespace
}  // namespace noisemark::suite
