#pragma once

#include <cstddef>
#include <vector>

/// Samples whose analysis is printed in textbooks and papers.
namespace noisemark::reports::test {

/// Heights of crossed minus self-fertilised maize, eighths of an inch (Darwin 1876, in Fisher
/// 1935).
inline const std::vector<double> kMaize = {49, -67, 8,  16, 6,  23, 28, 41,
                                           14, 29,  56, 24, 75, 60, -48};

/// Hours of sleep gained by one drug over another (Student 1908: t = 4.06).
inline const std::vector<double> kSleep = {1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4};

/// Hamilton depression factor before and after a tranquilizer (Hollander and Wolfe 1973, table
/// 3.1: one-sided p 0.0195, estimate 0.46).
inline const std::vector<double> kDepressionBefore = {1.83, 0.50, 1.62, 2.48, 1.68,
                                                      1.88, 1.55, 3.06, 1.30};
inline const std::vector<double> kDepressionAfter = {0.878, 0.647, 0.598, 2.05, 1.06,
                                                     1.29,  1.06,  3.14,  1.29};

inline std::vector<double> depression_change() {
  std::vector<double> change;
  for (size_t i = 0; i < kDepressionBefore.size(); ++i) {
    change.push_back(kDepressionBefore[i] - kDepressionAfter[i]);
  }
  return change;
}

}  // namespace noisemark::reports::test
