#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
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

/// Relative paths with '/' between folders, sorted bytewise. Hidden files and folders are left out.
std::vector<std::string> list_files(const fs::path& folder) {
  std::vector<std::string> paths;
  const auto hidden = [](const fs::path& path) {
    return path.filename().string().starts_with('.');
  };
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
    if (hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      paths.push_back(entry->path().lexically_relative(folder).generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
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
  int64_t bytes = 0;
  std::string sha256;
  std::string damage;
};

FileFacts inspect(const fs::path& path) {
  const auto bytes = read_file(path);
  reports::Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return {static_cast<int64_t>(bytes.size()), hash.hex(), find_damage(bytes)};
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

void check_damage(const fs::path& folder, const std::vector<std::string>& paths,
                  const std::vector<FileFacts>& facts) {
  const auto damaged = [](const FileFacts& file) { return !file.damage.empty(); };
  const auto first = std::find_if(facts.begin(), facts.end(), damaged);
  if (first == facts.end()) return;
  const int64_t bad = std::count_if(facts.begin(), facts.end(), damaged);
  const int64_t good = static_cast<int64_t>(facts.size()) - bad;
  throw bad_input((folder / paths[first - facts.begin()]).string(), "", first->damage,
                  std::string(kAccepted) + "; " + std::to_string(good) + " files are good, " +
                      std::to_string(bad) + " not");
}

reports::DataFile listing(const std::vector<std::string>& paths,
                          const std::vector<FileFacts>& facts) {
  reports::Sha256 hash;
  int64_t bytes = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    hash.update(paths[i] + " " + std::to_string(facts[i].bytes) + " " + facts[i].sha256 + "\n");
    bytes += facts[i].bytes;
  }
  return {".", hash.hex(), bytes, false};
}

struct Splits {
  std::vector<std::string> train;
  std::vector<std::string> test;
};

/// The tenth of the paths with the largest hash becomes the test split; both keep the order.
Splits split_by_hash(const std::vector<std::string>& paths) {
  std::vector<std::pair<std::string, size_t>> ranked;
  for (size_t i = 0; i < paths.size(); ++i) ranked.emplace_back(reports::sha256_of(paths[i]), i);
  std::sort(ranked.begin(), ranked.end());
  const size_t test_count = paths.size() < 2 ? 0 : std::max<size_t>(1, paths.size() / 10);
  std::vector<bool> in_test(paths.size(), false);
  for (size_t i = 0; i < test_count; ++i) in_test[ranked[ranked.size() - 1 - i].second] = true;
  Splits splits;
  for (size_t i = 0; i < paths.size(); ++i) {
    (in_test[i] ? splits.test : splits.train).push_back(paths[i]);
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
    if (!fs::is_directory(folder_)) {
      throw bad_input("--data " + folder_.string(), "", "no such folder", kAccepted);
    }
    if (fs::is_directory(folder_ / "train") && fs::is_directory(folder_ / "test")) {
      splits_ = {list_split("train"), list_split("test")};
    } else {
      splits_ = split_by_hash(list_files(folder_));
    }
    std::vector<std::string> all;
    std::merge(splits_.train.begin(), splits_.train.end(), splits_.test.begin(), splits_.test.end(),
               std::back_inserter(all));
    if (splits_.train.empty()) {
      throw bad_input("--data " + folder_.string(), "", "no pictures to train on", kAccepted);
    }
    const auto facts = inspect_all(folder_, all);
    check_damage(folder_, all, facts);
    files_.push_back(listing(all, facts));
  }

  [[nodiscard]] int64_t size(Split split) const override {
    return static_cast<int64_t>(paths(split).size());
  }
  void read(Split split, int64_t index, std::span<float> out) const override;

  [[nodiscard]] int64_t channels() const override { return channels_; }
  [[nodiscard]] int64_t resolution() const override { return resolution_; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return files_; }
  [[nodiscard]] std::string standing() const override { return "unofficial"; }

 private:
  [[nodiscard]] std::vector<std::string> list_split(const std::string& name) const {
    auto paths = list_files(folder_ / name);
    for (std::string& path : paths) path.insert(0, name + "/");
    return paths;
  }
  [[nodiscard]] const std::vector<std::string>& paths(Split split) const {
    return split == Split::kTrain ? splits_.train : splits_.test;
  }
  [[nodiscard]] Picture decode(const fs::path& path) const;

  fs::path folder_;
  int64_t channels_;
  int64_t resolution_;
  Splits splits_;
  std::vector<reports::DataFile> files_;
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
