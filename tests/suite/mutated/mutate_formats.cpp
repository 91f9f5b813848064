#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tests/suite/mutated/mutate.h"

namespace noisemark::suite::test {
namespace {

using Parts = std::vector<std::string>;

uint64_t number_at(std::string_view bytes, size_t begin, size_t width, bool big_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[begin + (big_endian ? i : width - 1 - i)]);
    value = value << 8U | byte;
  }
  return value;
}

std::string number(uint64_t value, size_t width, bool big_endian) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) {
    bytes += static_cast<char>(value >> 8 * (big_endian ? width - 1 - i : i));
  }
  return bytes;
}

/// Parts go, double or change places, or `inside` changes one.
template <typename Inside>
void disturb_parts(Parts& parts, Random& random, const Inside& inside) {
  for (size_t times = 1 + below(3, random); times > 0 && !parts.empty(); --times) {
    const size_t one = below(parts.size(), random);
    const size_t other = below(parts.size(), random);
    switch (random() % 8) {
      case 0:
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(one));
        break;
      case 1:
        parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(other), std::string(parts[one]));
        break;
      case 2:
        std::swap(parts[one], parts[other]);
        break;
      default:
        parts[one] = inside(parts[one]);
    }
  }
}

std::string inflated(const std::string& bytes) {
  std::string out(1U << 20U, '\0');
  uLongf size = out.size();
  const auto* from = reinterpret_cast<const Bytef*>(bytes.data());
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &size, from, bytes.size()) != Z_OK) {
    return "";
  }
  out.resize(size);
  return out;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const auto* from = reinterpret_cast<const Bytef*>(bytes.data());
  compress(reinterpret_cast<Bytef*>(out.data()), &size, from, bytes.size());
  out.resize(size);
  return out;
}

uint32_t crc_of(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";

/// A chunk is its type of four letters and its data.
std::string png_of(const Parts& chunks) {
  std::string png(kSignature);
  for (const std::string& chunk : chunks) {
    png += number(chunk.size() - 4, 4, true) + chunk + number(crc_of(chunk), 4, true);
  }
  return png;
}

std::string disturbed_chunk(const std::string& chunk, Random& random) {
  const std::string type = chunk.substr(0, 4);
  const std::string data = chunk.substr(4);
  if (data.empty()) return type + mutated_bytes(std::string(4, '\0'), random);
  if (type != "IDAT" || random() % 4 == 0) return type + mutated_bytes(data, random);
  return type + deflated(mutated_bytes(inflated(data), random));
}

/// Shapes that others write of the same numbers, and that few readers think of.
constexpr std::array<std::string_view, 24> kValues = {
    "0",    "1",      "2",     "3",     "-1",    "7",          "1e-3",       "0.5",
    "1e30", "-0.0",   "nan",   "inf",   "true",  "false",      "\"\"",       "\"none\"",
    "[]",   "[1, 2]", "\"a\"", "[0.1]", "1_000", "2147483648", "[\"fp32\"]", "{ a = 1 }"};

}  // namespace

std::string mutated_values(const std::string& text, Random& random) {
  std::vector<std::pair<size_t, size_t>> values;  // begin and end, without the line's comment
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t equals = text.find('=', begin);
    if (text[begin] != '#' && equals < end) {
      values.emplace_back(equals + 1, std::min(text.find('#', equals), end));
    }
    begin = end + 1;
  }
  std::string changed = text;
  const size_t one = below(values.size(), random);
  const auto [begin, end] = values[one];
  const auto [from, to] = values[below(values.size(), random)];
  const std::string value = random() % 4 == 0 ? text.substr(from, to - from)
                                              : std::string(kValues[below(kValues.size(), random)]);
  return changed.replace(begin, end - begin, " " + value + " ");
}

std::string mutated_png(const std::string& bytes, Random& random) {
  Parts chunks;
  for (size_t at = kSignature.size(); at + 12 <= bytes.size();) {
    const size_t length = number_at(bytes, at, 4, true);
    chunks.push_back(bytes.substr(at + 4, 4 + length));
    at += 12 + length;
  }
  disturb_parts(chunks, random,
                [&](const std::string& chunk) { return disturbed_chunk(chunk, random); });
  return png_of(chunks);
}

std::string interlaced_png() {
  constexpr size_t kSide = 16;
  constexpr size_t kPasses = 158;  // bytes of the seven passes, each row with its filter
  const std::string size = number(kSide, 4, true) + number(kSide, 4, true);
  return png_of({"IHDR" + size + std::string("\4\3\0\0\1", 5), "PLTEabcdefghijkl",
                 "tRNS" + std::string("\0\x80\xff", 3),
                 "IDAT" + deflated(std::string(kPasses, '\0')), "IEND"});
}

std::string mutated_jpeg(const std::string& bytes, Random& random) {
  Parts segments;  // a marker and what its length covers; the last one has all pixels
  size_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at + 1] != '\xda') {
    const size_t length = number_at(bytes, at + 2, 2, true);
    segments.push_back(bytes.substr(at, 2) + bytes.substr(at + 4, length - 2));
    at += 2 + length;
  }
  std::string pixels = bytes.substr(at);
  if (random() % 4 == 0) {
    pixels = mutated_bytes(pixels, random);
  } else {
    disturb_parts(segments, random, [&](const std::string& segment) {
      return segment.substr(0, 2) + mutated_bytes(segment.substr(2), random);
    });
  }
  std::string jpeg = bytes.substr(0, 2);
  for (const std::string& segment : segments) {
    jpeg += segment.substr(0, 2) + number(segment.size(), 2, true) + segment.substr(2);
  }
  return jpeg + pixels;
}

std::string mutated_npy(const std::string& bytes, Random& random) {
  constexpr size_t kHeader = 10;
  const size_t length = number_at(bytes, 8, 2, false);
  std::string header = bytes.substr(kHeader, length);
  std::string data = bytes.substr(kHeader + length);
  if (random() % 3 == 0) {
    data = mutated_bytes(data, random);
  } else {
    header = mutated_text(header, random);
  }
  return bytes.substr(0, 8) + number(header.size(), 2, false) + header + data;
}

std::string mutated_npz(const std::string& bytes, Random& random) {
  Parts names;
  Parts members;
  for (size_t at = 0; bytes.compare(at, 4, "PK\x03\x04") == 0;) {
    const size_t size = number_at(bytes, at + 18, 4, false);
    const size_t name_size = number_at(bytes, at + 26, 2, false);
    const size_t begin = at + 30 + name_size + number_at(bytes, at + 28, 2, false);
    names.push_back(bytes.substr(at + 30, name_size));
    members.push_back(bytes.substr(begin, size));
    at = begin + size;
  }
  const size_t changed = below(members.size(), random);
  members[changed] = mutated_npy(members[changed], random);
  if (random() % 4 == 0) std::swap(names.front(), names.back());
  if (random() % 4 == 0) names.back() = mutated_text(names.back(), random);
  std::string zip;
  std::string directory;
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string sizes = number(crc_of(members[i]), 4, false) +
                              number(members[i].size(), 4, false) +
                              number(members[i].size(), 4, false) +
                              number(names[i].size(), 2, false) + number(0, 2, false);
    const std::string version = number(20, 2, false) + number(0, 2, false) + number(0, 2, false) +
                                number(0, 4, false);  // no flags, stored, no time
    directory += "PK\x01\x02" + number(20, 2, false) + version + sizes + number(0, 2, false) +
                 number(0, 2, false) + number(0, 2, false) + number(0, 4, false) +
                 number(zip.size(), 4, false) + names[i];
    zip += "PK\x03\x04" + version + sizes + names[i] + members[i];
  }
  const std::string counts = number(members.size(), 2, false) + number(members.size(), 2, false);
  return zip + directory + "PK\x05\x06" + number(0, 4, false) + counts +
         number(directory.size(), 4, false) + number(zip.size(), 4, false) + number(0, 2, false);
}

std::string mutated_safetensors(const std::string& bytes, Random& random) {
  const size_t length = number_at(bytes, 0, 8, false);
  std::string header = bytes.substr(8, length);
  std::string data = bytes.substr(8 + length);
  if (random() % 4 == 0) {
    data = mutated_bytes(data, random);
  } else {
    header = mutated_json(header, random);
  }
  return number(header.size(), 8, false) + header + data;
}

}  // namespace noisemark::suite::test
