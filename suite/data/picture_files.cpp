#include "suite/data/picture_files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <exception>
#include <fstream>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/data/image_file.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// What desktops leave in folders: no one means it as a picture. So are hidden files and folders.
constexpr std::array<std::string_view, 3> kSystemNames{"Thumbs.db", "desktop.ini", "__MACOSX"};

bool is_ignored(const std::string& name) {
  return name.starts_with('.') ||
         std::find(kSystemNames.begin(), kSystemNames.end(), name) != kSystemNames.end();
}

bool has_picture_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// Adds the files of `folder`, as relative paths that begin with `prefix`.
void add_files(const fs::path& folder, const std::string& prefix, std::vector<std::string>& paths) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (is_ignored(name)) continue;
      if (entry.is_directory() && !entry.is_symlink()) {
        add_files(entry.path(), prefix + name + "/", paths);
      } else if (entry.is_regular_file()) {
        paths.push_back(prefix + name);
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw bad_input(folder.string(), "", error.code().message(), "a folder that can be read");
  }
}

struct Facts {
  bool stray = false;  ///< no picture, neither by its content nor by its name
  PictureFile file;    ///< without its path; of a stray nothing
};

Facts inspect(const fs::path& path) {
  const auto bytes = read_bytes(path);
  if (!is_image(bytes) && !has_picture_extension(path)) return {true, {}};
  reports::Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  PictureFile file{"", static_cast<int64_t>(bytes.size()), hash.hex(), find_damage(bytes)};
  if (file.damage.empty()) file.channels = stored_channels(bytes);
  return {false, std::move(file)};
}

/// Facts of every file, in the order of `paths`, read by several threads. Throws what the first
/// failing one threw.
std::vector<Facts> inspect_all(const fs::path& folder, const std::vector<std::string>& paths) {
  std::vector<Facts> facts(paths.size());
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < paths.size(); i = next++) facts[i] = inspect(folder / paths[i]);
    } catch (...) {
      const std::scoped_lock lock(failing);
      if (!failure) failure = std::current_exception();
      next = paths.size();
    }
  };
  {
    const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
    std::vector<std::jthread> pool;
    for (size_t i = 0; i < threads; ++i) pool.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
  return facts;
}

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

void require_picture_folder(const fs::path& folder, const std::string& where) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::is_directory(status)) return;
  const bool missing = status.type() == fs::file_type::not_found;
  throw bad_input(where, "",
                  missing ? "no such folder"
                  : error ? error.message()
                          : "is a file, not a folder",
                  kPictureFiles);
}

std::vector<uint8_t> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size)) {
    throw bad_input(path.string(), "", "cannot be read", "a readable file");
  }
  return bytes;
}

PictureFiles find_pictures(const fs::path& folder, const std::vector<std::string>& subfolders) {
  std::vector<std::string> paths;
  for (const std::string& name : subfolders) add_files(folder / name, name + "/", paths);
  if (subfolders.empty()) add_files(folder, "", paths);
  std::sort(paths.begin(), paths.end());
  auto facts = inspect_all(folder, paths);
  PictureFiles found;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (facts[i].stray) {
      found.strays.push_back(paths[i]);
    } else {
      facts[i].file.path = paths[i];
      found.pictures.push_back(std::move(facts[i].file));
    }
  }
  return found;
}

std::string note_of(const PictureFiles& found) {
  if (found.strays.empty()) return "";
  const size_t others = found.strays.size() - 1;
  return found.strays.front() + " is no picture and left out" +
         (others == 0 ? "" : ", as are " + counted(others, "other file")) + "; beside " +
         counted(found.pictures.size(), "good picture");
}

void require_undamaged(const fs::path& folder, const std::vector<PictureFile>& pictures) {
  const auto damaged = [](const PictureFile& file) { return !file.damage.empty(); };
  const auto first = std::find_if(pictures.begin(), pictures.end(), damaged);
  if (first == pictures.end()) return;
  const int64_t bad = std::count_if(pictures.begin(), pictures.end(), damaged);
  const int64_t good = static_cast<int64_t>(pictures.size()) - bad;
  throw bad_input((folder / first->path).string(), "", first->damage,
                  std::string(kPictureFiles) + "; " + std::to_string(good) + " files are good, " +
                      std::to_string(bad) + " not");
}

reports::DataFile listing_of(const std::vector<PictureFile>& pictures) {
  reports::Sha256 hash;
  int64_t bytes = 0;
  for (const PictureFile& file : pictures) {
    hash.update(file.path + " " + std::to_string(file.bytes) + " " + file.sha256 + "\n");
    bytes += file.bytes;
  }
  return {".", hash.hex(), bytes, false, static_cast<int64_t>(pictures.size())};
}

}  // namespace noisemark::suite
