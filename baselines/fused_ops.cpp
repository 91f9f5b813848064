#include "baselines/ops.h"

namespace noisemark::baselines {

const Ops& fused_ops() {
  return plain_ops();
}

}  // namespace noisemark::baselines
