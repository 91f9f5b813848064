#include "reports/compare/find_runs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "reports/file.h"
#include "reports/write_report.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";
constexpr const char* kCannotRunHere = "cannot run here";

struct Entries {
  std::vector<fs::path> folders;  ///< by name
  bool any = false;
};

Entries entries_of(const fs::path& folder) {
  Entries entries;
  for (const fs::directory_entry& entry : read_folder(folder)) {
    entries.any = true;
    if (!entry.is_symlink() && entry.is_directory()) entries.folders.push_back(entry.path());
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  return entries;
}

class Search {
 public:
  /// Without the empty name behind a last slash, so that names below are those of folders.
  explicit Search(const fs::path& root) : root_(root.has_filename() ? root : root.parent_path()) {}

  FoundRuns find() {
    visit(root_, false);
    for (auto& [name, run] : lost_) found_.lost.push_back(std::move(run));
    return std::move(found_);
  }

 private:
  void visit(const fs::path& folder, bool inside_run) {
    const Entries entries = entries_of(folder);
    const bool result = fs::exists(folder / kResult);
    if (result) add_result(folder);
    if (result && folder == root_) return;
    const bool expected = !result && !inside_run && folder != root_;
    if (expected && (!entries.any || fs::exists(folder / "events.mlog"))) {
      lose(folder, entries.any ? "it was begun and left no result" : "its folder is empty");
    }
    const auto suite = read_suite(folder);
    if (suite) lose_runs_of(folder, *suite);
    for (const fs::path& below : entries.folders) {
      suites_.push_back(suite ? std::optional(std::pair(folder, *suite)) : std::nullopt);
      visit(below, inside_run || result);
      suites_.pop_back();
    }
  }

  /// Of the suite that lies nearest above, if any, or of none.
  void add_result(const fs::path& folder) {
    for (auto at = suites_.rbegin(); at != suites_.rend(); ++at) {
      if (!*at) continue;
      const auto& [place, suite] = **at;
      const std::string name = folder.lexically_relative(place).generic_string();
      if (std::find(suite.names.begin(), suite.names.end(), name) == suite.names.end()) {
        found_.left_out.push_back(name_of(folder) + ": of no run of the suite that lies there");
      } else if (!is_lost(folder)) {
        found_.folders.push_back(folder);
      }
      return;
    }
    found_.folders.push_back(folder);
  }

  void lose_runs_of(const fs::path& place, const Suite& suite) {
    for (const SuiteRun& run : suite_runs(place, suite)) {
      if (!run.lost.empty()) lose(place / run.name, run.lost);
    }
  }

  /// The first reason stands: a suite knows more than its folders show.
  void lose(const fs::path& folder, const std::string& why) {
    const std::string name = name_of(folder);
    lost_.emplace(name, LostRun{name, why, why == kCannotRunHere});
  }

  [[nodiscard]] bool is_lost(const fs::path& folder) const {
    return lost_.contains(name_of(folder));
  }

  [[nodiscard]] std::string name_of(const fs::path& folder) const {
    return folder.lexically_relative(root_).generic_string();
  }

  fs::path root_;
  FoundRuns found_;
  std::map<std::string, LostRun> lost_;
  std::vector<std::optional<std::pair<fs::path, Suite>>> suites_;  ///< of the folders above
};

}  // namespace

FoundRuns find_runs(const fs::path& folder) {
  return Search(folder).find();
}

}  // namespace noisemark::reports
