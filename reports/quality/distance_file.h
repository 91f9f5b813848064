#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/quality/distances.h"
#include "reports/result.h"

namespace noisemark::reports {

/// The metrics that one distance file says of the samples of `run`, as read_distances() names them.
/// `file` is how they name it. Throws Error (bad input), beginning with `where`, for what is no
/// such file.
[[nodiscard]] std::vector<RunDistance> distances_in(const nlohmann::json& json, const Result& run,
                                                    const std::string& file,
                                                    const std::string& where);

}  // namespace noisemark::reports
