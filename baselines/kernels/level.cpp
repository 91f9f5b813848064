#include "baselines/kernels/attention.h"
#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"
#include "memopt/device/cpu_level.h"

namespace noisemark::baselines::kernels {

NOISEMARK_CHOOSE_KERNELS(AttentionKernels, kAttention, attention_kernels)
NOISEMARK_CHOOSE_KERNELS(GroupNormKernels, kGroupNorm, group_norm_kernels)
NOISEMARK_CHOOSE_KERNELS(RmsNormKernels, kRmsNorm, rms_norm_kernels)

}  // namespace noisemark::baselines::kernels
