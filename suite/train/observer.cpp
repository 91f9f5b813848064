#include "suite/train/observer.h"

#include <array>

namespace noisemark::suite {

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, 5> names = {"data", "forward", "backward", "optimizer",
                                                     "ema"};
  return names[static_cast<size_t>(phase)];
}

}  // namespace noisemark::suite
