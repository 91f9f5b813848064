#include "suite/io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "reports/base/error.h"
#include "reports/base/file.h"

namespace noisemark::suite {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint32_t kMemberSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kMemberBytes = 30;  // bytes of the headers, without name, extra field and comment
constexpr size_t kDirectoryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kEncrypted = 1;         // bit of the flags
constexpr uint64_t kMostInflation = 1032;  // deflate's limit: 258 bytes in 2 bits
constexpr uint64_t kZip64 = std::numeric_limits<uint32_t>::max();
constexpr uint16_t kVersion = 20;
constexpr uint16_t kFirstOfJanuary1980 = 0x21;

template <typename T>
T number_at(std::string_view bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename... T>
std::string packed(T... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

Error malformed(const std::string& path, const std::string& what,
                const std::string& accepted = "") {
  return bad_input(path, "", what, accepted);
}

Error needs_zip64(const std::string& path) {
  return malformed(path, "ZIP64", "an archive of less than 2 GiB; larger arrays as .npy");
}

struct Directory {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint16_t members = 0;
};

// The end record is the last of the file but for a comment of up to 65,535 bytes.
Directory find_directory(const std::string& path, std::string_view bytes) {
  for (size_t back = kEndBytes; back <= bytes.size() && back <= kEndBytes + 0xffff; ++back) {
    const size_t begin = bytes.size() - back;
    if (number_at<uint32_t>(bytes, begin) != kEndSignature) continue;
    const std::string_view end = bytes.substr(begin);
    if (number_at<uint16_t>(end, 20) != back - kEndBytes) continue;
    const Directory directory{number_at<uint32_t>(end, 16), number_at<uint32_t>(end, 12),
                              number_at<uint16_t>(end, 10)};
    if (directory.begin == kZip64 || directory.members == 0xffff) throw needs_zip64(path);
    if (number_at<uint16_t>(end, 4) != 0 || number_at<uint16_t>(end, 8) != directory.members) {
      throw malformed(path, "an archive of several disks", "one");
    }
    if (directory.begin + directory.bytes > begin) {
      throw malformed(path, "its directory lies beyond its end");
    }
    return directory;
  }
  throw malformed(path, "truncated, or no ZIP archive", "an .npz file");
}

}  // namespace

ZipFile::ZipFile(const std::string& path) : path_(path), bytes_(reports::read_file(path)) {
  const Directory directory = find_directory(path, bytes_);
  directory_begin_ = directory.begin;
  std::string_view rest = std::string_view(bytes_).substr(directory.begin, directory.bytes);
  std::set<std::string> names;
  for (int i = 0; i < directory.members; ++i) {
    if (rest.size() < kDirectoryBytes || number_at<uint32_t>(rest, 0) != kDirectorySignature) {
      throw malformed(
          path, fmt::format("its directory ends after {} of {} members", i, directory.members));
    }
    const size_t name_bytes = number_at<uint16_t>(rest, 28);
    const size_t entry_bytes = kDirectoryBytes + name_bytes + number_at<uint16_t>(rest, 30) +
                               number_at<uint16_t>(rest, 32);
    if (entry_bytes > rest.size()) throw malformed(path, "its directory is truncated");
    ZipMember member;
    member.name = std::string(rest.substr(kDirectoryBytes, name_bytes));
    member.method = number_at<uint16_t>(rest, 10);
    member.crc32 = number_at<uint32_t>(rest, 16);
    member.stored_bytes = number_at<uint32_t>(rest, 20);
    member.bytes = number_at<uint32_t>(rest, 24);
    member.header_begin = number_at<uint32_t>(rest, 42);
    if (member.stored_bytes == kZip64 || member.bytes == kZip64 || member.header_begin == kZip64) {
      throw needs_zip64(path);
    }
    if ((number_at<uint16_t>(rest, 8) & kEncrypted) != 0) {
      throw malformed(path, member.name + ": encrypted");
    }
    if (!names.insert(member.name).second) throw malformed(path, member.name + ": twice");
    members_.push_back(member);
    rest.remove_prefix(entry_bytes);
  }
}

std::string_view ZipFile::stored(const ZipMember& member) const {
  const std::string_view before = std::string_view(bytes_).substr(0, directory_begin_);
  const auto outside = [&] {
    return malformed(path_, member.name + ": truncated, or not where the directory says");
  };
  if (member.header_begin + kMemberBytes > before.size() ||
      number_at<uint32_t>(before, member.header_begin) != kMemberSignature) {
    throw outside();
  }
  const uint64_t begin = member.header_begin + kMemberBytes +
                         number_at<uint16_t>(before, member.header_begin + 26) +
                         number_at<uint16_t>(before, member.header_begin + 28);
  if (begin + member.stored_bytes > before.size()) throw outside();
  return before.substr(begin, member.stored_bytes);
}

namespace {

/// `out` has the size that the directory names; false unless exactly that comes out.
bool inflate_all(std::string_view in, std::string& out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  // zlib's own counts have 32 bits, which both sizes fit in.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  inflateEnd(&stream);
  return whole;
}

}  // namespace

std::string ZipFile::read(const ZipMember& member) const {
  const std::string_view in = stored(member);
  const auto damaged = [&](const std::string& how) {
    return malformed(path_, member.name + ": damaged, " + how);
  };
  std::string out;
  if (member.method == kStored) {
    if (member.bytes != in.size()) throw damaged("two sizes");
    out = std::string(in);
  } else if (member.method == kDeflated) {
    if (member.bytes / kMostInflation > in.size()) throw damaged("a size that cannot be");
    out.resize(member.bytes);
    if (!inflate_all(in, out)) throw damaged("cannot be inflated");
  } else {
    throw malformed(path_, fmt::format("{}: compression method {}", member.name, member.method),
                    "0 (stored) or 8 (deflated)");
  }
  if (crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != member.crc32) {
    throw damaged("its checksum does not hold");
  }
  return out;
}

void write_zip(const std::string& path, std::span<const ZipPart> parts) {
  // Every header is made before the pieces point to it.
  std::vector<std::string> headers;
  std::string directory;
  uint64_t offset = 0;
  for (const ZipPart& part : parts) {
    uint64_t size = 0;
    uLong crc = 0;
    for (const std::string_view piece : part.pieces) {
      if (piece.empty()) continue;  // zlib takes no bytes at no address for a new beginning
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
      size += piece.size();
    }
    const uint64_t end = offset + kMemberBytes + part.name.size() + size;
    if (end >= std::numeric_limits<int32_t>::max()) {
      throw Error(ExitCode::kCannotWrite, path + ": 2 GiB and more need ZIP64: write .npy");
    }
    const std::string common =
        packed(kVersion, uint16_t{0}, kStored, uint16_t{0}, kFirstOfJanuary1980,
               static_cast<uint32_t>(crc), static_cast<uint32_t>(size), static_cast<uint32_t>(size),
               static_cast<uint16_t>(part.name.size()), uint16_t{0});
    headers.push_back(packed(kMemberSignature) + common + part.name);
    directory +=
        packed(kDirectorySignature, kVersion) + common +
        packed(uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0}, static_cast<uint32_t>(offset)) +
        part.name;
    offset = end;
  }
  const auto members = static_cast<uint16_t>(parts.size());
  const std::string end =
      packed(kEndSignature, uint16_t{0}, uint16_t{0}, members, members,
             static_cast<uint32_t>(directory.size()), static_cast<uint32_t>(offset), uint16_t{0});
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < parts.size(); ++i) {
    pieces.push_back(headers[i]);
    pieces.insert(pieces.end(), parts[i].pieces.begin(), parts[i].pieces.end());
  }
  pieces.push_back(directory);
  pieces.push_back(end);
  reports::write_named_file(path, pieces);
}

}  // namespace noisemark::suite
