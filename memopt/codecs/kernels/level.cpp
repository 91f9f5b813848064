#include "memopt/codecs/kernels/kernels.h"
#include "memopt/device/cpu_level.h"

namespace noisemark::memopt::codecs {

NOISEMARK_CHOOSE_KERNELS(FieldKernels, kFields, field_kernels)
NOISEMARK_CHOOSE_KERNELS(GroupKernels, kGroups, group_kernels)
NOISEMARK_CHOOSE_KERNELS(SparseKernels, kSparse, sparse_kernels)
NOISEMARK_CHOOSE_KERNELS(SearchKernels, kSearch, search_kernels)

namespace {

Kernels all_of(Level level) {
  return {field_kernels(level), group_kernels(level), sparse_kernels(level), search_kernels(level)};
}

}  // namespace

const Kernels& kernels_of(Level level) {
  static const Kernels plain = all_of(Level::kDefault);
  static const Kernels avx2 = all_of(Level::kAvx2);
  static const Kernels avx512 = all_of(Level::kAvx512);
  if (level == Level::kAvx512) return avx512;
  return level == Level::kAvx2 ? avx2 : plain;
}

}  // namespace noisemark::memopt::codecs
