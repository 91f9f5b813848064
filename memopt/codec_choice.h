#pragma once

#include <memory>

#include "memopt/mode_grammar.h"
#include "memopt/offload_pool.h"
#include "memopt/plan/resolve.h"

namespace noisemark::memopt {

/// The codecs that a mode tries for each value that it holds, those that hold fewer bits first:
///
/// - where it makes values again or is "gist": masks (dropout's noise) in 1 bit, and in 16 float32
///   of which every element is a bfloat16 or a float16, as autocast's copies are;
/// - "gist" (Jain et al., ISCA 2018): in 1 bit the results of ReLU that only ReLU's own backward
///   and that of max pooling ask for, the second of which asks for their sizes alone; index maps of
///   max pooling in 4 bits; sparse storage with room for 35, 50, 65 or 80 % of the elements;
/// - with rounding: all floating values but statistics, log-sum-exps and small results, also the
///   values of what is stored sparsely;
/// - "offload": what convolutions saved, or everything, whatever its form, goes to host memory,
///   which `host` gives. What finds no room there has the codecs that it would have without
///   "offload". Null: nothing goes there.
///
/// Empty where the mode encodes nothing.
[[nodiscard]] CodecChoice codec_choice(const ModeParts& parts,
                                       std::shared_ptr<OffloadPool> host = nullptr);

}  // namespace noisemark::memopt
