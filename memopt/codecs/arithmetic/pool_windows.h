#pragma once

#include <cstdint>

namespace noisemark::memopt::codecs {

/// Where the windows of a max pooling lie, in memory order of its output: [planes, rows, columns,
/// inner], inner = channels when they are innermost, else 1. Positions in the
/// padding count, and none may leave int32.
struct PoolWindows {
  int32_t rows = 1;
  int32_t columns = 1;
  int32_t inner = 1;
  int32_t row_step = 0;     ///< from one window to the one below, in elements of the input plane
  int32_t column_step = 0;  ///< to the one on the right
  int32_t origin = 0;       ///< of the first window, negative with padding
  int32_t row_pitch = 0;    ///< from one position within a window to the one below
  int32_t column_pitch = 0;
};

}  // namespace noisemark::memopt::codecs
