#pragma once

#include <vector>

#include "suite/cli/commands.h"

namespace noisemark::suite {

/// The flags of the commands that have many, in the order that help shows them.
[[nodiscard]] std::vector<Flag> run_flags();
[[nodiscard]] std::vector<Flag> sweep_flags();
[[nodiscard]] std::vector<Flag> plan_flags();
[[nodiscard]] std::vector<Flag> fit_flags();
[[nodiscard]] std::vector<Flag> sample_flags();
[[nodiscard]] std::vector<Flag> fid_flags();
[[nodiscard]] std::vector<Flag> ab_flags();
[[nodiscard]] std::vector<Flag> calibrate_flags();
[[nodiscard]] std::vector<Flag> serving_flags();  ///< of `pace`

}  // namespace noisemark::suite
