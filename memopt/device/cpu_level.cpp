#include "memopt/device/cpu_level.h"

#include <ATen/Version.h>

#include <string>

namespace noisemark::memopt {
namespace {

CpuLevel level_named(const std::string& capability) {
#ifdef __x86_64__
  if (capability == "AVX512") return CpuLevel::kAvx512;
  if (capability == "AVX2") return CpuLevel::kAvx2;
#endif
  (void)capability;
  return CpuLevel::kDefault;
}

}  // namespace

CpuLevel current_cpu_level() {
  static const CpuLevel level = level_named(at::get_cpu_capability());
  return level;
}

}  // namespace noisemark::memopt
