#include "suite/data/image_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "reports/base/file.h"

namespace noisemark::suite {
namespace {

using FileBytes = std::span<const uint8_t>;
using namespace std::string_view_literals;

constexpr auto kPng = "\x89PNG\r\n\x1a\n"sv;
constexpr auto kJpeg = "\xff\xd8\xff"sv;

struct Format {
  std::string_view name;
  size_t at;  ///< offset of the signature
  std::string_view signature;
};

constexpr std::array kForeignFormats{
    Format{"WebP", 8, "WEBP"sv},
    Format{"GIF", 0, "GIF8"sv},
    Format{"BMP", 0, "BM"sv},
    Format{"TIFF", 0, "II*\0"sv},
    Format{"TIFF", 0, "MM\0*"sv},
    Format{"AVIF", 4, "ftypavif"sv},
    Format{"HEIC", 4, "ftyphei"sv},
    Format{"HEIC", 4, "ftypmif1"sv},
    Format{"JPEG XL", 0, "\xff\x0a"sv},
    Format{"JPEG XL", 4, "JXL \r\n"sv},
    Format{"JPEG 2000", 4, "jP  \r\n"sv},
    Format{"JPEG 2000", 0, "\xff\x4f\xff\x51"sv},
    Format{"PBM", 0, "P1\n"sv},
    Format{"PGM", 0, "P2\n"sv},
    Format{"PPM", 0, "P3\n"sv},
    Format{"PBM", 0, "P4\n"sv},
    Format{"PGM", 0, "P5\n"sv},
    Format{"PPM", 0, "P6\n"sv},
    Format{"ICO", 0, "\0\0\1\0"sv},
    Format{"PSD", 0, "8BPS"sv},
    Format{"QOI", 0, "qoif"sv},
    Format{"DDS", 0, "DDS "sv},
    Format{"OpenEXR", 0, "\x76\x2f\x31\x01"sv},
};

constexpr std::array kArchives{"PK\x03\x04"sv,
                               "\x1f\x8b"sv,
                               "BZh"sv,
                               "\xfd"
                               "7zXZ\0"sv,
                               "7z\xbc\xaf\x27\x1c"sv,
                               "Rar!"sv};

bool has_at(FileBytes bytes, size_t at, std::string_view signature) {
  return bytes.size() >= at + signature.size() &&
         std::equal(signature.begin(), signature.end(), bytes.begin() + at,
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

}  // namespace

bool is_image(std::span<const uint8_t> bytes) {
  return has_at(bytes, 0, kPng) || has_at(bytes, 0, kJpeg);
}

bool is_archive(std::span<const uint8_t> bytes) {
  return std::any_of(kArchives.begin(), kArchives.end(),
                     [&](std::string_view signature) { return has_at(bytes, 0, signature); });
}

std::string foreign_format(std::span<const uint8_t> bytes) {
  const auto found = std::find_if(
      kForeignFormats.begin(), kForeignFormats.end(),
      [&](const Format& format) { return has_at(bytes, format.at, format.signature); });
  if (found == kForeignFormats.end()) return "";
  const bool vowel = std::string_view("AEIOU").find(found->name[0]) != std::string_view::npos;
  return fmt::format("{} {} image", vowel ? "an" : "a", found->name);
}

DecodedImage decode_image(std::span<const uint8_t> bytes) {
  if (bytes.empty()) throw ImageError("empty");
  if (has_at(bytes, 0, kPng)) return detail::decode_png(bytes);
  if (has_at(bytes, 0, kJpeg)) return detail::decode_jpeg(bytes);
  std::string foreign = foreign_format(bytes);
  if (foreign.empty()) {
    foreign = reports::stand_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  throw ImageError((foreign.empty() ? "" : foreign + ", which is ") + "neither PNG nor JPEG");
}

namespace detail {

void check_size(int64_t width, int64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxPixels / height) return;
  throw ImageError("an image of " + std::to_string(width) + " x " + std::to_string(height));
}

Picture new_picture(int64_t width, int64_t height) {
  Picture picture{width, height, 3, {}};
  picture.pixels.resize(static_cast<size_t>(width * height * 3));
  return picture;
}

void add_remark(std::string& remark, const std::string& words) {
  if (remark.find(words) == std::string::npos) remark += (remark.empty() ? "" : ", ") + words;
}

}  // namespace detail

}  // namespace noisemark::suite
