#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

/// Whether a GPU's columns say what is known of loads that are made for it.
namespace noisemark::suite {

enum class CalibrationLoad : uint8_t {
  kIdle,
  kCopy,          ///< a kernel that reads and writes memory
  kProduct,       ///< large matrix products in bf16, by the tensor cores
  kHalfProduct,   ///< the same in fp16
  kFloatProduct,  ///< in fp32 without tf32, by the multiprocessors' own pipes
};

/// In the order in which they are made.
[[nodiscard]] const std::vector<CalibrationLoad>& calibration_loads();

[[nodiscard]] std::string_view load_name(CalibrationLoad load);

struct CalibrationRow {
  CalibrationLoad load = CalibrationLoad::kIdle;
  reports::DeviceUse use;
};

/// One thing that must hold of a load's columns.
struct CalibrationCheck {
  std::string what;           ///< "product: tensor active is at least 80 %"
  std::optional<bool> holds;  ///< empty: a column is missing
  std::string found;          ///< the values, or the reason
};

/// What must hold: products in bf16 and fp16 keep the tensor cores busy, those in fp32 the pipes of
/// fp32 and no tensor core, a copy the memory and no tensor core, an idle GPU nothing; two sources
/// of busy time, and two of every share that both define alike, agree within two points. Of loads
/// that are not among `rows` nothing is said.
[[nodiscard]] std::vector<CalibrationCheck> check_columns(const std::vector<CalibrationRow>& rows);

/// As Markdown: every column of every load, and the checks.
[[nodiscard]] std::string calibration_text(const std::vector<CalibrationRow>& rows,
                                           const std::vector<CalibrationCheck>& checks);

}  // namespace noisemark::suite
