#pragma once

#include <string>
#include <vector>

#include "reports/render/check.h"

namespace noisemark::reports::test {

/// A line for each, as `noisemark check` words it.
inline std::string listed(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.rule + ": " + finding.words + "\n";
  return text;
}

/// Returns whether the first of them begins so.
inline bool starts(const std::string& text, const std::string& rule) {
  return text.starts_with(rule);
}

}  // namespace noisemark::reports::test
