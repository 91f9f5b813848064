#pragma once

#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// Zheng et al. 2020 (ECHO, ISCA): only operators of a constant list, whose results cost little to
/// make again: norms, activations, element-wise operators, copies and views, concatenation,
/// nearest-neighbour upsampling.
[[nodiscard]] Policy echo_policy();

/// ECHO, and every operator of a segment in which attention is computed.
[[nodiscard]] Policy echo_attention_policy();

/// Chen et al. 2016: any operator may be run again, and what crosses from one segment (a residual
/// or attention block) to another is kept.
[[nodiscard]] Policy mirror_policy();

/// Mirror whose replayed blocks keep only what ECHO would keep of them.
[[nodiscard]] Policy mirror_echo_policy();

}  // namespace noisemark::memopt
