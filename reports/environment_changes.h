#pragma once

#include <string_view>

namespace noisemark::reports {

/// Key of Result::environment: the settings of the machine that changed while it ran, or "nothing";
/// absent: nobody looked. What `KEY` was then is under "at the end: KEY".
inline constexpr std::string_view kChangedWhileItRan = "changed while it ran";

}  // namespace noisemark::reports
