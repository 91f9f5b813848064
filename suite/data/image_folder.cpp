#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/nearest.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

constexpr std::array<std::string_view, 2> kTrainNames{"train", "training"};
constexpr std::array<std::string_view, 4> kTestNames{"test", "testing", "eval", "evaluation"};
constexpr std::array<std::string_view, 4> kValidationNames{"val", "valid", "validation", "dev"};

/// Entries of `folder` that may be meant, in order; of a folder with a slash at its end.
Names entries_of(const fs::path& folder) {
  Names names;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      std::error_code unreachable;
      const bool is_folder = entry.is_directory(unreachable);
      names.push_back(name + (is_folder ? "/" : ""));
    }
  } catch (const fs::filesystem_error& error) {
    throw bad_input(folder.string(), "", error.code().message(), "a folder that can be read");
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The name of a folder without what people put behind a split's name: "Train_images", "train2017"
/// and "trainset" are "train".
std::string split_stem(const std::string& name) {
  constexpr std::array<std::string_view, 4> kEndings{"images", "data", "split", "set"};
  std::string stem = reports::lower_case(name);
  const auto strip = [&] { stem.resize(stem.find_last_not_of("0123456789_-") + 1); };
  strip();
  for (const std::string_view ending : kEndings) {
    if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  }
  strip();
  return stem;
}

template <size_t N>
bool is_split(const std::string& name, const std::array<std::string_view, N>& spellings) {
  return std::find(spellings.begin(), spellings.end(), split_stem(name)) != spellings.end();
}

template <size_t N>
Names folders_named(const Names& entries, const std::array<std::string_view, N>& spellings) {
  Names found;
  for (const std::string& entry : entries) {
    const std::string name = entry.substr(0, entry.size() - 1);
    if (entry.ends_with('/') && is_split(name, spellings)) found.push_back(name);
  }
  return found;
}

/// The two folders that are the splits.
struct SplitFolders {
  std::string train;
  std::string test;
};

std::string only_one(const fs::path& folder, const Names& names, const std::string& split) {
  if (names.size() == 1) return names.front();
  throw bad_input("--data " + folder.string(), "",
                  names[0] + "/ and " + names[1] + "/ could both be the " + split + " split",
                  "one folder for each split");
}

std::optional<SplitFolders> find_splits(const fs::path& folder, const Names& entries) {
  const Names train = folders_named(entries, kTrainNames);
  const Names test = folders_named(entries, kTestNames);
  const Names validation = folders_named(entries, kValidationNames);
  const Names& held_out = test.empty() ? validation : test;
  if (train.empty() || held_out.empty()) return std::nullopt;
  return SplitFolders{only_one(folder, train, "training"), only_one(folder, held_out, "test")};
}

/// Says which folders are the splits where they are not simply called so.
std::string words_of(const SplitFolders& splits) {
  if (splits.train == "train" && splits.test == "test") return "";
  return splits.train + "/ is the training split, and " + splits.test + "/ the test split";
}

/// Names a folder that is called like a test split although there are no splits.
std::string words_without_splits(const std::vector<PictureFile>& pictures) {
  for (const PictureFile& file : pictures) {
    fs::path folder;
    for (const fs::path& part : fs::path(file.path).parent_path()) {
      folder /= part;
      if (!is_split(part.string(), kTestNames) && !is_split(part.string(), kValidationNames)) {
        continue;
      }
      return folder.string() +
             "/ is no split, because splits are two folders side by side, as train/ and test/, in"
             " the folder itself: its pictures are used like all others";
    }
  }
  return "";
}

PictureFiles find_split_pictures(const fs::path& folder, const Names& entries,
                                 const std::optional<SplitFolders>& splits) {
  if (!splits) return find_pictures(folder);
  PictureFiles found = find_pictures(folder, {splits->train, splits->test});
  for (const std::string& entry : entries) {
    if (entry == splits->train + "/" || entry == splits->test + "/") continue;
    found.left_out.push_back({entry, "is in neither split"});
  }
  return found;
}

struct Splits {
  Names train;
  Names test;
};

/// The tenth of the paths with the largest hash becomes the test split; both keep the order.
Splits split_by_hash(const std::vector<PictureFile>& pictures) {
  std::vector<std::pair<std::string, size_t>> ranked;
  for (const PictureFile& file : pictures) {
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

Splits split_by_folder(const std::vector<PictureFile>& pictures, const SplitFolders& folders) {
  Splits splits;
  for (const PictureFile& file : pictures) {
    (file.path.starts_with(folders.test + "/") ? splits.test : splits.train).push_back(file.path);
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
    require_picture_folder(folder_, "--data " + folder_.string());
    const Names entries = entries_of(folder_);
    const std::optional<SplitFolders> folders = find_splits(folder_, entries);
    const PictureFiles found = find_split_pictures(folder_, entries, folders);
    const std::vector<PictureFile>& pictures = found.pictures;
    require_undamaged(folder_, pictures);
    if (folders) test_folder_ = folders->test;
    note_ = folders ? words_of(*folders) : words_without_splits(pictures);
    const std::string others = note_of(found);
    if (!others.empty()) note_ += (note_.empty() ? "" : "; ") + others;
    splits_ = folders ? split_by_folder(pictures, *folders) : split_by_hash(pictures);
    require_pictures(splits_.train, "no pictures to train on");
    if (folders) require_pictures(splits_.test, "no pictures in " + folders->test + "/");
    files_.push_back(listing_of(pictures));
    for (const auto& row : {listing_of_odd(pictures), listing_of_left_out(found)}) {
      if (row) files_.push_back(*row);
    }
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
  [[nodiscard]] std::string needed_for_test(int64_t count) const override;

 private:
  [[nodiscard]] const Names& paths(Split split) const {
    return split == Split::kTrain ? splits_.train : splits_.test;
  }
  void require_pictures(const Names& split, const std::string& otherwise) const;
  [[nodiscard]] Picture decode(const fs::path& path) const;

  fs::path folder_;
  int64_t channels_;
  int64_t resolution_;
  Splits splits_;
  std::vector<reports::DataFile> files_;
  std::string note_;
  std::string test_folder_;  ///< empty: the splits are by hash
};

std::string ImageFolder::needed_for_test(int64_t count) const {
  if (!test_folder_.empty()) return fmt::format("at least {} images in {}/", count, test_folder_);
  return fmt::format(
      "at least {} images, because a tenth of them is the test split, or folders train/ and test/ "
      "with at least {} images in test/",
      10 * count, count);
}

void ImageFolder::require_pictures(const Names& split, const std::string& otherwise) const {
  if (!split.empty()) return;
  throw bad_input("--data " + folder_.string(), "", otherwise + (note_.empty() ? "" : "; " + note_),
                  kPictureFiles);
}

Picture ImageFolder::decode(const fs::path& path) const {
  try {
    return decode_image(read_bytes(path)).picture;
  } catch (const ImageError& error) {
    throw bad_input(path.string(), "", error.what(), "the picture that it was at opening");
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
