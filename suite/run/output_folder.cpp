#include "suite/run/output_folder.h"

#include <array>
#include <system_error>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/write_report.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// Everything that a run may leave in its folder. The result is the last to arrive.
constexpr std::array<const char*, 9> kRunFiles = {"plots",
                                                  "report.md",
                                                  "events.mlog",
                                                  "weights.safetensors",
                                                  "ema.safetensors",
                                                  "checkpoint.safetensors",
                                                  "memory_snapshot.pickle",
                                                  "samples",
                                                  "result.json"};
constexpr std::array<const char*, 2> kSuiteFiles = {"suite.json", "report.md"};
/// A run that is to replace the one above it, and one whose files are on their way up.
constexpr const char* kReplacement = "replacement";
constexpr const char* kArriving = "arriving";

bool is_empty_folder(const fs::path& path) {
  return fs::is_directory(path) && fs::directory_iterator(path) == fs::directory_iterator();
}

/// By what only a run leaves: its events are the first file that it writes, its result the last.
bool holds_run(const fs::path& path) {
  for (const fs::path& folder : {path, path / kReplacement, path / kArriving}) {
    if (fs::exists(folder / "events.mlog") || fs::exists(folder / "result.json")) return true;
  }
  return false;
}

template <typename Action>
void writing(const fs::path& path, const Action& action) {
  try {
    action();
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kCannotWrite, "--out: " + path.string() + ": " + error.code().message());
  }
}

/// From wherever a killed process stopped: a replacement with a result may only lose what it
/// replaces, and files on their way up only go on.
void complete_replacement(const fs::path& path) {
  const fs::path arriving = path / kArriving;
  if (fs::exists(path / kReplacement / "result.json")) {
    fs::remove(path / "result.json");
    for (const char* name : kRunFiles) fs::remove_all(path / name);
    fs::rename(path / kReplacement, arriving);
  }
  if (!fs::exists(arriving)) return;
  for (const char* name : kRunFiles) {
    if (fs::exists(arriving / name)) fs::rename(arriving / name, path / name);
  }
  fs::remove_all(arriving);
}

/// What a killed run was about to write.
void remove_leftovers_of_runs(const fs::path& path) {
  for (const fs::path& folder : {path, path / kReplacement}) {
    reports::remove_leftovers(folder, kRunFiles);
    if (holds_run(folder)) reports::remove_leftovers(folder / "plots");
  }
}

void refuse(const fs::path& path) {
  const std::string found = holds_run(path) ? "holds another run" : "is not an empty folder";
  throw bad_input("--out", path.string(), found,
                  "a new or empty folder; --force replaces a run, --resume continues it");
}

void refuse_to_resume(const fs::path& path) {
  throw bad_input("--resume", path.string(), "holds no run of this program",
                  "the folder of the run to continue, or a new or empty one");
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(ExitCode::kCannotWrite, "--out: " + path.string() + ": " + error.message());
  }
}

OutputFolder folder_to_resume(const fs::path& path) {
  const bool anything = fs::exists(path) && !is_empty_folder(path);
  if (anything && !holds_run(path)) refuse_to_resume(path);
  writing(path, [&] { complete_replacement(path); });
  if (fs::exists(path / kReplacement)) return {path / kReplacement, path};
  OutputFolder folder{path, path};
  if (anything && !fs::exists(folder.events())) refuse_to_resume(path);
  make_folder(path);
  return folder;
}

OutputFolder folder_to_replace(const fs::path& path) {
  writing(path, [&] {
    complete_replacement(path);
    fs::remove_all(path / kReplacement);
  });
  make_folder(path / kReplacement);
  return {path / kReplacement, path};
}

}  // namespace

OutputFolder prepare_output_folder(const fs::path& path, ExistingRun existing) {
  remove_leftovers_of_runs(path);
  if (existing == ExistingRun::kResume) return folder_to_resume(path);
  if (fs::exists(path) && !is_empty_folder(path)) {
    if (existing == ExistingRun::kRefuse || !holds_run(path)) refuse(path);
    return folder_to_replace(path);
  }
  make_folder(path);
  return {path, path};
}

void put_in_place(const OutputFolder& folder) {
  if (folder.path == folder.final_path) return;
  writing(folder.final_path, [&] { complete_replacement(folder.final_path); });
}

bool holds_replacement(const fs::path& path) {
  return fs::exists(path / kReplacement);
}

void prepare_suite_folder(const fs::path& path, bool existing) {
  reports::remove_leftovers(path, kSuiteFiles);
  const bool anything = fs::exists(path) && !is_empty_folder(path);
  const bool allowed = existing && fs::is_directory(path) && reports::read_suite(path);
  if (anything && !allowed) {
    throw bad_input("--out", path.string(), "is not an empty folder",
                    "a new or empty folder; --force and --resume take that of a suite too");
  }
  make_folder(path);
}

fs::path fresh_output_folder(const fs::path& parent, const std::string& label) {
  for (int number = 1;; ++number) {
    fs::path path = parent / (label + "-" + std::to_string(number));
    if (!fs::exists(path)) return path;
  }
}

}  // namespace noisemark::suite
