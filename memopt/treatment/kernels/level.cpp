#include "memopt/device/cpu_level.h"
#include "memopt/treatment/kernels/norm_chain.h"

namespace noisemark::memopt::treatment {

NOISEMARK_CHOOSE_KERNELS(NormChainKernels, kNormChain, norm_chain_kernels)

}  // namespace noisemark::memopt::treatment
