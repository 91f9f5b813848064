#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "suite/data/image_file.h"

// A decoder of our own, because libpng reads chunks that must not matter (it applies gAMA, and
// takes an odd iCCP for damage), and because what is damage must be what Pillow takes for damage,
// which has a decoder of its own too. Sections are those of PNG 1.2.

namespace noisemark::suite::detail {
namespace {

using FileBytes = std::span<const uint8_t>;

uint32_t big_endian(FileBytes bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return value;
}

/// Section 4.1.1.
struct Header {
  int64_t width = 0;
  int64_t height = 0;
  int64_t depth = 8;   ///< bits of a sample
  int64_t colour = 0;  ///< 0: gray, 2: RGB, 3: palette, 4: gray and alpha, 6: RGB and alpha
  bool interlaced = false;

  [[nodiscard]] int64_t samples() const {
    constexpr std::array<int64_t, 7> kSamples{1, 0, 3, 1, 2, 0, 4};
    return kSamples[colour];
  }
  [[nodiscard]] int64_t row_bytes(int64_t pixels) const {
    return (pixels * samples() * depth + 7) / 8;
  }
};

Header parse_header(FileBytes data) {
  if (data.size() < 13) throw ImageError("PNG with a header that is cut off");
  const Header header{big_endian(data, 0, 4), big_endian(data, 4, 4), data[8], data[9],
                      data[12] != 0};
  const bool packed = header.depth == 1 || header.depth == 2 || header.depth == 4;
  const bool gray_or_palette = header.colour == 0 || header.colour == 3;
  const bool colour =
      gray_or_palette || header.colour == 2 || header.colour == 4 || header.colour == 6;
  const bool depth = header.depth == 8 || (header.depth == 16 && header.colour != 3) ||
                     (packed && gray_or_palette);
  if (!colour || !depth) {
    throw ImageError("PNG of colour type " + std::to_string(header.colour) + " with " +
                     std::to_string(header.depth) + " bits");
  }
  if (data[11] != 0) throw ImageError("PNG of an unknown filter method");
  return header;
}

/// The part of an image that the pixels fill.
struct Frame {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
};

/// The parts of a file on which its pixels depend.
struct Parts {
  std::optional<Header> header;
  std::optional<FileBytes> palette;
  std::optional<Frame> frame;  ///< an animation's last frame so far
  int64_t sequence = -1;       ///< number of the last chunk of an animation
  int64_t frames = 0;          ///< frames that an animation declares, or 0
  std::vector<uint8_t> compressed;
  std::optional<size_t> cut_from;  ///< bytes of `compressed` before the chunk that the file cuts
  size_t text = 0;                 ///< bytes of texts so far, without their keywords
  std::string remark;
};

struct Chunk {
  std::string_view type;
  FileBytes data;       ///< shorter than it says where the file ends
  bool whole = false;   ///< the file does not end within it
  bool cut = false;     ///< it ends within the data
  bool intact = false;  ///< it has the checksum that it should have
};

/// Section 3.2: length, type, data and CRC over type and data. Returns nothing at the file's end
/// and where no type of four letters is found; digits and underscores count, as with Pillow.
std::optional<Chunk> read_chunk(FileBytes bytes, size_t& at) {
  if (bytes.size() - at < 8) return std::nullopt;
  const size_t length = big_endian(bytes, at, 4);
  const FileBytes rest = bytes.subspan(at + 4);
  const std::string_view type(reinterpret_cast<const char*>(rest.data()), 4);
  const auto is_letter = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  if (!std::all_of(type.begin(), type.end(), is_letter)) return std::nullopt;
  const bool whole = rest.size() >= length + 8;
  Chunk chunk{type, rest.subspan(4, std::min(length, rest.size() - 4)), whole,
              rest.size() - 4 < length};
  if (whole) {
    const auto crc = crc32(0, rest.data(), static_cast<uInt>(length + 4));
    chunk.intact = crc == big_endian(rest, length + 4, 4);
  }
  at = whole ? at + 12 + length : bytes.size();
  return chunk;
}

constexpr const char* kTruncatedPng = "truncated PNG";
constexpr const char* kCutBehindPixels = "PNG with a chunk behind its pixels that is cut off";
constexpr std::string_view kData = "IDAT";
constexpr std::string_view kFrameData = "fdAT";
constexpr std::string_view kEnd = "IEND";

// Pillow reads the first image of an animation (APNG 1.0), takes an fdAT before or amid the
// pixels for pixels, and refuses a frame that is wrong or out of order, also behind them.

void take_sequence_number(FileBytes data, Parts& parts) {
  const int64_t number = big_endian(data, 0, 4);
  if (number != parts.sequence + 1) throw ImageError("PNG animation with frames out of order");
  parts.sequence = number;
}

void take_frame(FileBytes data, Parts& parts) {
  take_sequence_number(data, parts);
  const Frame frame{big_endian(data, 12, 4), big_endian(data, 16, 4), big_endian(data, 4, 4),
                    big_endian(data, 8, 4)};
  const Header picture = parts.header.value_or(Header{});
  if (frame.x + frame.width > picture.width || frame.y + frame.height > picture.height) {
    throw ImageError("PNG animation with a frame beyond the image");
  }
  parts.frame = frame;
}

/// A count that is none changes nothing, and a second one takes the first away.
void count_frames(FileBytes data, Parts& parts) {
  constexpr int64_t kMost = 0x8000'0000;
  const int64_t frames = big_endian(data, 0, 4);
  if (parts.frames > 0 || frames <= kMost) parts.frames = parts.frames > 0 ? 0 : frames;
}

void take_pixels(FileBytes data, Parts& parts) {
  if (parts.sequence < 0) throw ImageError("PNG animation with pixels of no frame");
  take_sequence_number(data, parts);
}

void follow_animation(const Chunk& chunk, Parts& parts) {
  struct Kind {
    std::string_view type;
    size_t bytes;
    void (*take)(FileBytes, Parts&);
  };
  constexpr std::array kKinds{Kind{"acTL", 8, count_frames}, Kind{"fcTL", 26, take_frame},
                              Kind{kFrameData, 4, take_pixels}};
  for (const Kind& kind : kKinds) {
    if (chunk.type != kind.type) continue;
    if (chunk.data.size() < kind.bytes) throw ImageError("PNG animation with a chunk cut off");
    kind.take(chunk.data, parts);
  }
}

// Pillow reads what stands beside the pixels too, though no pixel depends on it, and refuses a
// image in which that is too short, or packed as it does not unpack it.

constexpr uInt kMostUnpacked = 1U << 20U;       // limit of a text or a profile
constexpr size_t kMostText = size_t{1} << 26U;  // limit of all texts together

/// Returns the length of a packed text, and 0 of one that cannot be unpacked.
size_t unpacked_size(FileBytes packed);

/// Returns the bytes behind the first zero.
std::optional<FileBytes> behind_zero(FileBytes data) {
  const auto zero = std::find(data.begin(), data.end(), 0);
  if (zero == data.end()) return std::nullopt;
  return data.subspan(static_cast<size_t>(zero - data.begin()) + 1);
}

void require_method_of_packing(bool known) {
  if (!known) throw ImageError("PNG with a text or a profile that is packed in an unknown way");
}

void add_text(size_t bytes, Parts& parts) {
  parts.text += bytes;
  if (parts.text > kMostText) throw ImageError("PNG with more than 64 MiB of texts");
}

void take_text(FileBytes data, Parts& parts) {
  if (!data.empty() && data.front() != 0)
    add_text(behind_zero(data).value_or(FileBytes{}).size(), parts);
}

void take_packed_text(FileBytes data, Parts& parts) {
  const FileBytes text = behind_zero(data).value_or(FileBytes{});
  require_method_of_packing(text.empty() || text.front() == 0);
  const size_t size = text.empty() ? 0 : unpacked_size(text.subspan(1));
  if (!data.empty() && data.front() != 0) add_text(size, parts);
}

/// A keyword, whether and how it is packed, a language, a translated keyword, the text.
void take_international_text(FileBytes data, Parts& /*parts*/) {
  const auto behind = behind_zero(data);
  if (!behind || behind->size() < 2 || (*behind)[0] == 0 || (*behind)[1] != 0) return;
  const auto translated = behind_zero(behind->subspan(2));
  if (!translated) return;
  if (const auto text = behind_zero(*translated)) (void)unpacked_size(*text);
}

/// A name, how it is packed, the profile. Without a zero the first byte says how it is packed.
void take_profile(FileBytes data, Parts& /*parts*/) {
  const FileBytes packed = behind_zero(data).value_or(data);
  require_method_of_packing(!packed.empty() && packed.front() == 0);
  (void)unpacked_size(packed.subspan(1));
}

void take_transparency(FileBytes data, Parts& parts) {
  const int64_t colour = parts.header ? parts.header->colour : 3;
  const size_t least = colour == 0 ? 2 : colour == 2 ? 6 : 0;
  if (data.size() < least) throw ImageError("PNG with a transparency cut off");
}

void take_nothing(FileBytes /*data*/, Parts& /*parts*/) {}

void take_what_is_beside(const Chunk& chunk, Parts& parts) {
  struct Kind {
    std::string_view type;
    size_t bytes;  ///< least number
    void (*take)(FileBytes, Parts&);
  };
  constexpr std::array kKinds{Kind{"gAMA", 4, take_nothing},
                              Kind{"cHRM", 32, take_nothing},
                              Kind{"sRGB", 1, take_nothing},
                              Kind{"pHYs", 9, take_nothing},
                              Kind{"tRNS", 0, take_transparency},
                              Kind{"iCCP", 1, take_profile},
                              Kind{"tEXt", 0, take_text},
                              Kind{"zTXt", 0, take_packed_text},
                              Kind{"iTXt", 0, take_international_text}};
  for (const Kind& kind : kKinds) {
    if (chunk.type != kind.type) continue;
    if (chunk.data.size() < kind.bytes) {
      throw ImageError("PNG with a chunk " + std::string(kind.type) + " that is cut off");
    }
    kind.take(chunk.data, parts);
  }
}

/// Takes a chunk before the pixels. Every one must be intact, also those that do not matter.
void take_leading_chunk(const Chunk& chunk, Parts& parts) {
  if (!chunk.whole) throw ImageError(kTruncatedPng);
  if (!chunk.intact) throw ImageError("PNG chunk with a wrong checksum");
  if (chunk.type == "IHDR") parts.header = parse_header(chunk.data);
  if (chunk.type == "PLTE") parts.palette = chunk.data;
  take_what_is_beside(chunk, parts);
  follow_animation(chunk, parts);
  if (chunk.type == kEnd) throw ImageError("PNG without pixels");
}

/// Takes a chunk behind the pixels. No checksum is looked at there, and nothing changes a pixel.
void take_trailing_chunk(const Chunk& chunk, Parts& parts) {
  if (chunk.type == kEnd) return;
  if (chunk.cut) throw ImageError(kCutBehindPixels);
  if (chunk.type == "IHDR" && (chunk.data.size() < 13 || chunk.data[11] != 0)) {
    throw ImageError("PNG with a second header that is wrong");
  }
  take_what_is_beside(chunk, parts);
  follow_animation(chunk, parts);
}

/// Judges what follows the pixels, of which nothing is needed. What follows the first frame of an
/// animation that says to have more is theirs.
void judge_trailing_chunks(FileBytes bytes, size_t at, Parts& parts) {
  const bool more = parts.frames > (parts.frame ? 1 : 0);
  bool first = true;
  while (const auto chunk = read_chunk(bytes, at)) {
    first = first && !(more && chunk->type == "fcTL");
    if (first) take_trailing_chunk(*chunk, parts);
    if (!chunk->intact) add_remark(parts.remark, "a chunk after the pixels has a wrong checksum");
    if (chunk->type != kEnd) continue;
    if (at < bytes.size()) add_remark(parts.remark, "bytes after the end");
    return;
  }
  add_remark(parts.remark, "no end after the pixels");
}

bool begins_pixels(const Chunk& chunk) {
  return chunk.type == kData || chunk.type == kFrameData;
}
bool holds_pixels(const Chunk& chunk) {
  return begins_pixels(chunk) || chunk.type == "DDAT";
}

Parts read_parts(FileBytes bytes) {
  Parts parts;
  size_t at = 8;
  auto chunk = read_chunk(bytes, at);
  for (; chunk && !begins_pixels(*chunk); chunk = read_chunk(bytes, at)) {
    take_leading_chunk(*chunk, parts);
  }
  if (!chunk) throw ImageError(kTruncatedPng);
  if (!parts.header) throw ImageError("PNG without a header");
  if (parts.header->colour == 3 && !parts.palette) throw ImageError("PNG without its palette");
  if (parts.palette && parts.header->colour == 3 && parts.palette->size() > 3 * 256) {
    throw ImageError("PNG with a palette of more than 256 colours");
  }
  size_t next = at;
  for (; chunk && holds_pixels(*chunk); chunk = read_chunk(bytes, next)) {
    follow_animation(*chunk, parts);
    at = next;
    const FileBytes data = chunk->data.subspan(chunk->type == kFrameData ? 4 : 0);
    if (chunk->cut) parts.cut_from = parts.compressed.size();
    parts.compressed.insert(parts.compressed.end(), data.begin(), data.end());
    if (!chunk->intact) add_remark(parts.remark, "the pixels have a wrong checksum");
  }
  const std::optional<Frame> frame = parts.frame;
  judge_trailing_chunks(bytes, at, parts);
  parts.frame = frame;
  return parts;
}

/// Keeps zlib's stream released whatever happens.
struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

size_t unpacked_size(FileBytes packed) {
  std::vector<Bytef> text(kMostUnpacked);
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = const_cast<Bytef*>(packed.data());  // zlib does not write there
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = text.data();
  stream.avail_out = kMostUnpacked;
  const int state = inflate(&stream, Z_SYNC_FLUSH);
  if (state == Z_MEM_ERROR) throw std::bad_alloc();
  if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) return 0;
  if (state != Z_STREAM_END && stream.avail_out == 0 && stream.avail_in > 0) {
    throw ImageError("PNG with a text or a profile of more than 1 MiB");
  }
  return kMostUnpacked - stream.avail_out;
}

/// Says how the stream goes on behind the last pixel, in front of which it was right.
std::string read_stream_end(z_stream& stream) {
  std::array<Bytef, 64> more;
  stream.next_out = more.data();
  stream.avail_out = more.size();
  const int state = inflate(&stream, Z_NO_FLUSH);
  if (stream.avail_out < more.size()) return "more pixels than its size says";
  if (state == Z_DATA_ERROR) throw ImageError("PNG whose pixels are damaged");
  return state == Z_STREAM_END ? "" : "pixels without the end of their data";
}

/// The first `count` bytes of the stream. Throws ImageError where it has fewer, or is damaged, or
/// where the file is cut in a chunk behind its end, which Pillow reads as any other there.
std::vector<uint8_t> inflate_bytes(const Parts& parts, int64_t count, std::string& remark) {
  constexpr int64_t kLargestRatio = 1032;  // deflate's; spares what a false header asks for
  constexpr int64_t kLargest = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
  const auto size = static_cast<int64_t>(parts.compressed.size());
  if (count > (size + 1) * kLargestRatio) throw ImageError(kTruncatedPng);
  if (count > kLargest || size > kLargest) throw ImageError("PNG of more than 4 GiB");
  std::vector<uint8_t> rows(static_cast<size_t>(count));
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = const_cast<Bytef*>(parts.compressed.data());  // zlib does not write there
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = rows.data();
  stream.avail_out = static_cast<uInt>(count);
  const int state = inflate(&stream, Z_NO_FLUSH);
  if (state == Z_MEM_ERROR) throw std::bad_alloc();
  if (state == Z_DATA_ERROR || state == Z_NEED_DICT) {
    throw ImageError("PNG whose pixels are damaged");
  }
  if (stream.avail_out > 0) throw ImageError(kTruncatedPng);
  const std::string end = state == Z_STREAM_END ? "" : read_stream_end(stream);
  if (parts.cut_from && stream.total_in <= *parts.cut_from) throw ImageError(kCutBehindPixels);
  if (!end.empty()) add_remark(remark, end);
  return rows;
}

uint8_t paeth(int left, int above, int corner) {
  const int to_left = std::abs(above - corner);
  const int to_above = std::abs(left - corner);
  const int to_corner = std::abs(left + above - 2 * corner);
  if (to_left <= to_above && to_left <= to_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(to_above <= to_corner ? above : corner);
}

/// Undoes the filter of a row (section 6) in place by adding to every byte what `predict` makes of
/// the byte one pixel to the left, the one above, and the one above that to the left.
template <typename Predict>
void add_prediction(std::span<uint8_t> row, FileBytes above, size_t step, Predict predict) {
  for (size_t i = 0; i < std::min(step, row.size()); ++i) row[i] += predict(0, above[i], 0);
  for (size_t i = step; i < row.size(); ++i) {
    row[i] += predict(row[i - step], above[i], above[i - step]);
  }
}

/// `above`: the row before, of zeros at first. `step`: bytes of a pixel, at least 1.
void unfilter(uint8_t filter, std::span<uint8_t> row, FileBytes above, size_t step) {
  switch (filter) {
    case 0:
      return;
    case 1:
      return add_prediction(row, above, step,
                            [](int left, int, int) { return static_cast<uint8_t>(left); });
    case 2:
      return add_prediction(row, above, step,
                            [](int, int up, int) { return static_cast<uint8_t>(up); });
    case 3:
      return add_prediction(row, above, step, [](int left, int up, int) {
        return static_cast<uint8_t>((left + up) / 2);
      });
    case 4:
      return add_prediction(row, above, step, paeth);
    default:
      throw ImageError("PNG with an unknown filter");
  }
}

/// One of the passes of an interlaced image (section 2.6), or all of one that is not.
struct Pass {
  int64_t x, y;    ///< the first pixel
  int64_t dx, dy;  ///< steps from one to the next

  [[nodiscard]] int64_t columns(const Header& header) const {
    return (header.width - x + dx - 1) / dx;
  }
  [[nodiscard]] int64_t rows(const Header& header) const {
    return (header.height - y + dy - 1) / dy;
  }
};

std::vector<Pass> passes_of(const Header& header) {
  std::vector<Pass> passes{{0, 0, 1, 1}};
  if (header.interlaced) {
    passes = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
              {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  }
  std::erase_if(
      passes, [&](const Pass& pass) { return pass.columns(header) < 1 || pass.rows(header) < 1; });
  return passes;
}

using Rgb = std::array<uint8_t, 3>;

/// Makes 8-bit RGB of stored pixels.
class Colours {
 public:
  Colours(const Header& header, FileBytes palette) : header_(header), palette_(palette) {}

  /// Pixel `x` of an unfiltered row.
  [[nodiscard]] Rgb pixel(const uint8_t* row, int64_t x) {
    if (header_.depth < 8) return packed(row, x);
    const int64_t sample_bytes = header_.depth / 8;
    const uint8_t* pixel = row + x * header_.samples() * sample_bytes;
    if (header_.colour == 3) return entry(pixel[0]);
    if (header_.colour == 0 && sample_bytes == 2) return clipped(pixel);
    if (header_.samples() < 3) return {pixel[0], pixel[0], pixel[0]};
    return {pixel[0], pixel[sample_bytes], pixel[2 * sample_bytes]};
  }

  /// A colour of the palette.
  [[nodiscard]] Rgb entry(int64_t index) {
    const auto at = static_cast<size_t>(3 * index);
    if (at + 3 <= palette_.size()) return {palette_[at], palette_[at + 1], palette_[at + 2]};
    if (remark_.empty()) remark_ = "colours beyond the palette's end, which are black";
    return {0, 0, 0};
  }

  [[nodiscard]] const std::string& remark() const { return remark_; }

 private:
  Rgb packed(const uint8_t* row, int64_t x) {
    const int64_t bit = x * header_.depth;
    const int64_t most = (int64_t{1} << header_.depth) - 1;
    const int64_t value = row[bit / 8] >> (8 - header_.depth - bit % 8) & most;
    if (header_.colour == 3) return entry(value);
    const auto level = static_cast<uint8_t>(value * 255 / most);
    return {level, level, level};
  }

  Rgb clipped(const uint8_t* sample) {
    if (sample[0] == 0) return {sample[1], sample[1], sample[1]};
    if (remark_.empty())
      remark_ = "16-bit gray above 255, which is cut off to white as Pillow does";
    return {255, 255, 255};
  }

  const Header& header_;
  FileBytes palette_;
  std::string remark_;
};

/// Places the pixels of one pass, of which the first of the image comes to `corner`, and returns
/// how many bytes of `rows` it took.
size_t place_pass(const Header& header, const Pass& pass, int64_t corner, std::span<uint8_t> rows,
                  Colours& colours, Picture& picture) {
  const int64_t columns = pass.columns(header);
  const auto bytes = static_cast<size_t>(header.row_bytes(columns));
  const auto step = static_cast<size_t>(std::max<int64_t>(1, header.row_bytes(1)));
  const std::vector<uint8_t> zeros(bytes);
  FileBytes above(zeros);
  size_t at = 0;
  for (int64_t y = pass.y; y < header.height; y += pass.dy, at += bytes + 1) {
    const std::span<uint8_t> row = rows.subspan(at + 1, bytes);
    unfilter(rows[at], row, above, step);
    for (int64_t i = 0; i < columns; ++i) {
      const Rgb rgb = colours.pixel(row.data(), i);
      const int64_t x = pass.x + i * pass.dx;
      std::copy(rgb.begin(), rgb.end(),
                picture.pixels.begin() + 3 * (corner + y * picture.width + x));
    }
    above = row;
  }
  return at;
}

/// The header of the pixels, which are as many as their frame has.
Header header_of_pixels(const Parts& parts) {
  Header header = *parts.header;
  check_size(header.width, header.height);
  if (!parts.frame) return header;
  const Frame& frame = *parts.frame;
  const bool inside =
      frame.x + frame.width <= header.width && frame.y + frame.height <= header.height;
  if (!inside || frame.width < 1 || frame.height < 1) {
    throw ImageError("PNG animation whose first frame is no part of the image");
  }
  header.width = frame.width;
  header.height = frame.height;
  return header;
}

/// Makes the image around its pixels: nothing where they fill it, else the first colour. Returns
/// where the pixels begin; Pillow places interlaced ones at the corner, whatever the frame says.
int64_t place_frame(const Parts& parts, Colours& colours, DecodedImage& image) {
  Picture& picture = image.picture;
  picture = new_picture(parts.header->width, parts.header->height);
  if (!parts.frame ||
      (parts.frame->width == picture.width && parts.frame->height == picture.height)) {
    return 0;
  }
  add_remark(image.remark, "an animation whose first frame does not fill the image");
  if (parts.header->colour == 3) {
    const Rgb first = colours.entry(0);
    for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = first[i % 3];
  }
  return parts.header->interlaced ? 0 : parts.frame->y * picture.width + parts.frame->x;
}

}  // namespace

DecodedImage decode_png(std::span<const uint8_t> bytes) {
  const Parts parts = read_parts(bytes);
  const Header header = header_of_pixels(parts);
  DecodedImage image{{}, header.colour == 0 || header.colour == 4 ? 1 : 3, parts.remark};
  const std::vector<Pass> passes = passes_of(header);
  int64_t count = 0;
  for (const Pass& pass : passes) {
    count += pass.rows(header) * (1 + header.row_bytes(pass.columns(header)));
  }
  std::vector<uint8_t> rows = inflate_bytes(parts, count, image.remark);
  Colours colours(header, parts.palette.value_or(FileBytes{}));
  const int64_t corner = place_frame(parts, colours, image);
  size_t at = 0;
  for (const Pass& pass : passes) {
    at += place_pass(header, pass, corner, std::span(rows).subspan(at), colours, image.picture);
  }
  if (!colours.remark().empty()) add_remark(image.remark, colours.remark());
  return image;
}

}  // namespace noisemark::suite::detail
