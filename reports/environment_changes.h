#pragma once

#include <string_view>

namespace noisemark::reports {

/// Key of Result::environment: the settings of the machine that changed while it ran, or "nothing";
/// absent: nobody looked.
inline constexpr std::string_view kChangedWhileItRan = "changed while it ran";

/// In front of a key of Result::environment: what it was after training, where that is not what it
/// was before.
inline constexpr std::string_view kAtTheEnd = "at the end: ";

}  // namespace noisemark::reports
