#pragma once

#include <string>
#include <vector>

#include "reports/export/figures.h"

namespace noisemark::reports {

/// One line per figure, `<CTestMeasurement type="numeric/double" name="...">value<...>`: ctest
/// takes them out of a test's standard output into its Test.xml, and so to CDash. ctest looks for
/// the closing quote and bracket without knowing escapes, so what is not a letter, a digit or one
/// of ` _.,:@+=-` is written as `_`.
[[nodiscard]] std::string ctest_lines(const std::vector<Figure>& figures);

}  // namespace noisemark::reports
