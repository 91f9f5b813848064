#include "memopt/treatment/kernels/norm_chain.h"

namespace noisemark::memopt::replay {

namespace level_default {
extern const NormChainKernels kNormChain;
}  // namespace level_default

#ifdef NOISEMARK_X86_LEVELS
namespace level_avx2 {
extern const NormChainKernels kNormChain;
}  // namespace level_avx2
namespace level_avx512 {
extern const NormChainKernels kNormChain;
}  // namespace level_avx512
#endif

const NormChainKernels& norm_chain_kernels(CpuLevel level) {
#ifdef NOISEMARK_X86_LEVELS
  if (level == CpuLevel::kAvx512) return level_avx512::kNormChain;
  if (level == CpuLevel::kAvx2) return level_avx2::kNormChain;
#endif
  (void)level;
  return level_default::kNormChain;
}

}  // namespace noisemark::memopt::replay
