#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"
#include "suite/data/split_folders.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

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

Names folders_among(const Names& entries) {
  Names folders;
  for (const std::string& entry : entries) {
    if (entry.ends_with('/')) folders.push_back(entry.substr(0, entry.size() - 1));
  }
  return folders;
}

/// Says which folders are the splits where they are not simply called so.
std::string words_of(const SplitFolders& splits) {
  if (splits.train == "train" && splits.test == "test") return "";
  return splits.train + "/ is the training split, and " + splits.test + "/ the test split";
}

/// The first folder called like a test split, or else like a training split that is not all there
/// is.
std::optional<std::string> folder_called_like_a_split(const std::vector<PictureFile>& pictures) {
  std::optional<std::string> train;
  for (const PictureFile& file : pictures) {
    fs::path folder;
    for (const fs::path& part : fs::path(file.path).parent_path()) {
      folder /= part;
      const SplitRole role = split_role(part.string());
      if (role == SplitRole::kTest || role == SplitRole::kValidation) return folder.string();
      if (role == SplitRole::kTrain && !train) train = folder.string();
    }
  }
  const auto beside = [&](const PictureFile& file) { return !file.path.starts_with(*train + "/"); };
  if (train && std::none_of(pictures.begin(), pictures.end(), beside)) return std::nullopt;
  return train;
}

/// The test split of folders side by side that lie deeper.
std::optional<std::string> deeper_split(const std::vector<PictureFile>& pictures) {
  std::map<fs::path, std::set<std::string>> folders;
  for (const PictureFile& file : pictures) {
    fs::path parent;
    for (const fs::path& part : fs::path(file.path).parent_path()) {
      folders[parent].insert(part.string());
      parent /= part;
    }
  }
  for (const auto& [parent, names] : folders) {
    const auto splits = first_splits({names.begin(), names.end()});
    if (splits) return (parent / splits->test).string();
  }
  return std::nullopt;
}

reports::DataFile listing_below(const std::string& folder,
                                const std::vector<PictureFile>& pictures) {
  std::vector<PictureFile> inside;
  std::copy_if(pictures.begin(), pictures.end(), std::back_inserter(inside),
               [&](const PictureFile& file) { return file.path.starts_with(folder + "/"); });
  return listing_of(inside);
}

/// Names a folder that may be meant as a split and is none.
std::optional<reports::DataFile> listing_of_no_split(const Names& folders,
                                                     const std::vector<PictureFile>& pictures) {
  const auto doubtful = doubtful_splits(folders);
  auto folder = doubtful ? std::optional(doubtful->test) : folder_called_like_a_split(pictures);
  if (!folder) folder = deeper_split(pictures);
  if (!folder) return std::nullopt;
  reports::DataFile row = listing_below(*folder, pictures);
  row.name = *folder +
             "/ is no split, because splits are two folders side by side, as train/ and test/, in"
             " the folder itself: its images are used like all others";
  if (doubtful) {
    row.name += "; " + doubtful->train + "/ and " + doubtful->test +
                "/ may be meant as splits and are not named so clearly: if they are, call them"
                " train/ and test/";
  }
  return row;
}

PictureFiles find_split_pictures(const fs::path& folder, const Names& entries,
                                 const std::optional<SplitFolders>& splits) {
  if (!splits) return find_pictures(folder);
  PictureFiles found = find_pictures(folder, std::pair(splits->train, splits->test));
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
    const Names names = folders_among(entries);
    const std::optional<SplitFolders> folders = find_splits(folder_, names);
    const PictureFiles found = find_split_pictures(folder_, entries, folders);
    const std::vector<PictureFile>& pictures = found.pictures;
    require_undamaged(folder_, pictures);
    if (folders) test_folder_ = folders->test;
    const auto no_split = folders ? std::nullopt : listing_of_no_split(names, pictures);
    if (folders) note_ = words_of(*folders);
    if (no_split) note_ = no_split->name;
    const std::string others = note_of(found);
    if (!others.empty()) note_ += (note_.empty() ? "" : "; ") + others;
    splits_ = folders ? split_by_folder(pictures, *folders) : split_by_hash(pictures);
    require_pictures(splits_.train, "no images to train on");
    if (folders) require_pictures(splits_.test, "no images in " + folders->test + "/");
    files_.push_back(listing_of(pictures));
    for (const auto& row : {no_split, listing_of_odd(pictures), listing_of_left_out(found)}) {
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
  std::string test_folder_;  ///< is empty where the splits follow from hashes
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
    throw bad_input(path.string(), "", error.what(), "the image that it was at opening");
  }
}

void ImageFolder::read(Split split, int64_t index, std::span<float> out) const {
  TORCH_CHECK(index >= 0 && index < size(split), "no image ", index);
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
