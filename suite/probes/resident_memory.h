#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace noisemark::suite {

/// Resident memory of this process as the kernel counts it.
struct ResidentMemory {
  int64_t peak_bytes = 0;  ///< high-water mark since reset_resident_peak()
  int64_t file_bytes = 0;  ///< of what is resident now: mapped files, programs and libraries
};

/// Starts the high-water mark anew. Returns why it could not, empty on success.
[[nodiscard]] std::string reset_resident_peak();

/// The figures, or why they cannot be had.
[[nodiscard]] std::variant<ResidentMemory, std::string> read_resident_memory();

}  // namespace noisemark::suite
