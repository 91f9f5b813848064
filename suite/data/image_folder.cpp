#include "suite/data/image_folder.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

constexpr std::array<std::string_view, 3> kTrainNames{"train", "training", "trn"};
constexpr std::array<std::string_view, 12> kTestNames{"test", "tests",    "testing",    "tst",
                                                      "eval", "evaluate", "evaluation", "hold",
                                                      "held", "holdout",  "heldout",    "unseen"};
constexpr std::array<std::string_view, 7> kValidationNames{
    "val", "valid", "validate", "validating", "validation", "dev", "development"};
// People write these beside a split's name, and they tell no pair of splits from another.
constexpr std::array<std::string_view, 9> kFillers{"images", "image", "imgs", "img", "dataset",
                                                   "data",   "split", "set",  "out"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

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

/// Splits a name into words in small letters: at what is no letter, and before a capital that
/// follows a small letter ("DIV2K_trainA": "div", "k", "train", "a").
Names words_in(const std::string& name) {
  Names words;
  bool inside = false;
  bool small = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = std::isalpha(byte) != 0;
    if (letter && (!inside || (small && std::isupper(byte) != 0))) words.emplace_back();
    if (letter) words.back() += static_cast<char>(std::tolower(byte));
    inside = letter;
    small = std::islower(byte) != 0;
  }
  return words;
}

/// "trainset" is "train".
std::string without_filler(const std::string& word) {
  for (const std::string_view filler : kFillers) {
    if (word.size() > filler.size() && word.ends_with(filler)) {
      return word.substr(0, word.size() - filler.size());
    }
  }
  return word;
}

enum class Role { kNone, kTrain, kTest, kValidation };

Role role_of_word(const std::string& word) {
  if (is_among(kTrainNames, word)) return Role::kTrain;
  if (is_among(kTestNames, word)) return Role::kTest;
  if (is_among(kValidationNames, word)) return Role::kValidation;
  const std::string stem = without_filler(word);
  return stem == word ? Role::kNone : role_of_word(stem);
}

/// The meaning of a folder's name. The splits of one data set share what else their names say:
/// "seg_train" and "seg_test" the word "seg", "trainB" and "testB" the word "b".
struct SplitName {
  Role role = Role::kNone;
  std::string shared;
};

SplitName split_name_of(const std::string& name) {
  SplitName split;
  for (const std::string& word : words_in(name)) {
    const Role role = role_of_word(word);
    if (role != Role::kNone && split.role == Role::kNone) {
      split.role = role;
    } else if (!is_among(kFillers, word)) {
      split.shared += word + " ";
    }
  }
  return split;
}

/// The two folders that are the splits.
struct SplitFolders {
  std::string train;
  std::string test;
};

/// Folders of one data set that are called like splits, by what their names share.
struct Named {
  Names train;
  Names test;
  Names validation;
  [[nodiscard]] const Names& held_out() const { return test.empty() ? validation : test; }
  [[nodiscard]] bool is_pair() const { return !train.empty() && !held_out().empty(); }
};

std::map<std::string, Named> split_folders_among(const Names& entries) {
  std::map<std::string, Named> found;
  for (const std::string& entry : entries) {
    if (!entry.ends_with('/')) continue;
    const std::string name = entry.substr(0, entry.size() - 1);
    const SplitName split = split_name_of(name);
    if (split.role == Role::kTrain) found[split.shared].train.push_back(name);
    if (split.role == Role::kTest) found[split.shared].test.push_back(name);
    if (split.role == Role::kValidation) found[split.shared].validation.push_back(name);
  }
  return found;
}

std::string only_one(const fs::path& folder, const Names& names, const std::string& split) {
  if (names.size() == 1) return names.front();
  throw bad_input("--data " + folder.string(), "",
                  names[0] + "/ and " + names[1] + "/ could both be the " + split + " split",
                  "one folder for each split");
}

/// Two letters are a split's name only where no other folder is there: "tr" and "te" are languages
/// too, and then classes.
std::optional<SplitFolders> short_splits_among(const Names& entries) {
  Names folders;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(folders),
               [](const std::string& entry) { return entry.ends_with('/'); });
  if (folders.size() != 2) return std::nullopt;
  for (const SplitFolders& splits :
       {SplitFolders{"tr", "te"}, SplitFolders{"tr", "ts"}, SplitFolders{"tr", "va"}}) {
    if (folders[1] == splits.train + "/" && folders[0] == splits.test + "/") return splits;
    if (folders[0] == splits.train + "/" && folders[1] == splits.test + "/") return splits;
  }
  return std::nullopt;
}

/// The pair whose names say nothing else, or else the only one.
std::optional<SplitFolders> find_splits(const fs::path& folder, const Names& entries) {
  Named all;
  for (const auto& [shared, named] : split_folders_among(entries)) {  // the plain ones come first
    if (!named.is_pair()) continue;
    const Names& held_out = named.held_out();
    all.train.insert(all.train.end(), named.train.begin(), named.train.end());
    all.test.insert(all.test.end(), held_out.begin(), held_out.end());
    if (shared.empty()) break;
  }
  if (!all.is_pair()) return short_splits_among(entries);
  return SplitFolders{only_one(folder, all.train, "training"), only_one(folder, all.test, "test")};
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
      const Role role = split_name_of(part.string()).role;
      if (role == Role::kTest || role == Role::kValidation) return folder.string();
      if (role == Role::kTrain && !train) train = folder.string();
    }
  }
  const auto beside = [&](const PictureFile& file) { return !file.path.starts_with(*train + "/"); };
  if (train && std::none_of(pictures.begin(), pictures.end(), beside)) return std::nullopt;
  return train;
}

std::optional<reports::DataFile> listing_of_no_split(const std::vector<PictureFile>& pictures) {
  const auto folder = folder_called_like_a_split(pictures);
  if (!folder) return std::nullopt;
  std::vector<PictureFile> inside;
  std::copy_if(pictures.begin(), pictures.end(), std::back_inserter(inside),
               [&](const PictureFile& file) { return file.path.starts_with(*folder + "/"); });
  reports::DataFile row = listing_of(inside);
  row.name = *folder +
             "/ is no split, because splits are two folders side by side, as train/ and test/, in"
             " the folder itself: its pictures are used like all others";
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
    const std::optional<SplitFolders> folders = find_splits(folder_, entries);
    const PictureFiles found = find_split_pictures(folder_, entries, folders);
    const std::vector<PictureFile>& pictures = found.pictures;
    require_undamaged(folder_, pictures);
    if (folders) test_folder_ = folders->test;
    const auto no_split = folders ? std::nullopt : listing_of_no_split(pictures);
    if (folders) note_ = words_of(*folders);
    if (no_split) note_ = no_split->name;
    const std::string others = note_of(found);
    if (!others.empty()) note_ += (note_.empty() ? "" : "; ") + others;
    splits_ = folders ? split_by_folder(pictures, *folders) : split_by_hash(pictures);
    require_pictures(splits_.train, "no pictures to train on");
    if (folders) require_pictures(splits_.test, "no pictures in " + folders->test + "/");
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
