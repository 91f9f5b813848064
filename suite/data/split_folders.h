#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Folders side by side that are the splits of one data set, by their names.
namespace noisemark::suite {

struct SplitFolders {
  std::string train;
  std::string test;
};

enum class SplitRole { kNone, kTrain, kTest, kValidation };

/// The meaning of a folder's name that has a split's word in it: "train2017", "seg_test".
[[nodiscard]] SplitRole split_role(const std::string& name);

/// The two of these folders of `parent` that are the splits. Their names are equal beside a word
/// of each: "seg_train" and "seg_test", "traindir" and "valdir", "imagesTr" and "imagesTs". A pair
/// whose names say nothing else comes first. Throws Error, exit code 2, where two folders could be
/// the same split.
[[nodiscard]] std::optional<SplitFolders> find_splits(const std::filesystem::path& parent,
                                                      const std::vector<std::string>& folders);

/// Two of these folders that find_splits() does not take for splits and that may be meant as such:
/// "train_A" and "test_B".
[[nodiscard]] std::optional<SplitFolders> doubtful_splits(const std::vector<std::string>& folders);

/// The splits among these folders where they are one pair, or else one of several pairs.
[[nodiscard]] std::optional<SplitFolders> first_splits(const std::vector<std::string>& folders);

}  // namespace noisemark::suite
