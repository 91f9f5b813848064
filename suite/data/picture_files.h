#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/result.h"

/// The PNG and JPEG files below a folder, as image_folder.h says which they are.
namespace noisemark::suite {

inline constexpr const char* kPictureFiles = "PNG or JPEG files, at any depth";

struct PictureFile {
  std::string path;  ///< relative to the folder
  int64_t bytes = 0;
  std::string sha256;
  std::string damage;    ///< empty: a whole picture, as far as find_damage() sees
  int64_t channels = 0;  ///< as stored, 1 or 3; 0 where there is damage
};

struct PictureFiles {
  std::vector<PictureFile> pictures;  ///< in the order of their paths, bytewise
  std::vector<std::string> strays;    ///< files that are no pictures
};

/// Throws Error, exit code 2, beginning with `where`, unless `folder` is one.
void require_picture_folder(const std::filesystem::path& folder, const std::string& where);

/// Reads every file once, on several threads; with `subfolders` only what is in those. Throws
/// Error, exit code 2, when something cannot be read.
[[nodiscard]] PictureFiles find_pictures(const std::filesystem::path& folder,
                                         const std::vector<std::string>& subfolders = {});

/// Of the strays; empty where there are none.
[[nodiscard]] std::string note_of(const PictureFiles& found);

/// Throws Error, exit code 2, naming the first damaged file, with the counts of good and bad ones.
void require_undamaged(const std::filesystem::path& folder,
                       const std::vector<PictureFile>& pictures);

/// One row, "." : the SHA-256 over one line "path bytes sha256\n" per picture.
[[nodiscard]] reports::DataFile listing_of(const std::vector<PictureFile>& pictures);

/// Throws Error, exit code 2, naming the file when it cannot be read.
[[nodiscard]] std::vector<uint8_t> read_bytes(const std::filesystem::path& path);

}  // namespace noisemark::suite
