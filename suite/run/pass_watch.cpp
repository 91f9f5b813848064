#include "suite/run/pass_watch.h"

#include <fmt/format.h>

namespace noisemark::suite {

void PassWatch::before_step(const std::string& pass, int64_t step, int64_t steps) const {
  if (interrupt.requested()) {
    throw Interrupted(fmt::format("interrupted in the {} after step {} of {}", pass, step, steps));
  }
  line.say(fmt::format("{}, step {}/{}", pass, step + 1, steps));
}

}  // namespace noisemark::suite
