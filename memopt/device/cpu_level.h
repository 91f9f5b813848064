#pragma once

#include <cstdint>

namespace noisemark::memopt {

/// Instruction sets that kernels are compiled for, slowest first, as ATen divides them.
enum class CpuLevel : uint8_t { kDefault, kAvx2, kAvx512 };

/// The level of ATen's own kernels in this process (so ATEN_CPU_CAPABILITY applies to both).
[[nodiscard]] CpuLevel current_cpu_level();

}  // namespace noisemark::memopt

/// Declares `name` of every instruction set that noisemark_kernels() compiles it for
/// (containers/cmake/targets.cmake), each in a namespace of its own, and defines `chooser`, which
/// returns that of a level. A level that this build lacks gets the slowest.
#ifdef NOISEMARK_X86_LEVELS
#define NOISEMARK_CHOOSE_KERNELS(type, name, chooser)               \
  namespace level_default {                                         \
  extern const type name;                                           \
  }                                                                 \
  namespace level_avx2 {                                            \
  extern const type name;                                           \
  }                                                                 \
  namespace level_avx512 {                                          \
  extern const type name;                                           \
  }                                                                 \
  const type& chooser(::noisemark::memopt::CpuLevel level) {        \
    using enum ::noisemark::memopt::CpuLevel;                       \
    if (level == kAvx512) return level_avx512::name;                \
    return level == kAvx2 ? level_avx2::name : level_default::name; \
  }
#else
#define NOISEMARK_CHOOSE_KERNELS(type, name, chooser)            \
  namespace level_default {                                      \
  extern const type name;                                        \
  }                                                              \
  const type& chooser(::noisemark::memopt::CpuLevel /*level*/) { \
    return level_default::name;                                  \
  }
#endif
