#include <csetjmp>
#include <cstddef>
#include <cstdio>

// jpeglib.h needs what stands above, and jerror.h needs jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <string>

#include "suite/data/image_file.h"

// libjpeg-turbo, which Pillow uses too, set up as Pillow sets it up: the data end where the file
// ends, without an end marker that libjpeg would make up.

namespace noisemark::suite::detail {
namespace {

using FileBytes = std::span<const uint8_t>;

constexpr const char* kTruncatedJpeg = "truncated JPEG";

/// libjpeg reports errors by a callback that must not return; C++ exceptions must not cross its C
/// frames, so the callback jumps back.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
  std::array<char, JMSG_LENGTH_MAX> remark;  ///< the first one; empty: none
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message.data());
  std::longjmp(errors->back, 1);
}

/// Returns whether libjpeg goes on with pixels that it made up. Its other warnings leave all pixels
/// there.
bool means_missing_pixels(int code) {
  constexpr std::array kCodes{JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF, JWRN_MUST_RESYNC,
                              JWRN_ARITH_BAD_CODE};
  return std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end();
}

/// Level -1 is a warning, others are traces.
void judge_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  if (means_missing_pixels(info->err->msg_code)) leave(info);
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  if (errors->remark[0] == '\0') info->err->format_message(info, errors->remark.data());
}

void do_nothing(j_decompress_ptr /*info*/) {}

/// Makes libjpeg return instead of reading on: there is nothing behind the file's end.
boolean suspend(j_decompress_ptr /*info*/) {
  return FALSE;
}

void skip(j_decompress_ptr info, long count) {  // NOLINT(google-runtime-int): the library's type
  if (count <= 0) return;
  const size_t skipped = std::min<size_t>(static_cast<size_t>(count), info->src->bytes_in_buffer);
  info->src->next_input_byte += skipped;
  info->src->bytes_in_buffer -= skipped;
}

/// Returns whether a progressive image ends before every coefficient was refined to its last bit.
/// libjpeg then makes the rest up without a warning, and not in every version alike.
bool lacks_scans(const jpeg_decompress_struct& info) {
  if (info.progressive_mode == FALSE || info.coef_bits == nullptr) return false;
  for (int component = 0; component < info.num_components; ++component) {
    const int* missing_bits = info.coef_bits[component];
    if (std::any_of(missing_bits, missing_bits + DCTSIZE2, [](int bits) { return bits != 0; })) {
      return true;
    }
  }
  return false;
}

enum class Reading { kDone, kEnded, kFailed };

/// Nothing in these two functions but C data: a jump would skip destructors.
Reading read_jpeg_header(jpeg_decompress_struct& info, JpegErrors& errors,
                         jpeg_source_mgr& source) {
  if (setjmp(errors.back) != 0) return Reading::kFailed;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&info);
  info.src = &source;
  return jpeg_read_header(&info, TRUE) == JPEG_SUSPENDED ? Reading::kEnded : Reading::kDone;
}

Reading read_jpeg_pixels(jpeg_decompress_struct& info, JpegErrors& errors, uint8_t* pixels) {
  if (setjmp(errors.back) != 0) return Reading::kFailed;  // NOLINT(cert-err52-cpp)
  info.out_color_space = JCS_RGB;
  if (jpeg_start_decompress(&info) == FALSE) return Reading::kEnded;
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + size_t{info.output_scanline} * info.output_width * 3;
    if (jpeg_read_scanlines(&info, &row, 1) == 0) return Reading::kEnded;
  }
  if (lacks_scans(info)) return Reading::kEnded;
  jpeg_finish_decompress(&info);
  return Reading::kDone;
}

struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_source_mgr source{};
  JpegErrors errors{};

  explicit JpegReader(FileBytes bytes) {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    errors.manager.emit_message = judge_warning;
    source.next_input_byte = bytes.data();
    source.bytes_in_buffer = bytes.size();
    source.init_source = do_nothing;
    source.fill_input_buffer = suspend;
    source.skip_input_data = skip;
    source.resync_to_restart = jpeg_resync_to_restart;
    source.term_source = do_nothing;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  void require(Reading reading) const {
    if (reading == Reading::kEnded) throw ImageError(kTruncatedJpeg);
    if (reading == Reading::kFailed) {
      throw ImageError(std::string("JPEG: ") + errors.message.data());
    }
  }
};

void require_known_colours(J_COLOR_SPACE colours) {
  if (colours == JCS_GRAYSCALE || colours == JCS_RGB || colours == JCS_YCbCr) return;
  const bool print = colours == JCS_CMYK || colours == JCS_YCCK;
  throw ImageError(std::string("JPEG: ") + (print ? "CMYK" : "unknown") +
                   " colours, which are neither gray nor RGB");
}

}  // namespace

DecodedImage decode_jpeg(std::span<const uint8_t> bytes) {
  JpegReader reader(bytes);
  reader.require(read_jpeg_header(reader.info, reader.errors, reader.source));
  const jpeg_decompress_struct& info = reader.info;
  check_size(info.image_width, info.image_height);
  require_known_colours(info.jpeg_color_space);
  DecodedImage image{new_picture(info.image_width, info.image_height),
                     info.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3,
                     {}};
  reader.require(read_jpeg_pixels(reader.info, reader.errors, image.picture.pixels.data()));
  if (reader.errors.remark[0] != '\0') add_remark(image.remark, reader.errors.remark.data());
  return image;
}

}  // namespace noisemark::suite::detail
