#include "memopt/codecs/kernels/kernels.h"

namespace noisemark::memopt::codecs {

namespace level_default {
extern const FieldKernels kFields;
extern const GroupKernels kGroups;
extern const SparseKernels kSparse;
extern const SearchKernels kSearch;
}  // namespace level_default

#ifdef NOISEMARK_X86_LEVELS
namespace level_avx2 {
extern const FieldKernels kFields;
extern const GroupKernels kGroups;
extern const SparseKernels kSparse;
extern const SearchKernels kSearch;
}  // namespace level_avx2
namespace level_avx512 {
extern const FieldKernels kFields;
extern const GroupKernels kGroups;
extern const SparseKernels kSparse;
extern const SearchKernels kSearch;
}  // namespace level_avx512
#endif

const Kernels& kernels_of(Level level) {
#ifdef NOISEMARK_X86_LEVELS
  static const Kernels avx512{level_avx512::kFields, level_avx512::kGroups, level_avx512::kSparse,
                              level_avx512::kSearch};
  static const Kernels avx2{level_avx2::kFields, level_avx2::kGroups, level_avx2::kSparse,
                            level_avx2::kSearch};
  if (level == Level::kAvx512) return avx512;
  if (level == Level::kAvx2) return avx2;
#endif
  static const Kernels plain{level_default::kFields, level_default::kGroups, level_default::kSparse,
                             level_default::kSearch};
  (void)level;
  return plain;
}

}  // namespace noisemark::memopt::codecs
