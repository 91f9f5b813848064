#include "memopt/codecs/codec_table.h"

#include "memopt/codecs/grouped.h"
#include "memopt/codecs/mask.h"
#include "memopt/codecs/narrow.h"
#include "memopt/codecs/reduced.h"

namespace noisemark::memopt {

const std::vector<CodecEntry>& codec_table() {
  static const std::vector<CodecEntry> table = {
      {"narrow", "float32 as bfloat16 where that is exact", [] { return make_narrow_codec(); }},
      {"narrow_fp16", "float32 as float16 where that is exact",
       [] { return make_narrow_codec(at::kHalf); }},
      {"mask1", "bool, or zero and one other value, in 1 bit", make_mask_codec},
      {"sign1", "whether an element is above zero, in 1 bit", make_sign_codec},
      {"dpr16", "float16, 1-5-10", [] { return make_reduced_codec(16); }},
      {"dpr10", "1-5-4, three in a word", [] { return make_reduced_codec(10); }},
      {"dpr8", "1-4-3", [] { return make_reduced_codec(8); }},
      {"q4", "4 bits in groups of 256, rounded at random", [] { return make_grouped_codec(4); }},
      {"q2", "2 bits in groups of 256, rounded at random", [] { return make_grouped_codec(2); }},
  };
  return table;
}

}  // namespace noisemark::memopt
