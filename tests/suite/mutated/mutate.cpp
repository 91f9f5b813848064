#include "tests/suite/mutated/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "reports/base/sha256.h"

namespace noisemark::suite::test {
namespace {

using Json = nlohmann::ordered_json;

struct Range {
  size_t begin = 0;
  size_t count = 0;
};

/// Mostly short, at times most of the file.
Range any_range(const std::string& bytes, Random& random) {
  const size_t begin = below(bytes.size(), random);
  const size_t rest = bytes.size() - begin;
  return {begin, 1 + below(random() % 4 == 0 ? rest : std::min<size_t>(rest, 16), random)};
}

void flip_bit(std::string& bytes, Random& random) {
  bytes[below(bytes.size(), random)] ^= static_cast<char>(1U << below(8, random));
}

void set_byte(std::string& bytes, Random& random) {
  bytes[below(bytes.size(), random)] = static_cast<char>(random());
}

void cut_off(std::string& bytes, Random& random) {
  bytes.resize(below(bytes.size(), random));
}

void lose(std::string& bytes, Random& random) {
  const Range range = any_range(bytes, random);
  bytes.erase(range.begin, range.count);
}

void repeat(std::string& bytes, Random& random) {
  const Range range = any_range(bytes, random);
  bytes.insert(range.begin, bytes.substr(range.begin, range.count));
}

void zero(std::string& bytes, Random& random) {
  const Range range = any_range(bytes, random);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(range.begin), range.count, '\0');
}

void move_elsewhere(std::string& bytes, Random& random) {
  const Range range = any_range(bytes, random);
  const std::string moved = bytes.substr(range.begin, range.count);
  bytes.erase(range.begin, range.count);
  bytes.insert(below(bytes.size() + 1, random), moved);
}

void add_noise(std::string& bytes, Random& random) {
  std::string noise;
  for (size_t i = 0; i < 1 + below(8, random); ++i) noise += static_cast<char>(random());
  bytes.insert(below(bytes.size() + 1, random), noise);
}

void set_integer(std::string& bytes, Random& random) {
  constexpr std::array<uint64_t, 8> kLimits = {
      0, 1, 0x7f, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX, uint64_t{1} << 62U};
  const uint64_t value = kLimits[below(kLimits.size(), random)];
  const size_t width = size_t{1} << below(4, random);
  const size_t begin = below(bytes.size(), random);
  const bool big_endian = random() % 2 == 0;
  for (size_t i = 0; i < width && begin + i < bytes.size(); ++i) {
    const size_t shift = 8 * (big_endian ? width - 1 - i : i);
    bytes[begin + i] = static_cast<char>(value >> shift);
  }
}

using Accident = void (*)(std::string&, Random&);
constexpr std::array<Accident, 9> kAccidents = {
    flip_bit, set_byte, cut_off, lose, repeat, zero, move_elsewhere, add_noise, set_integer};

constexpr std::array<std::string_view, 22> kWords = {"-1",
                                                     "0",
                                                     "1e999",
                                                     "-0.0",
                                                     "nan",
                                                     "18446744073709551616",
                                                     "9223372036854775807",
                                                     "0.1e-400",
                                                     "\"\"",
                                                     "null",
                                                     "true",
                                                     "[]",
                                                     "{}",
                                                     "[[[[[[[[",
                                                     "\"\\u0000\"",
                                                     "\"\xff\xfe\"",
                                                     "..",
                                                     "/",
                                                     "\"a:b\"",
                                                     "1_000",
                                                     "0x10",
                                                     "99999999999999999999999999"};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '+' ||
         c == '_';
}

void replace_word(std::string& text, Random& random) {
  size_t begin = below(text.size(), random);
  while (begin < text.size() && !is_word(text[begin])) ++begin;
  size_t end = begin;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  while (end < text.size() && is_word(text[end])) ++end;
  text.replace(begin, end - begin, kWords[below(kWords.size(), random)]);
}

/// Leaves the text as other systems' editors do: a mark of the byte order before it, or their line
/// ends.
void save_elsewhere(std::string& text, Random& random) {
  if (random() % 2 == 0) {
    text = "\xef\xbb\xbf" + text;
    return;
  }
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2)) {
    text.replace(at, 1, "\r\n");
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines{""};
  for (const char c : text) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  return lines;
}

void disturb_lines(std::string& text, Random& random) {
  std::vector<std::string> lines = lines_of(text);
  const size_t one = below(lines.size(), random);
  const size_t other = below(lines.size(), random);
  switch (random() % 3) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(one));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(other), lines[one]);
      break;
    default:
      std::swap(lines[one], lines[other]);
  }
  text.clear();
  for (const std::string& line : lines) text += line;
}

/// Every value of the document with the one that holds it.
void collect(Json& json, std::vector<Json*>& containers) {
  if (!json.is_structured()) return;
  if (!json.empty()) containers.push_back(&json);
  for (Json& entry : json) collect(entry, containers);
}

Json strange_value(const Json& old, Random& random) {
  const std::array<Json, 16> values = {
      Json(nullptr), Json(true),     Json(-1),        Json(0),          Json(1e308),
      Json(0.5),     Json(""),       Json("strange"), Json("a\nb"),     Json("../"),
      Json::array(), Json::object(), Json(INT64_MAX), Json(UINT64_MAX), Json(std::string(300, 'x')),
      Json(-1e-300)};
  if (random() % 2 != 0) return values[below(values.size(), random)];
  if (old.is_number_integer()) return old.get<int64_t>() + (random() % 2 == 0 ? 1 : -1);
  if (old.is_number()) return -old.get<double>();
  if (old.is_string()) return old.get<std::string>() + "x";
  return values[below(values.size(), random)];
}

void disturb(Json& container, Random& random) {
  const size_t place = below(container.size(), random);
  auto entry = container.begin();
  std::advance(entry, static_cast<std::ptrdiff_t>(place));
  switch (random() % 4) {
    case 0:
      container.erase(entry);
      break;
    case 1:
      if (container.is_object()) {
        container["strange"] = *entry;
      } else {
        container.push_back(*entry);
      }
      break;
    default:
      *entry = strange_value(*entry, random);
  }
}

void disturb_anywhere(Json& json, Random& random) {
  for (size_t times = 1 + below(3, random); times > 0; --times) {
    std::vector<Json*> containers;
    collect(json, containers);
    if (!containers.empty()) disturb(*containers[below(containers.size(), random)], random);
  }
}

std::string sealed(Json json) {
  if (!json.is_object() || !json.contains("checksum")) return json.dump(1) + "\n";
  const std::string zeros(64, '0');
  json["checksum"] = zeros;
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string key = "\"checksum\": \"";
  return text.replace(text.find(key) + key.size(), zeros.size(), reports::sha256_of(text));
}

}  // namespace

std::string mutated_bytes(const std::string& good, Random& random) {
  std::string bytes = good;
  const size_t accidents = 1 + below(3, random);
  for (size_t i = 0; i < accidents && !bytes.empty(); ++i) {
    kAccidents[below(kAccidents.size(), random)](bytes, random);
  }
  return bytes;
}

std::string mutated_text(const std::string& good, Random& random) {
  std::string text = good;
  const size_t accidents = 1 + below(3, random);
  for (size_t i = 0; i < accidents && !text.empty(); ++i) {
    switch (random() % 16) {
      case 0:
        save_elsewhere(text, random);
        break;
      case 1:
      case 2:
      case 3:
        disturb_lines(text, random);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        kAccidents[below(kAccidents.size(), random)](text, random);
        break;
      default:
        replace_word(text, random);
    }
  }
  return text;
}

std::string mutated_json(const std::string& text, Random& random) {
  Json json = Json::parse(text);
  disturb_anywhere(json, random);
  return sealed(std::move(json));
}

}  // namespace noisemark::suite::test
