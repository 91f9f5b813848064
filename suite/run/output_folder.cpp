#include "suite/run/output_folder.h"

#include <array>
#include <system_error>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// Everything that a run may leave in its folder.
constexpr std::array<const char*, 6> kRunFiles = {
    "result.json", "report.md", "events.mlog", "weights.safetensors", "checkpoint.safetensors",
    "plots"};

bool is_empty_folder(const fs::path& path) {
  return fs::is_directory(path) && fs::directory_iterator(path) == fs::directory_iterator();
}

void remove_run_files(const fs::path& path) {
  for (const char* name : kRunFiles) fs::remove_all(path / name);
}

bool holds_run(const fs::path& path) {
  for (const char* name : kRunFiles) {
    if (fs::exists(path / name)) return true;
  }
  return false;
}

void refuse(const fs::path& path) {
  const std::string found = holds_run(path) ? "holds another run" : "is not an empty folder";
  throw bad_input("--out", path.string(), found,
                  "a new or empty folder; --force replaces a run, --resume continues it");
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(ExitCode::kCannotWrite, "--out: " + path.string() + ": " + error.message());
  }
}

}  // namespace

OutputFolder prepare_output_folder(const fs::path& path, ExistingRun existing) {
  const OutputFolder folder{path};
  if (existing == ExistingRun::kResume) {
    if (fs::exists(path / "result.json") && !fs::exists(folder.checkpoint())) {
      throw bad_input("--resume", folder.checkpoint(), "no such file",
                      "the folder of a run with --checkpoint-every");
    }
    make_folder(path);
    return folder;
  }
  if (fs::exists(path) && !is_empty_folder(path)) {
    if (existing == ExistingRun::kRefuse || !holds_run(path)) refuse(path);
    remove_run_files(path);
  }
  make_folder(path);
  return folder;
}

void prepare_suite_folder(const fs::path& path, bool existing) {
  if (!existing && fs::exists(path) && !is_empty_folder(path)) refuse(path);
  make_folder(path);
}

fs::path fresh_output_folder(const std::string& label) {
  for (int number = 1;; ++number) {
    fs::path path = fs::path("noisemark-out") / (label + "-" + std::to_string(number));
    if (!fs::exists(path)) return path;
  }
}

}  // namespace noisemark::suite
