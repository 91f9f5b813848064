#include "reports/render/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/base/error.h"
#include "reports/render/check.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

struct FoundPart {
  fs::path folder;
  Suite suite;
};

/// The parts by the name of their suite.
using PartsBySuite = std::map<std::string, std::vector<FoundPart>>;

void add_part(const fs::path& folder, PartsBySuite& parts) {
  std::vector<Finding> named_by_the_reader;  // the reader of the results names these too
  or_lost(folder, &named_by_the_reader, [&] {
    auto suite = read_suite(folder);
    if (suite && suite->part) parts[suite->part->suite].push_back({folder, *std::move(suite)});
  });
}

void add_parts_below(const fs::path& folder, PartsBySuite& parts) {
  std::error_code unreadable;
  std::vector<fs::path> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.is_directory(unreadable)) below.push_back(entry.path());
  }
  std::sort(below.begin(), below.end());
  for (const fs::path& one : below) add_part(one, parts);
}

/// `first` has set what all must be.
void require_same_suite(const FoundPart& first, const FoundPart& other) {
  const SuitePart& a = *first.suite.part;
  const SuitePart& b = *other.suite.part;
  const auto refuse = [&](const char* what, const std::string& found, const std::string& wanted) {
    throw Error(ExitCode::kNotComparable,
                fmt::format("{}: {}: {} ({} has {})", other.folder.string(), what, found,
                            first.folder.string(), wanted));
  };
  if (a.of != b.of) refuse("number of parts", std::to_string(b.of), std::to_string(a.of));
  if (a.program != b.program) refuse("program, SHA-256", b.program, a.program);
  const auto words = [](const SuitePart& part) {
    return part.options.empty() ? "none" : part.options;
  };
  if (a.options != b.options) refuse("options", words(b), words(a));
  if (a.definitions != b.definitions) {
    refuse("definitions, SHA-256", b.definitions, a.definitions);
  }
}

void require_whole(const std::string& name, const std::vector<FoundPart>& parts) {
  std::map<int64_t, const FoundPart*> by_number;
  for (const FoundPart& part : parts) {
    require_same_suite(parts.front(), part);
    const auto [there, is_new] = by_number.emplace(part.suite.part->number, &part);
    if (is_new) continue;
    throw bad_input(part.folder.string(), "",
                    fmt::format("part {} of {} a second time: {} is the same part",
                                part.suite.part->number, name, there->second->folder.string()),
                    "each part once");
  }
  std::vector<int64_t> missing;
  const int64_t all = parts.front().suite.part->of;
  for (int64_t number = 1; number <= all; ++number) {
    if (!by_number.contains(number)) missing.push_back(number);
  }
  if (missing.empty()) return;
  std::string numbers;
  for (const int64_t number : missing) {
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", number);
  }
  throw Error(ExitCode::kNotComparable,
              fmt::format("{}: part {} of {} of the suite is missing ({} is a part of it)", name,
                          numbers, all, parts.front().folder.string()));
}

}  // namespace

void require_whole_suites(const std::vector<std::string>& paths) {
  PartsBySuite parts;
  for (const std::string& path : paths) {
    add_part(path, parts);
    add_parts_below(path, parts);
  }
  for (const auto& [name, found] : parts) require_whole(name, found);
}

std::optional<Suite> joined_suite(const fs::path& folder) {
  PartsBySuite parts;
  add_parts_below(folder, parts);
  if (parts.size() != 1) return std::nullopt;
  auto& [name, found] = *parts.begin();
  require_whole(name, found);
  std::sort(found.begin(), found.end(), [](const FoundPart& a, const FoundPart& b) {
    return a.suite.part->number < b.suite.part->number;
  });
  Suite joined;
  joined.title = name;
  for (const FoundPart& part : found) {
    const auto place = [&](const std::string& run) {
      return part.folder.filename().string() + "/" + run;
    };
    for (const std::string& run : part.suite.names) joined.names.push_back(place(run));
    for (const auto& [run, sha256] : part.suite.earlier) joined.earlier[place(run)] = sha256;
    for (const auto& [run, reason] : part.suite.not_run) joined.not_run[place(run)] = reason;
    for (const auto& [run, cause] : part.suite.causes) joined.causes[place(run)] = cause;
    for (const std::string& run : part.suite.not_made) joined.not_made.push_back(place(run));
    joined.judged.insert(joined.judged.end(), part.suite.judged.begin(), part.suite.judged.end());
  }
  return joined;
}

std::optional<Suite> suite_in(const fs::path& folder) {
  if (auto suite = read_suite(folder)) return suite;
  return joined_suite(folder);
}

}  // namespace noisemark::reports
