#pragma once

#include <cstdint>

namespace noisemark::memopt {

/// Instruction sets that kernels are compiled for, slowest first, as ATen divides them.
enum class CpuLevel : uint8_t { kDefault, kAvx2, kAvx512 };

/// The level of ATen's own kernels in this process (so ATEN_CPU_CAPABILITY applies to both).
[[nodiscard]] CpuLevel current_cpu_level();

}  // namespace noisemark::memopt
