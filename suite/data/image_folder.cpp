#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"
#include "suite/data/pixels.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// With `train/` and `test/` in `folder`, only they count.
bool has_splits(const fs::path& folder) {
  std::error_code unreadable;
  return fs::is_directory(folder / "train", unreadable) &&
         fs::is_directory(folder / "test", unreadable);
}

PictureFiles find_split_pictures(const fs::path& folder) {
  return has_splits(folder) ? find_pictures(folder, {"test", "train"}) : find_pictures(folder);
}

struct Splits {
  std::vector<std::string> train;
  std::vector<std::string> test;
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

Splits split_by_folder(const std::vector<PictureFile>& pictures) {
  Splits splits;
  for (const PictureFile& file : pictures) {
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
    require_picture_folder(folder_, "--data " + folder_.string());
    const PictureFiles found = find_split_pictures(folder_);
    const std::vector<PictureFile>& pictures = found.pictures;
    require_undamaged(folder_, pictures);
    note_ = note_of(found);
    splits_ = has_splits(folder_) ? split_by_folder(pictures) : split_by_hash(pictures);
    if (splits_.train.empty()) {
      throw bad_input("--data " + folder_.string(), "",
                      "no pictures to train on" + (note_.empty() ? "" : "; " + note_),
                      kPictureFiles);
    }
    files_.push_back(listing_of(pictures));
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
    return decode_image(read_bytes(path));
  } catch (const ImageError& error) {
    const int64_t others = size(Split::kTrain) + size(Split::kTest) - 1;
    throw bad_input(path.string(), "", error.what(),
                    std::string(kPictureFiles) + "; " + std::to_string(others) +
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
