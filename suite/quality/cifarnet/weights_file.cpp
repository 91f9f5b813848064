#include <cstddef>
#include <string_view>

#include "suite/quality/cifarnet/network.h"

// The file itself, by the assembler: a compiler would need seconds for the same bytes as an array.
asm(".pushsection .rodata\n"
    ".balign 8\n"
    "noisemark_cifarnet_begin:\n"
    ".incbin \"" NOISEMARK_CIFARNET_FILE
    "\"\n"
    "noisemark_cifarnet_end:\n"
    ".popsection\n");

extern "C" {
// NOLINTBEGIN(modernize-avoid-c-arrays): labels of the assembler
extern const char noisemark_cifarnet_begin[] __attribute__((visibility("hidden")));
extern const char noisemark_cifarnet_end[] __attribute__((visibility("hidden")));
// NOLINTEND(modernize-avoid-c-arrays)
}

namespace noisemark::suite::cifarnet {

std::string_view weights_file() {
  return {noisemark_cifarnet_begin,
          static_cast<size_t>(noisemark_cifarnet_end - noisemark_cifarnet_begin)};
}

}  // namespace noisemark::suite::cifarnet
