#include "reports/base/quantity.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "reports/base/markdown.h"

namespace noisemark::reports {
namespace {

/// The units that stand behind numbers for people.
constexpr std::array kDecimalPrefixes{"", "k", "M", "G", "T", "P", "E"};
constexpr std::array kBinaryPrefixes{"", "Ki", "Mi", "Gi", "Ti", "Pi"};
constexpr std::array kUnitsWithDecimalPrefix{"FLOP", "B", "Hz"};
constexpr std::array kUnitsWithoutPrefix{"%",     "min",    "s", "ms", "us", "ns",
                                         "bytes", "images", "J", "W",  "C"};

constexpr double kKibi = 1024;

// Two decimals of value / base^k under the k-th prefix, the largest that leaves at least 1.
template <size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& prefixes,
                   const char* unit) {
  size_t prefix = 0;
  while (prefix + 1 < N && std::abs(value) >= base) {
    value /= base;
    ++prefix;
  }
  return fmt::format("{:.2f} {}{}", value, prefixes[prefix], unit);
}

template <size_t N>
bool is_prefixed(std::string_view word, const std::array<const char*, N>& prefixes,
                 std::string_view unit) {
  if (!word.ends_with(unit)) return false;
  word.remove_suffix(unit.size());
  return std::find(prefixes.begin(), prefixes.end(), word) != prefixes.end();
}

}  // namespace

std::string format_count(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t place = digits.size(); place > first + 3;) {
    place -= 3;
    digits.insert(place, 1, ',');
  }
  return digits;
}

std::string format_counted(int64_t count, std::string_view one) {
  const std::string_view ending = count == 1 ? "" : one.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", format_count(count), one, ending);
}

std::string format_bytes(int64_t bytes) {
  if (std::abs(static_cast<double>(bytes)) < kKibi) return fmt::format("{} B", bytes);
  return scaled(static_cast<double>(bytes), kKibi, kBinaryPrefixes, "B");
}

std::string format_mib(int64_t bytes) {
  const std::string text = fmt::format("{:.2f}", static_cast<double>(bytes) / (kKibi * kKibi));
  return text == "-0.00" ? "0.00" : text;
}

std::string format_exact_bytes(int64_t bytes) {
  return format_count(bytes) + " B";
}

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 120) {
    const int64_t whole = std::llround(seconds);
    return fmt::format("{} min {:02} s", whole / 60, std::abs(whole % 60));
  }
  if (size >= 1) return fmt::format("{:.2f} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (size >= 1e-6) return fmt::format("{:.2f} us", seconds * 1e6);
  return size == 0 ? "0 s" : fmt::format("{:.2f} ns", seconds * 1e9);
}

std::string format_ms(double seconds) {
  return fmt::format("{:.3f}", seconds * 1e3);
}

std::string format_per_s(double per_s) {
  return fmt::format("{:.2f}", per_s);
}

std::string format_flop(double flop) {
  return scaled(flop, 1000, kDecimalPrefixes, "FLOP");
}

std::string format_flop_per_s(double flop_per_s) {
  return scaled(flop_per_s, 1000, kDecimalPrefixes, "FLOP/s");
}

std::string format_percent(double frac) {
  return fmt::format("{:.1f} %", 100 * frac);
}

std::string format_number(double value) {
  return fmt::format("{:.6g}", value);
}

std::string format_p_value(std::optional<double> p) {
  return p ? fmt::format("{:.2g}", *p) : "";
}

std::string format_quantity(double value, std::string_view unit) {
  if (unit == "bytes") return format_bytes(std::llround(value));
  if (unit == "s") return format_seconds(value);
  if (unit == "frac") return format_percent(value);
  if (unit == "FLOP") return format_flop(value);
  if (unit == "FLOP/s") return format_flop_per_s(value);
  if (unit == "1/s") return format_per_s(value) + " /s";
  if (unit == "count") return format_count(std::llround(value));
  if (unit.empty() || unit == "1") return format_number(value);
  return format_number(value) + " " + std::string(unit);
}

std::string quantity_cell(std::optional<double> value, std::string_view unit) {
  return value ? format_quantity(*value, unit) : std::string(kMissing);
}

std::string utc_now(std::chrono::seconds ahead) {
  const std::time_t time = std::time(nullptr) + ahead.count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

bool is_utc(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() <= kShape.size() || text.back() != 'Z') return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(text[i]) : text[i] != kShape[i]) return false;
  }
  const std::string_view fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  const bool digits =
      std::all_of(fraction.begin() + (fraction.empty() ? 0 : 1), fraction.end(), is_digit);
  if (!fraction.empty() && (fraction.front() != '.' || fraction.size() < 2 || !digits)) {
    return false;
  }
  const auto part = [&](size_t at) { return (text[at] - '0') * 10 + (text[at + 1] - '0'); };
  const std::chrono::year year(part(0) * 100 + part(2));
  const std::chrono::month month(static_cast<unsigned>(part(5)));
  const std::chrono::day day(static_cast<unsigned>(part(8)));
  return (year / month / day).ok() && part(11) <= 23 && part(14) <= 59 && part(17) <= 60;
}

bool is_unit(std::string_view word) {
  const std::string_view unit = word.substr(0, word.find('/'));
  if (unit.empty()) return word == "/s";
  const auto& bare = kUnitsWithoutPrefix;
  return std::find(bare.begin(), bare.end(), unit) != bare.end() ||
         is_prefixed(unit, kBinaryPrefixes, "B") ||
         std::any_of(
             kUnitsWithDecimalPrefix.begin(), kUnitsWithDecimalPrefix.end(),
             [&](const char* scaled) { return is_prefixed(unit, kDecimalPrefixes, scaled); });
}

}  // namespace noisemark::reports
