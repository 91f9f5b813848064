#include "reports/export/xml_text.h"

#include <cstdint>

namespace noisemark::reports {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// How many bytes the character at the beginning takes; 0 when they are not UTF-8 of a character
/// that XML 1.0 may hold.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r' ? 1 : 0;
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  uint32_t point = lead & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    point = point << 6U | (byte(i) & 0x3FU);
  }
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  const bool none = point == 0xFFFE || point == 0xFFFF;
  return point < kLeast[size] || point > 0x10FFFF || surrogate || none ? 0 : size;
}

std::string_view reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\t':
      return "&#9;";
    case '\n':
      return "&#10;";
    case '\r':
      return "&#13;";
    default:
      return "";
  }
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string xml;
  while (!text.empty()) {
    const size_t size = character_size(text);
    const std::string_view known = size == 1 ? reference(text[0]) : "";
    if (size == 0) {
      xml += kReplacement;
    } else {
      xml += known.empty() ? text.substr(0, size) : known;
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return xml;
}

}  // namespace noisemark::reports
