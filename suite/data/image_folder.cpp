#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/pixels.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAccepted = "PNG or JPEG files, at any depth";

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

void check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::is_directory(status)) return;
  const bool missing = status.type() == fs::file_type::not_found;
  throw bad_input("--data " + folder.string(), "",
                  missing ? "no such folder"
                  : error ? error.message()
                          : "is a file, not a folder",
                  kAccepted);
}

std::vector<uint8_t> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size)) {
    throw bad_input(path.string(), "", "cannot be read", "a readable file");
  }
  return bytes;
}

struct FileFacts {
  bool stray = false;  ///< no picture, neither by its content nor by its name; the rest is empty
  int64_t bytes = 0;
  std::string sha256;
  std::string damage;
};

FileFacts inspect(const fs::path& path) {
  const auto bytes = read_file(path);
  if (!is_image(bytes) && !has_picture_extension(path)) return {true, 0, "", ""};
  reports::Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return {false, static_cast<int64_t>(bytes.size()), hash.hex(), find_damage(bytes)};
}

/// Facts of every file, in the order of `paths`, read by several threads. Throws what the first
/// failing one threw.
std::vector<FileFacts> inspect_all(const fs::path& folder, const std::vector<std::string>& paths) {
  std::vector<FileFacts> facts(paths.size());
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

struct Listed {
  std::string path;
  FileFacts facts;
};

/// With `train/` and `test/` in `folder`, only they count.
bool has_splits(const fs::path& folder) {
  std::error_code unreadable;
  return fs::is_directory(folder / "train", unreadable) &&
         fs::is_directory(folder / "test", unreadable);
}

struct Found {
  std::vector<Listed> pictures;     ///< in the order of their paths, bytewise; some may be damaged
  std::vector<std::string> strays;  ///< files that are no pictures
};

Found find_pictures(const fs::path& folder) {
  std::vector<std::string> paths;
  if (has_splits(folder)) {
    for (const std::string name : {"test", "train"}) add_files(folder / name, name + "/", paths);
  } else {
    add_files(folder, "", paths);
  }
  std::sort(paths.begin(), paths.end());
  auto facts = inspect_all(folder, paths);
  Found found;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (facts[i].stray) {
      found.strays.push_back(paths[i]);
    } else {
      found.pictures.push_back({paths[i], std::move(facts[i])});
    }
  }
  return found;
}

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string note_of(const Found& found) {
  if (found.strays.empty()) return "";
  const size_t others = found.strays.size() - 1;
  return found.strays.front() + " is no picture and left out" +
         (others == 0 ? "" : ", as are " + counted(others, "other file")) + "; beside " +
         counted(found.pictures.size(), "good picture");
}

void check_damage(const fs::path& folder, const std::vector<Listed>& pictures) {
  const auto damaged = [](const Listed& file) { return !file.facts.damage.empty(); };
  const auto first = std::find_if(pictures.begin(), pictures.end(), damaged);
  if (first == pictures.end()) return;
  const int64_t bad = std::count_if(pictures.begin(), pictures.end(), damaged);
  const int64_t good = static_cast<int64_t>(pictures.size()) - bad;
  throw bad_input((folder / first->path).string(), "", first->facts.damage,
                  std::string(kAccepted) + "; " + std::to_string(good) + " files are good, " +
                      std::to_string(bad) + " not");
}

reports::DataFile listing(const std::vector<Listed>& pictures) {
  reports::Sha256 hash;
  int64_t bytes = 0;
  for (const auto& [path, facts] : pictures) {
    hash.update(path + " " + std::to_string(facts.bytes) + " " + facts.sha256 + "\n");
    bytes += facts.bytes;
  }
  return {".", hash.hex(), bytes, false};
}

struct Splits {
  std::vector<std::string> train;
  std::vector<std::string> test;
};

/// The tenth of the paths with the largest hash becomes the test split; both keep the order.
Splits split_by_hash(const std::vector<Listed>& pictures) {
  std::vector<std::pair<std::string, size_t>> ranked;
  for (const Listed& file : pictures) {
    ranked.emplace_back(reports::sha256_of(file.path), ranked.size());
  }
  std::sort(ranked.begin(), ranked.end());
  const size_t count = pictures.size();
  const size_t test_count = count < 2 ? 0 : std::max<size_t>(1, count / 10);
  std::vector<bool> in_test(count, false);
  for (size_t i = 0; i < test_count; ++i) in_test[ranked[count - 1 - i].second] = true;
  Splits splits;
  for (size_t i = 0; i < count; ++i) {
    (in_test[i] ? splits.test : splits.train).push_back(pictures[i].path);
  }
  return splits;
}

Splits split_by_folder(const std::vector<Listed>& pictures) {
  Splits splits;
  for (const Listed& file : pictures) {
    (file.path.starts_with("test/") ? splits.test : splits.train).push_back(file.path);
  }
  return splits;
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const Definition& definition, fs::path folder)
      : folder_(std::move(folder)),
        channels_(definition.model.channels),
        resolution_(definition.model.resolution) {
    if (channels_ != 1 && channels_ != 3) {
      throw bad_input(definition.id, "model.channels", std::to_string(channels_),
                      "1 or 3, for data.name \"folder\"");
    }
    check_folder(folder_);
    const Found found = find_pictures(folder_);
    const std::vector<Listed>& pictures = found.pictures;
    check_damage(folder_, pictures);
    note_ = note_of(found);
    splits_ = has_splits(folder_) ? split_by_folder(pictures) : split_by_hash(pictures);
    if (splits_.train.empty()) {
      throw bad_input("--data " + folder_.string(), "",
                      "no pictures to train on" + (note_.empty() ? "" : "; " + note_), kAccepted);
    }
    files_.push_back(listing(pictures));
  }

  [[nodiscard]] int64_t size(Split split) const override {
    return static_cast<int64_t>(paths(split).size());
  }
  void read(Split split, int64_t index, std::span<float> out) const override;

  [[nodiscard]] int64_t channels() const override { return channels_; }
  [[nodiscard]] int64_t resolution() const override { return resolution_; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return files_; }
  [[nodiscard]] std::string standing() const override { return "unofficial"; }
  [[nodiscard]] std::string note() const override { return note_; }

 private:
  [[nodiscard]] const std::vector<std::string>& paths(Split split) const {
    return split == Split::kTrain ? splits_.train : splits_.test;
  }
  [[nodiscard]] Picture decode(const fs::path& path) const;

  fs::path folder_;
  int64_t channels_;
  int64_t resolution_;
  Splits splits_;
  std::vector<reports::DataFile> files_;
  std::string note_;
};

Picture ImageFolder::decode(const fs::path& path) const {
  try {
    return decode_image(read_file(path));
  } catch (const ImageError& error) {
    const int64_t others = size(Split::kTrain) + size(Split::kTest) - 1;
    throw bad_input(path.string(), "", error.what(),
                    std::string(kAccepted) + "; " + std::to_string(others) +
                        " other files passed the check at opening");
  }
}

void ImageFolder::read(Split split, int64_t index, std::span<float> out) const {
  TORCH_CHECK(index >= 0 && index < size(split), "no picture ", index);
  TORCH_CHECK(static_cast<int64_t>(out.size()) == channels_ * resolution_ * resolution_,
              "wrong size of the output");
  Picture picture = decode(folder_ / paths(split)[index]);
  if (channels_ == 1) picture = to_gray(picture);
  picture = resize_and_crop(picture, resolution_);
  const int64_t plane = resolution_ * resolution_;
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      out[c * plane + i] = pixel_value(picture.pixels[i * channels_ + c]);
    }
  }
}

}  // namespace

std::shared_ptr<const Dataset> open_image_folder(const Definition& definition,
                                                 const std::string& folder) {
  return std::make_shared<ImageFolder>(definition, folder);
}

}  // namespace noisemark::suite
