#include "baselines/kernels/attention.h"
#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"

namespace noisemark::baselines::kernels {

namespace level_default {
extern const AttentionKernels kAttention;
extern const GroupNormKernels kGroupNorm;
extern const RmsNormKernels kRmsNorm;
}  // namespace level_default

#ifdef NOISEMARK_X86_LEVELS
namespace level_avx2 {
extern const AttentionKernels kAttention;
extern const GroupNormKernels kGroupNorm;
extern const RmsNormKernels kRmsNorm;
}  // namespace level_avx2
namespace level_avx512 {
extern const AttentionKernels kAttention;
extern const GroupNormKernels kGroupNorm;
extern const RmsNormKernels kRmsNorm;
}  // namespace level_avx512
#endif

const AttentionKernels& attention_kernels(Level level) {
#ifdef NOISEMARK_X86_LEVELS
  if (level == Level::kAvx512) return level_avx512::kAttention;
  if (level == Level::kAvx2) return level_avx2::kAttention;
#endif
  (void)level;
  return level_default::kAttention;
}

const GroupNormKernels& group_norm_kernels(Level level) {
#ifdef NOISEMARK_X86_LEVELS
  if (level == Level::kAvx512) return level_avx512::kGroupNorm;
  if (level == Level::kAvx2) return level_avx2::kGroupNorm;
#endif
  (void)level;
  return level_default::kGroupNorm;
}

const RmsNormKernels& rms_norm_kernels(Level level) {
#ifdef NOISEMARK_X86_LEVELS
  if (level == Level::kAvx512) return level_avx512::kRmsNorm;
  if (level == Level::kAvx2) return level_avx2::kRmsNorm;
#endif
  (void)level;
  return level_default::kRmsNorm;
}

}  // namespace noisemark::baselines::kernels
