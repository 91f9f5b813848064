#pragma once

#include <array>

namespace noisemark::suite::test {

/// The modes whose steps a device may repeat alone: those of the table (memopt/modes/mode.h), of
/// which a test holds that there are no others, and some that are composed of them.
inline constexpr std::array kRecordedModes = {
    "none", "mirror", "mirror:sqrt", "mirror+echo", "echo", "echo+attn", "dpr16", "dpr10", "dpr8"};
inline constexpr std::array kComposedRecordedModes = {"mirror:sqrt+echo", "echo+dpr8",
                                                      "mirror+echo+dpr16"};

}  // namespace noisemark::suite::test
