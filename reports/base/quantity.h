#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The only place where a number of base units becomes text for people. Digits are fixed per
/// function, so that a changed digit in a diff is a changed value; never locale dependent.
namespace noisemark::reports {

[[nodiscard]] std::string format_count(int64_t count);  ///< "35,746,307"
/// "1 run", "2,000 runs": `one` is the singular.
[[nodiscard]] std::string format_counted(int64_t count, std::string_view one);
[[nodiscard]] std::string format_bytes(int64_t bytes);        ///< "0 B", "12.50 KiB", "204.94 MiB"
[[nodiscard]] std::string format_mib(int64_t bytes);          ///< "204.94", for columns in MiB
[[nodiscard]] std::string format_exact_bytes(int64_t bytes);  ///< "214,900,736 B"
[[nodiscard]] std::string format_seconds(double seconds);  ///< "1.23 s", "45.60 ms", "3 min 05 s"
[[nodiscard]] std::string format_ms(double seconds);       ///< "45.600", for columns in ms
[[nodiscard]] std::string format_per_s(double per_s);      ///< "16.38", without the unit
[[nodiscard]] std::string format_flop(double flop);        ///< "6.02 GFLOP"
[[nodiscard]] std::string format_flop_per_s(double flop_per_s);  ///< "351.92 GFLOP/s"
[[nodiscard]] std::string format_percent(double frac);           ///< 0.123 -> "12.3 %"
[[nodiscard]] std::string format_number(double value);  ///< six significant digits: "0.0312345"

/// Two significant digits: "0.012"; empty without a value.
[[nodiscard]] std::string format_p_value(std::optional<double> p);

/// A value in a unit of result.json: "bytes", "s", "frac", "FLOP", "FLOP/s", "count", "1/s"; any
/// other unit ("images/s") is appended to format_number as it is, and "" or "1" means a plain
/// number.
[[nodiscard]] std::string format_quantity(double value, std::string_view unit);
/// Returns format_quantity() of a value, and kMissing without one.
[[nodiscard]] std::string quantity_cell(std::optional<double> value, std::string_view unit);

/// The time of day as results carry it: "2026-01-31T23:59:59Z"; `ahead` of now.
[[nodiscard]] std::string utc_now(std::chrono::seconds ahead = {});

/// Returns whether `text` is such a time, of a day that there is; a fraction of a second may
/// follow.
[[nodiscard]] bool is_utc(std::string_view text);
inline constexpr const char* kTimeForm = "a time like 2026-01-02T03:04:05Z";

/// Returns whether `word` is a unit of this file, of a metric or of a device, with its prefix:
/// "MiB", "ms", "%", "GFLOP/s", "images/s".
[[nodiscard]] bool is_unit(std::string_view word);

}  // namespace noisemark::reports
