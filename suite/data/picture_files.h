#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/result/result.h"

/// The PNG and JPEG files below a folder, at any depth, in the order of their relative paths
/// (bytewise). A file counts when it begins as a PNG or JPEG, or is named .png, .jpg or .jpeg.
/// Links are followed, also those to folders; a folder that several paths lead to is read once,
/// under the path without links where there is one, so circles end; likewise a file. Every other
/// entry is named in left_out, also what systems leave behind (Thumbs.db, .DS_Store).
namespace noisemark::suite {

inline constexpr const char* kPictureFiles = "PNG or JPEG files, at any depth";

struct PictureFile {
  std::string path;  ///< relative to the folder
  int64_t bytes = 0;
  std::string sha256;
  std::string damage;    ///< is empty of a whole image; else the members below mean nothing
  std::string remark;    ///< DecodedImage::remark of a whole image
  int64_t channels = 0;  ///< number in the file, 1 or 3
  int64_t width = 0;
  int64_t height = 0;
};

/// An entry of the folder that is not used.
struct LeftOut {
  std::string path;    ///< relative to the folder; of a folder with a slash at its end
  std::string reason;  ///< "is no image"
};

struct PictureFiles {
  std::vector<PictureFile> pictures;
  std::vector<LeftOut> left_out;    ///< is sorted by path
  std::vector<std::string> linked;  ///< folders that were read through a link
};

/// Says whether a file of that name is a packed folder, also one that a browser or wget has
/// numbered: "cifar-10-binary.tar.gz.1".
[[nodiscard]] bool is_archive_name(const std::string& name);

/// Says in words why `path` is no folder; empty where it is one.
[[nodiscard]] std::string why_no_folder(const std::filesystem::path& path);

/// Throws Error, exit code 2, beginning with `where`, unless `folder` is one.
void require_picture_folder(const std::filesystem::path& folder, const std::string& where);

/// Reads and decodes every file once, on several threads; with `splits` only what is in those two
/// folders, and of a link from one into the other, or to a folder around it, nothing. What links of
/// both lead to is read in the first alone. Throws Error, exit code 2, when something cannot be
/// read.
[[nodiscard]] PictureFiles find_pictures(
    const std::filesystem::path& folder,
    const std::optional<std::pair<std::string, std::string>>& splits = {});

/// Counts what was left out by its reason, the images that are odd but whole, and the folders
/// behind links, and names the first of each; empty where there is none of them.
[[nodiscard]] std::string note_of(const PictureFiles& found);

/// Throws Error, exit code 2, naming the first damaged file, with the counts of good and bad ones.
void require_undamaged(const std::filesystem::path& folder,
                       const std::vector<PictureFile>& pictures);

/// One row, "." : the SHA-256 over one line "path bytes sha256\n" per image.
[[nodiscard]] reports::DataFile listing_of(const std::vector<PictureFile>& pictures);

/// The same of the images that are odd but whole, which the row's name counts and names one by
/// one; nothing where there is none.
[[nodiscard]] std::optional<reports::DataFile> listing_of_odd(
    const std::vector<PictureFile>& pictures);

/// A row whose name counts what was left out and names every entry, with the SHA-256 over one line
/// "path reason\n" per entry and no image; nothing where all was used.
[[nodiscard]] std::optional<reports::DataFile> listing_of_left_out(const PictureFiles& found);

/// Throws Error, exit code 2, naming the file when it cannot be read.
[[nodiscard]] std::vector<uint8_t> read_bytes(const std::filesystem::path& path);

}  // namespace noisemark::suite
