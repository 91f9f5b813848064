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
  kCopy,     ///< memory to memory on the device
  kProduct,  ///< large matrix products in bf16
};

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

/// What must hold: a product keeps the tensor cores busy, a copy the memory and not the tensor
/// cores, an idle GPU neither, and two sources of busy time agree within two points. Of loads that
/// are not among `rows` nothing is said.
[[nodiscard]] std::vector<CalibrationCheck> check_columns(const std::vector<CalibrationRow>& rows);

/// As Markdown: every column of every load, and the checks.
[[nodiscard]] std::string calibration_text(const std::vector<CalibrationRow>& rows,
                                           const std::vector<CalibrationCheck>& checks);

}  // namespace noisemark::suite
