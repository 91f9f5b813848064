#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace noisemark::suite {

/// Samples [N, C, H, W] with values in [-1, 1] -> [N, H, W, C] uint8, row-major on the CPU: rounded
/// to the nearest of the 256 values that the data have, clamped to the first and last.
[[nodiscard]] at::Tensor to_pixels(const at::Tensor& samples);

inline constexpr int64_t kSheetTiles = 64;

/// The first kSheetTiles of `pixels` [N, H, W, C] as one picture [H', W', C]: as many columns as
/// rows or one more, small pictures enlarged by a whole number without smoothing, on white.
[[nodiscard]] at::Tensor contact_sheet(const at::Tensor& pixels);

}  // namespace noisemark::suite
