#include "suite/data/image_file.h"

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <string_view>

namespace noisemark::suite {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr std::array<uint8_t, 8> kPngSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<uint8_t, 3> kJpegSignature{0xff, 0xd8, 0xff};

template <size_t N>
bool starts_with(Bytes bytes, const std::array<uint8_t, N>& signature) {
  return bytes.size() >= N && std::equal(signature.begin(), signature.end(), bytes.begin());
}

uint32_t big_endian(Bytes bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return value;
}

/// PNG 1.2, section 3: chunks of length, type, data and CRC over type and data.
std::string find_png_damage(Bytes bytes) {
  constexpr size_t kChunkFrame = 12;
  size_t at = kPngSignature.size();
  bool has_data = false;
  while (bytes.size() - at >= kChunkFrame) {
    const size_t length = big_endian(bytes, at, 4);
    if (length > bytes.size() - at - kChunkFrame) break;
    const Bytes covered = bytes.subspan(at + 4, 4 + length);
    const std::string_view type(reinterpret_cast<const char*>(covered.data()), 4);
    if (at == kPngSignature.size() && type != "IHDR") return "PNG without a header";
    const auto crc = crc32(0, covered.data(), static_cast<uInt>(covered.size()));
    if (crc != big_endian(bytes, at + 8 + length, 4)) return "PNG chunk with a wrong checksum";
    has_data = has_data || type == "IDAT";
    if (type == "IEND") return has_data ? "" : "PNG without pixels";
    at += kChunkFrame + length;
  }
  return "truncated PNG";
}

/// ITU-T T.81, annex B: marker segments up to the first scan, then the end-of-image marker.
std::string find_jpeg_damage(Bytes bytes) {
  constexpr std::array<uint8_t, 2> kEnd{0xff, 0xd9};
  constexpr uint8_t kScan = 0xda;
  size_t at = 2;
  while (bytes.size() - at >= 4) {
    if (bytes[at] != 0xff) return "JPEG without a marker where one must be";
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    const size_t length = big_endian(bytes, at + 2, 2);
    if (length < 2 || length > bytes.size() - at - 2) break;
    at += 2 + length;
    if (marker != kScan) continue;
    const Bytes scan = bytes.subspan(at);
    const bool ends = std::search(scan.begin(), scan.end(), kEnd.begin(), kEnd.end()) != scan.end();
    return ends ? "" : "truncated JPEG";
  }
  return "truncated JPEG";
}

void check_size(int64_t width, int64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxPixels / height) return;
  throw ImageError("a picture of " + std::to_string(width) + " x " + std::to_string(height));
}

Picture empty_picture(int64_t width, int64_t height) {
  Picture picture{width, height, 3, {}};
  picture.pixels.resize(static_cast<size_t>(width * height * 3));
  return picture;
}

/// Keeps libpng's simplified reader released whatever happens.
struct PngReader {
  png_image image{};
  PngReader() { image.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  void check() const {
    if (PNG_IMAGE_FAILED(image) || image.warning_or_error != 0) {
      throw ImageError(std::string("PNG: ") + image.message);
    }
  }
};

void begin_png(PngReader& reader, Bytes bytes) {
  png_image_begin_read_from_memory(&reader.image, bytes.data(), bytes.size());
  reader.check();
  check_size(reader.image.width, reader.image.height);
}

Picture decode_png(Bytes bytes) {
  PngReader reader;
  begin_png(reader, bytes);
  reader.image.format = PNG_FORMAT_RGBA;
  Picture picture = empty_picture(reader.image.width, reader.image.height);
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(reader.image));
  png_image_finish_read(&reader.image, nullptr, rgba.data(), 0, nullptr);
  reader.check();
  auto out = picture.pixels.begin();
  for (size_t i = 0; i < rgba.size(); i += 4) out = std::copy_n(rgba.begin() + i, 3, out);
  return picture;
}

/// libjpeg reports errors by a callback that must not return; C++ exceptions must not cross its C
/// frames, so the callback jumps back.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message.data());
  std::longjmp(errors->back, 1);
}

/// Level -1 is a warning: the data are damaged and libjpeg would go on with made-up pixels.
void leave_on_warning(j_common_ptr info, int level) {
  if (level < 0) leave(info);
}

/// Nothing in these two functions but C data: a jump would skip destructors.
bool read_jpeg_header(jpeg_decompress_struct& info, JpegErrors& errors, Bytes bytes) {
  if (setjmp(errors.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  return true;
}

bool read_jpeg_pixels(jpeg_decompress_struct& info, JpegErrors& errors, uint8_t* pixels) {
  if (setjmp(errors.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + size_t{info.output_scanline} * info.output_width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

struct JpegReader {
  jpeg_decompress_struct info{};
  JpegErrors errors{};
  JpegReader() {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    errors.manager.emit_message = leave_on_warning;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  [[noreturn]] void fail() const {
    throw ImageError(std::string("JPEG: ") + errors.message.data());
  }
};

void begin_jpeg(JpegReader& reader, Bytes bytes) {
  if (!read_jpeg_header(reader.info, reader.errors, bytes)) reader.fail();
  check_size(reader.info.image_width, reader.info.image_height);
  const J_COLOR_SPACE colours = reader.info.jpeg_color_space;
  if (colours == JCS_GRAYSCALE || colours == JCS_RGB || colours == JCS_YCbCr) return;
  const bool print = colours == JCS_CMYK || colours == JCS_YCCK;
  throw ImageError(std::string("JPEG: ") + (print ? "CMYK" : "unknown") +
                   " colours, which are neither gray nor RGB");
}

Picture decode_jpeg(Bytes bytes) {
  JpegReader reader;
  begin_jpeg(reader, bytes);
  Picture picture = empty_picture(reader.info.image_width, reader.info.image_height);
  if (!read_jpeg_pixels(reader.info, reader.errors, picture.pixels.data())) reader.fail();
  return picture;
}

/// Begins to decode: what that meets in the header it says.
template <typename Reader>
std::string find_header_damage(void (*begin)(Reader&, Bytes), Bytes bytes) {
  try {
    Reader reader;
    begin(reader, bytes);
    return "";
  } catch (const ImageError& error) {
    return error.what();
  }
}

}  // namespace

bool is_image(std::span<const uint8_t> bytes) {
  return starts_with(bytes, kPngSignature) || starts_with(bytes, kJpegSignature);
}

std::string find_damage(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return "empty";
  if (!is_image(bytes)) return "neither PNG nor JPEG";
  const bool png = starts_with(bytes, kPngSignature);
  const std::string damage = png ? find_png_damage(bytes) : find_jpeg_damage(bytes);
  if (!damage.empty()) return damage;
  return png ? find_header_damage(begin_png, bytes) : find_header_damage(begin_jpeg, bytes);
}

int64_t stored_channels(std::span<const uint8_t> bytes) {
  if (starts_with(bytes, kPngSignature)) {
    PngReader reader;
    begin_png(reader, bytes);
    return (reader.image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  }
  if (!starts_with(bytes, kJpegSignature)) throw ImageError("neither PNG nor JPEG");
  JpegReader reader;
  begin_jpeg(reader, bytes);
  return reader.info.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
}

Picture decode_image(std::span<const uint8_t> bytes) {
  if (starts_with(bytes, kPngSignature)) return decode_png(bytes);
  if (starts_with(bytes, kJpegSignature)) return decode_jpeg(bytes);
  throw ImageError("neither PNG nor JPEG");
}

}  // namespace noisemark::suite
