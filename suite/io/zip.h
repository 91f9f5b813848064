#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The part of the ZIP format (PKWARE APPNOTE 6.3) that .npz files need: members that are stored or
/// deflated are read, stored ones are written. No encryption, no ZIP64 (members or archives of
/// 4 GiB; Python's zipfile changes to it at 2 GiB), one disk.
namespace noisemark::suite {

struct ZipMember {
  std::string name;
  uint16_t method = 0;  ///< 0: stored, 8: deflated
  uint32_t crc32 = 0;
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;         ///< number once it is inflated
  uint64_t header_begin = 0;  ///< offset of the member's own header
};

/// An archive in memory, its directory checked. Nothing in it is trusted: no size is allocated that
/// deflate could not hold in the bytes that are there.
class ZipFile {
 public:
  /// Throws Error, exit code 2, naming the file: missing, no ZIP archive, truncated, a directory
  /// that points outside, a name twice, encrypted, ZIP64.
  explicit ZipFile(const std::string& path);

  [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// The member's bytes, its CRC checked. Throws Error, exit code 2: damaged, another method.
  [[nodiscard]] std::string read(const ZipMember& member) const;

 private:
  [[nodiscard]] std::string_view stored(const ZipMember& member) const;

  std::string path_;
  std::string bytes_;
  uint64_t directory_begin_ = 0;
  std::vector<ZipMember> members_;
};

struct ZipPart {
  std::string name;
  std::vector<std::string_view> pieces;  ///< one after the other; not owned
};

/// Writes `path` whole or not at all, every member stored, dated 1980-01-01, so that equal contents
/// give equal bytes. Throws Error, exit code 74, when it cannot be written or needs ZIP64.
void write_zip(const std::string& path, std::span<const ZipPart> parts);

}  // namespace noisemark::suite
