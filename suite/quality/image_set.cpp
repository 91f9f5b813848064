#include "suite/quality/image_set.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChannels = 3;

at::Tensor empty_pictures(int64_t count, int64_t height, int64_t width) {
  return at::empty({count, kChannels, height, width}, at::TensorOptions().dtype(at::kByte));
}

Picture decode(const fs::path& path) {
  try {
    return decode_image(read_bytes(path)).picture;
  } catch (const ImageError& error) {
    throw bad_input(path.string(), "", error.what(), "a whole PNG or JPEG file");
  }
}

class FolderPictures final : public ImageSet {
 public:
  explicit FolderPictures(fs::path folder) : folder_(std::move(folder)) {
    require_picture_folder(folder_, folder_.string());
    require_no_sheet();
    PictureFiles found = find_pictures(folder_);
    require_undamaged(folder_, found.pictures);
    note_ = note_of(found);
    files_ = std::move(found.pictures);
    if (files_.empty()) {
      throw bad_input(folder_.string(), "", "no images" + (note_.empty() ? "" : "; " + note_),
                      kPictureFiles);
    }
    height_ = files_.front().height;
    width_ = files_.front().width;
    for (const PictureFile& file : files_) require_size(file.path, file.width, file.height);
  }

  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  [[nodiscard]] int64_t channels() const override {
    return std::max_element(files_.begin(), files_.end(),
                            [](const auto& a, const auto& b) { return a.channels < b.channels; })
        ->channels;
  }
  [[nodiscard]] std::string checksum() const override { return listing_of(files_).sha256; }
  [[nodiscard]] std::string note() const override { return note_; }

  [[nodiscard]] at::Tensor read(int64_t begin, int64_t end) const override {
    const at::Tensor out = empty_pictures(end - begin, height_, width_);
    auto* pixels = out.mutable_data_ptr<uint8_t>();
    at::parallel_for(begin, end, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        read_one(files_[static_cast<size_t>(i)].path,
                 pixels + (i - begin) * kChannels * height_ * width_);
      }
    });
    return out;
  }

 private:
  /// A folder that `noisemark sample` wrote has all samples once more, as one image.
  void require_no_sheet() const {
    std::error_code unknown;
    if (!fs::exists(folder_ / "sampling.json", unknown)) return;
    throw bad_input(folder_.string(), "", "the folder of samples, with a sheet of them",
                    fmt::format("{} or {}", (folder_ / "samples.npy").string(),
                                (folder_ / "pictures").string()));
  }

  void require_size(const std::string& path, int64_t width, int64_t height) const {
    if (height == height_ && width == width_) return;
    throw bad_input((folder_ / path).string(), "", fmt::format("{} x {} pixels", width, height),
                    fmt::format("{} x {}, as {}", width_, height_, files_.front().path));
  }

  void read_one(const std::string& path, uint8_t* out) const {
    const Picture picture = decode(folder_ / path);
    require_size(path, picture.width, picture.height);
    const int64_t plane = height_ * width_;
    for (int64_t c = 0; c < kChannels; ++c) {
      for (int64_t i = 0; i < plane; ++i) {
        out[c * plane + i] = picture.pixels[static_cast<size_t>(i * kChannels + c)];
      }
    }
  }

  fs::path folder_;
  std::vector<PictureFile> files_;
  std::string note_;
  int64_t height_ = 0;
  int64_t width_ = 0;
};

class ArrayPictures final : public ImageSet {
 public:
  explicit ArrayPictures(at::Tensor images) : images_(std::move(images)) {}

  [[nodiscard]] int64_t size() const override { return images_.size(0); }
  [[nodiscard]] int64_t channels() const override { return images_.size(1); }
  [[nodiscard]] at::Tensor read(int64_t begin, int64_t end) const override {
    return images_.slice(0, begin, end).expand({-1, kChannels, -1, -1}).contiguous();
  }
  [[nodiscard]] std::string checksum() const override {
    reports::Sha256 hash;
    hash.update(fmt::format("{} ", fmt::join(images_.sizes(), " ")));
    hash.update(std::as_bytes(
        std::span(images_.const_data_ptr<uint8_t>(), static_cast<size_t>(images_.numel()))));
    return hash.hex();
  }

 private:
  at::Tensor images_;  ///< [N, 1 or 3, H, W], row-major
};

class DatasetPictures final : public ImageSet {
 public:
  DatasetPictures(std::shared_ptr<const Dataset> dataset, Split split, std::string identity)
      : dataset_(std::move(dataset)), split_(split), identity_(std::move(identity)) {}

  [[nodiscard]] int64_t size() const override { return dataset_->size(split_); }
  [[nodiscard]] int64_t channels() const override { return dataset_->channels(); }
  [[nodiscard]] std::string note() const override { return dataset_->note(); }
  [[nodiscard]] std::string checksum() const override {
    std::string text = identity_ + (split_ == Split::kTrain ? " train\n" : " test\n");
    for (const reports::DataFile& file : dataset_->files()) {
      if (reports::is_left_out(file)) continue;
      text += fmt::format("{} {} {}\n", file.name, file.bytes, file.sha256);
    }
    return reports::sha256_of(text);
  }
  [[nodiscard]] at::Tensor read(int64_t begin, int64_t end) const override {
    const int64_t side = dataset_->resolution();
    const int64_t channels = dataset_->channels();
    const at::Tensor out =
        at::empty({end - begin, channels, side, side}, at::TensorOptions().dtype(at::kByte));
    auto* pixels = out.mutable_data_ptr<uint8_t>();
    const int64_t values = channels * side * side;
    at::parallel_for(begin, end, 1, [&](int64_t from, int64_t to) {
      std::vector<float> picture(static_cast<size_t>(values));
      for (int64_t i = from; i < to; ++i) {
        dataset_->read(split_, i, picture);
        std::transform(picture.begin(), picture.end(), pixels + (i - begin) * values, level_of);
      }
    });
    return channels == kChannels ? out : out.expand({-1, kChannels, -1, -1}).contiguous();
  }

 private:
  static uint8_t level_of(float value) {
    return static_cast<uint8_t>(std::lround(std::clamp((value + 1.0F) * 127.5F, 0.0F, 255.0F)));
  }

  std::shared_ptr<const Dataset> dataset_;
  Split split_;
  std::string identity_;
};

bool is_channels(int64_t extent) {
  return extent == 1 || extent == kChannels;
}

}  // namespace

std::unique_ptr<ImageSet> open_image_set(const std::string& folder) {
  return std::make_unique<FolderPictures>(folder);
}

std::unique_ptr<ImageSet> open_image_array(const at::Tensor& images, const std::string& where) {
  const bool four = images.dim() == 4 && images.scalar_type() == at::kByte && images.numel() > 0;
  const bool planes = four && is_channels(images.size(1));
  if (!planes && !(four && is_channels(images.size(3)))) {
    throw bad_input(where, "images",
                    fmt::format("{} [{}]", c10::toString(images.scalar_type()),
                                fmt::join(images.sizes(), ", ")),
                    "uint8 [N, 3, H, W] or [N, H, W, 3], N at least 1");
  }
  return std::make_unique<ArrayPictures>(
      (planes ? images : images.permute({0, 3, 1, 2})).contiguous());
}

std::unique_ptr<ImageSet> open_dataset_images(std::shared_ptr<const Dataset> dataset, Split split,
                                              const std::string& identity) {
  return std::make_unique<DatasetPictures>(std::move(dataset), split, identity);
}

}  // namespace noisemark::suite
