#pragma once

#include <array>
#include <string_view>

/// The one table of the units that stand behind numbers for people.
namespace noisemark::reports {

inline constexpr std::array kDecimalPrefixes{"", "k", "M", "G", "T", "P", "E"};
inline constexpr std::array kBinaryPrefixes{"", "Ki", "Mi", "Gi", "Ti", "Pi"};
inline constexpr std::array kUnitsWithDecimalPrefix{"FLOP", "B", "Hz"};
inline constexpr std::array kUnitsWithoutPrefix{"%",     "min",    "s", "ms", "us", "ns",
                                                "bytes", "images", "J", "W",  "C"};

/// Returns whether `word` is a unit of quantity.h, of a metric or of a device, with its prefix:
/// "MiB", "ms", "%", "GFLOP/s", "images/s".
[[nodiscard]] bool is_unit(std::string_view word);

}  // namespace noisemark::reports
