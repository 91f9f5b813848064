#pragma once

#include "memopt/mode_grammar.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// What a mode allows.
///
/// - "echo" (Zheng et al. 2020, ISCA): only operators of a constant list are run again, whose
///   results cost little to make: norms, activations, element-wise operators, copies and views,
///   concatenation, nearest-neighbour upsampling. "echo+attn": every operator of a segment in which
///   attention is computed, too.
/// - "mirror" (Chen et al. 2016): any operator may be run again, and what crosses from one segment
///   (a residual or attention block, or a share of the saved bytes) to another is kept.
///   "mirror+echo": replayed segments keep only what "echo" would keep of them.
/// - Encodings: codec_choice.h.
[[nodiscard]] Policy policy_of(const ModeParts& parts);

}  // namespace noisemark::memopt
