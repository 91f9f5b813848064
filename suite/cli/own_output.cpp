
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/ab/ab_fields.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/streams.h"
#include "reports/export/exporters.h"
#include "reports/html/page.h"
#include "reports/profile/profile.h"
#include "reports/render/check.h"
#include "reports/render/plot.h"
#include "reports/render/run_folder.h"
#include "reports/render/table.h"
#include "reports/result/events.h"
#include "reports/result/result_fields.h"
#include "reports/seeds/distance_file.h"
#include "reports/seeds/study_fields.h"
#include "suite/cli/arguments.h"
#include "suite/io/numpy.h"
#include "suite/run/folder/output_folder.h"
#include "suite/sampling/folder.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

using Names = std::span<const char* const>;

/// Holds the files that the program keeps in a folder of its own, and the one by which it knows
/// such a folder.
struct Keeping {
  std::string_view mark;
  std::string_view begins;  ///< words near the mark's beginning: another program's file has others
  Names files;
  Names folders = {};  ///< folders in it whose files are kept too
};

constexpr std::array kSuiteFiles = {"suite.json", "report.md",  "report.html",  "sweep.md",
                                    "sweep.html", "predict.md", "predict.json", "predict.html"};
constexpr std::array kQualityFiles = {"quality.json", "quality.md", "quality.html"};
constexpr std::array kProfileFiles = {reports::kProfileFile, "profile.md", "profile.html",
                                      "trace.json.gz", "memory_timeline.json"};
constexpr std::array kAbFiles = {"ab.json", "ab.md"};
constexpr std::array kCalibrationFiles = {"calibration.json", "calibration.md"};
constexpr std::array kFoldersOfRun = {"plots", "distances"};
constexpr std::array kFolderOfPlots = {"plots"};
constexpr std::array kFolderOfPictures = {kPicturesFolder};
constexpr std::array<Keeping, 8> kKeepings = {{
    {"result.json", reports::json::kResultDocument.name, kRunFiles, kFoldersOfRun},
    {"events.mlog", reports::kEventPrefix, kRunFiles, kFolderOfPlots},
    {"suite.json", reports::json::kSuiteDocument.name, kSuiteFiles},
    {"quality.json", reports::json::kQualityDocument.name, kQualityFiles},
    {"sampling.json", reports::json::kSamplingDocument.name, kSamplingFiles, kFolderOfPictures},
    {reports::kProfileFile, reports::json::kProfileDocument.name, kProfileFiles, kFolderOfPlots},
    {"ab.json", reports::json::kAbDocument.name, kAbFiles},
    {"calibration.json", reports::json::kCalibrationDocument.name, kCalibrationFiles},
}};

constexpr uint32_t kWriteOtherThings =
    command::kHistory | command::kPlan | command::kAb | command::kCalibrate | command::kSelftest;

/// Tells by its bytes a text that a command left at --out. The formats of reports/export/ tell
/// theirs themselves.
struct Text {
  uint32_t commands;
  std::string_view file;  ///< its name in the folder; empty: --out is the file itself
  reports::TextForm form;
};

/// The commands whose folder is searched for texts of others.
constexpr uint32_t kKeepTexts = kWriteOtherThings | command::kQuality;

constexpr uintmax_t kLargestText = uintmax_t{64} << 20;  ///< a page of many results has a tenth
constexpr std::array kTexts = {
    Text{command::kFit, "", {"# ", "| largest batch |"}},
    Text{command::kReport, "report.md", {"<!-- noisemark run_id="}},
    Text{command::kTrace, "", {"# Trace: ", "\n- Times are whole microseconds: "}},
    Text{command::kTrace, "", {"{\n  \"events\": ", "\"hidden_communication_frac\""}},
    Text{command::kCompare, "", {reports::kPageBegins, ",\n\"pairs\":"}},
    Text{command::kHistory, "history.md", {"# History: ", "\n## How changes are found\n"}},
    Text{command::kHistory, "history.html", {reports::kPageBegins, "<title>History: "}},
    Text{command::kQuality, "quality.md", {"# ", "\n\nGates: "}},
    Text{command::kQuality, "quality.html", {reports::kPageBegins, ": quality of "}},
    Text{command::kCalibrate, "calibration.md", {"# ", "Noise floor of images/s: "}},
    Text{command::kAb, "ab.md", {"# ", " of live processes, "}},
    Text{command::kSelftest, "selftest.md", {"# ", " untouched twins passed."}},
};

/// The plots that a command draws into its folder, by the beginning of their names.
struct PlotsOf {
  uint32_t command;
  std::string_view begins;
};
constexpr std::array kPlots = {PlotsOf{command::kPlan, "pareto."},
                               PlotsOf{command::kHistory, "history_"}};

/// Identifies a file under all of its names.
using FileId = std::pair<dev_t, ino_t>;

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

FileId id_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

bool names(Names all, const fs::path& one) {
  return std::find(all.begin(), all.end(), one.string()) != all.end();
}

/// A file is a mark by what stands in it, for any name may be another program's too.
bool is_marked(const fs::path& folder, const Keeping& keeping) {
  constexpr size_t kLookedAt = 200;
  const fs::path mark = folder / keeping.mark;
  const auto status = status_of(mark);
  if (!status || !S_ISREG(status->st_mode)) return false;
  std::string head(kLookedAt, '\0');
  std::ifstream(mark, std::ios::binary).read(head.data(), static_cast<std::streamsize>(kLookedAt));
  return head.find(keeping.begins) != std::string::npos;
}

/// Returns whether the file is a part of results, judged by where it lies.
bool is_kept(const fs::path& file) {
  const fs::path folder = file.parent_path();
  return std::any_of(kKeepings.begin(), kKeepings.end(), [&](const Keeping& keeping) {
    if (names(keeping.files, file.filename()) && is_marked(folder, keeping)) return true;
    return names(keeping.folders, folder.filename()) && is_marked(folder.parent_path(), keeping);
  });
}

/// Judges by the name alone: what a folder that the command reads holds under it is read, or
/// refused.
bool is_named_as_kept(const fs::path& file) {
  return std::any_of(kKeepings.begin(), kKeepings.end(), [&](const Keeping& keeping) {
    return keeping.mark == file.filename().string();
  });
}

/// Holds what a command is given to read.
struct Input {
  fs::path path;
  bool whole = false;  ///< every file of a folder is read, or may be
};

/// Moments of features lie beside the images that they are of, and are read from no folder.
bool is_read(const Input& input, const fs::path& file) {
  return is_kept(file) || is_named_as_kept(file) || (input.whole && file.extension() != ".npz");
}

/// Returns the file below `folder` that is read and is `wanted`, by that name; links are followed,
/// and loops end.
std::optional<fs::path> found_below(const fs::path& folder, const Input& input,
                                    const FileId& wanted, std::set<FileId>& seen) {
  std::error_code unreadable;  // the command says so itself
  for (fs::directory_iterator at(folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable)) {
    const fs::path& path = at->path();
    const auto status = status_of(path);
    if (!status) continue;
    if (S_ISDIR(status->st_mode)) {
      if (!seen.insert(id_of(*status)).second) continue;
      if (auto found = found_below(path, input, wanted, seen)) return found;
    } else if (id_of(*status) == wanted && is_read(input, path)) {
      return path;
    }
  }
  return {};
}

}  // namespace

fs::path plain_path(const fs::path& path) {
  std::error_code unknown;
  const fs::path whole = fs::weakly_canonical(path, unknown);
  const fs::path known = unknown ? path : whole;
  return known.has_filename() ? known : known.parent_path();
}

namespace {

std::optional<fs::path> found_in(const Input& input, const FileId& wanted) {
  const auto status = status_of(input.path);
  if (!status) return {};
  std::set<FileId> seen;
  if (S_ISDIR(status->st_mode)) return found_below(input.path, input, wanted, seen);
  if (id_of(*status) == wanted) return input.path;
  const fs::path folder = plain_path(input.path).parent_path();
  if (!is_kept(plain_path(input.path))) return {};  // a report.md speaks of its folder
  return found_below(folder, {input.path}, wanted, seen);
}

bool takes_path(const Option& option) {
  return option.value == "FILE" || option.value == "DIR" || option.value == "BASE";
}

std::vector<Input> inputs_of(const Command& command, const CommandLine& line) {
  std::vector<Input> inputs;
  const bool pictures = command.bit == command::kFid;
  for (const std::string& path : line.positional) inputs.push_back({path, pictures});
  Options given = line.options;
  for (const BoundOption& bound : options_of(command.bit, given)) {
    if (bound.option->name == "out" || !takes_path(*bound.option)) continue;
    const bool whole = bound.option->value == "DIR";
    for (const std::string& path : option_values(bound.member)) inputs.push_back({path, whole});
    if (bound.option->name == "data") inputs.push_back({data_folder(given), true});
  }
  return inputs;
}

Error refusal(const fs::path& out, const std::string& what, const std::string& accepted) {
  return bad_input("--out", "", fmt::format("{}, {}", out.string(), what), accepted);
}

/// Returns whether the file has the arrays that `fid` writes, and no other.
bool holds_moments(const fs::path& file) {
  try {
    std::vector<std::string> names = NpzFile(file.string()).names();
    std::erase(names, "extractor");  // features of unknown make have none
    std::sort(names.begin(), names.end());
    return names == std::vector<std::string>{"mu", "n", "sigma"};
  } catch (const Error&) {
    return false;
  }
}

/// Returns whether the file is one that the command writes under that name, by its bytes.
bool is_earlier_output(const fs::path& file, uint32_t command, std::string_view name) {
  if (command == command::kFid) return holds_moments(file);
  std::error_code unknown;
  if (fs::file_size(file, unknown) > kLargestText) return false;
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const bool of_comparison = command == command::kCompare;
  if ((of_comparison || command == command::kReport) && reports::is_export(bytes, of_comparison)) {
    return true;
  }
  return std::any_of(kTexts.begin(), kTexts.end(), [&](const Text& text) {
    return (text.commands & command) != 0 && text.file == name && text.form.is_of(bytes);
  });
}

/// The one rule for the texts at --out: nothing is replaced unasked but what the command itself
/// wrote there. A file without bytes, as mktemp makes it, loses nothing.
void require_replaceable(const CommandLine& line, uint32_t command, const fs::path& file,
                         std::string_view name) {
  if (line.options.run.force || reports::own_stream_at(file) >= 0) return;
  const auto status = status_of(file);
  if (!status || !S_ISREG(status->st_mode) || status->st_size == 0) return;
  if (is_earlier_output(file, command, name)) return;
  throw refusal(file, "a file that this command did not write",
                "another place, or --force to replace it");
}

/// Returns whether the text is there and has these words.
bool has_words(const fs::path& file, const std::string& words) {
  std::error_code unknown;
  if (fs::file_size(file, unknown) > kLargestText || unknown) return false;
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return bytes.find(words) != std::string::npos;
}

bool is_picture_of_a_plot(const fs::path& file) {
  return has_words(file, "<title>" + file.stem().string() + "</title>");
}

/// Returns whether the file beside a plot's script, or the script, is as write_plots() leaves it.
bool is_of_a_plot(const fs::path& file) {
  const fs::path script = fs::path(file).replace_extension(".gp");
  return has_words(script, "# Drawn by: gnuplot -d " + script.filename().string() + "\n") &&
         (file.extension() != ".svg" || is_picture_of_a_plot(file));
}

void require_own_plots(const Command& command, const CommandLine& line, const fs::path& out) {
  if (line.options.run.force) return;
  for (const PlotsOf& plots : kPlots) {
    if (plots.command != command.bit) continue;
    std::error_code none;  // no folder of plots: nothing is lost
    for (const auto& entry : fs::directory_iterator(out / "plots", none)) {
      const fs::path& file = entry.path();
      if (!file.filename().string().starts_with(plots.begins) || is_of_a_plot(file)) continue;
      throw refusal(file, "a file that this command did not write",
                    "another place, or --force to replace it");
    }
  }
}

void require_own_file(const Command& command, const CommandLine& line, const fs::path& out) {
  constexpr const char* kAnother = "another file";
  reports::require_writable_file(out);
  const auto status = status_of(out);
  if (status && !S_ISREG(status->st_mode)) return;  // a device loses nothing
  if (is_kept(plain_path(out))) throw refusal(out, "a part of the results in its folder", kAnother);
  if (!status) return;
  for (const Input& input : inputs_of(command, line)) {
    const auto found = found_in(input, id_of(*status));
    if (!found) continue;
    throw refusal(out,
                  *found == out ? "a file that the command reads"
                                : fmt::format("the command reads it as {}", found->string()),
                  kAnother);
  }
  require_replaceable(line, command.bit, out, "");
}

void require_own_folder(const Command& command, const CommandLine& line, const fs::path& out) {
  const bool of_a_run = is_marked(out, kKeepings[0]) || is_marked(out, kKeepings[1]);
  if (of_a_run && (command.bit & kWriteOtherThings) != 0) {
    throw refusal(out, "the folder of a run", "another folder");
  }
  // A file that another process is writing is not whole yet and would pass for a stranger's.
  std::optional<reports::FolderLock> lock;
  if ((command.bit & kKeepTexts) != 0 && fs::is_directory(out)) lock.emplace(out);
  for (const Text& text : kTexts) {
    if ((text.commands & command.bit) == 0) continue;
    if (text.form.begins == reports::kPageBegins && !line.options.html) continue;
    require_replaceable(line, command.bit, out / text.file, text.file);
  }
  require_own_plots(command, line, out);
  if (!line.options.run.force) return;
  Options given = line.options;
  for (const BoundOption& bound : options_of(command.bit, given)) {
    if (bound.option->value != "FILE") continue;
    for (const std::string& path : option_values(bound.member)) {
      const fs::path file = plain_path(path);
      if (file.parent_path() != plain_path(out) || !is_kept(file)) continue;
      throw refusal(out, fmt::format("--force would remove {} from it", file.filename().string()),
                    "another folder");
    }
  }
}

/// Returns whether a file that is there is none that `report` wrote into `folder`. What a link
/// leads to is somebody else's. A folder cannot be replaced: writing says so.
bool is_strangers(const fs::path& folder, const fs::path& name) {
  const fs::path file = folder / name;
  const auto status = status_of(file);
  if (!status || S_ISDIR(status->st_mode) || status->st_size == 0) return false;
  if (!S_ISREG(status->st_mode)) return true;
  if (fs::canonical(file) != fs::canonical(folder) / name) return true;
  if (name.extension() == ".svg") return !is_picture_of_a_plot(file);
  if (name.extension() != ".md") return !is_of_a_plot(file);
  return !is_earlier_output(file, command::kReport, name.string()) &&
         !reports::is_suite_report(reports::read_file(file));
}

}  // namespace

void require_own_reports(const CommandLine& line) {
  if (line.options.run.force) return;
  const fs::path path = line.positional.front();
  std::vector<reports::Finding> unread;  // the command tells of it
  std::vector<fs::path> folders;
  bool of_suite = false;
  reports::or_lost(path, &unread, [&] {
    folders = reports::result_folders(path, &unread);
    of_suite = fs::exists(path / "suite.json") || reports::joined_suite(path);
  });
  std::vector<std::string> strangers;
  const auto look_at = [&](const fs::path& folder, const fs::path& name) {
    if (is_strangers(folder, name)) strangers.push_back((folder / name).string());
  };
  if (of_suite) look_at(path, "report.md");
  for (const fs::path& folder : folders) {
    look_at(folder, "report.md");
    for (const char* plot : reports::kPlotsOfRun) {
      for (const char* ending : {".dat", ".gp", ".svg"}) {
        look_at(folder, fs::path("plots") / (std::string(plot) + ending));
      }
    }
  }
  if (strangers.empty()) return;
  throw bad_input(fmt::format("{}", fmt::join(strangers, ", ")), "", "not written by this command",
                  "--force to replace it");
}

void require_own_output(const Command& command, const CommandLine& line) {
  const std::string& out = line.options.run.out;
  if (out.empty()) return;
  Options unused;
  for (const BoundOption& bound : options_of(command.bit, unused)) {
    if (bound.option->name != "out") continue;
    if (bound.option->value.starts_with("FILE")) {
      require_own_file(command, line, out);
    } else {
      require_own_folder(command, line, out);
    }
  }
}

}  // namespace noisemark::suite
