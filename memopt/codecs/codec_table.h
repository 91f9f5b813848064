#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

struct CodecEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Codec> (*make)();
};

/// Every codec that needs nothing but its name; constant. The others: pool_map.h, sparse.h,
/// host_offload.h.
[[nodiscard]] const std::vector<CodecEntry>& codec_table();

}  // namespace noisemark::memopt
