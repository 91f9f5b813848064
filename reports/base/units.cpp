#include "reports/base/units.h"

#include <algorithm>

namespace noisemark::reports {
namespace {

template <size_t N>
bool is_prefixed(std::string_view word, const std::array<const char*, N>& prefixes,
                 std::string_view unit) {
  if (!word.ends_with(unit)) return false;
  word.remove_suffix(unit.size());
  return std::find(prefixes.begin(), prefixes.end(), word) != prefixes.end();
}

}  // namespace

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
