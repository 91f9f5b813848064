#include "suite/sampling/pictures.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <algorithm>

namespace noisemark::suite {
namespace {

constexpr int64_t kGap = 2;        // pixels around every tile
constexpr int64_t kTileSide = 64;  // that small pictures are enlarged to, about

int64_t columns_for(int64_t tiles) {
  int64_t columns = 1;
  while (columns * columns < tiles) ++columns;
  return columns;
}

}  // namespace

at::Tensor to_pixels(const at::Tensor& samples) {
  const at::Tensor values = samples.detach().to(at::kCPU, at::kFloat);
  return ((values + 1) * 127.5F)
      .round()
      .clamp(0, 255)
      .to(at::kByte)
      .permute({0, 2, 3, 1})
      .contiguous();
}

at::Tensor contact_sheet(const at::Tensor& pixels) {
  const int64_t tiles = std::min(pixels.size(0), kSheetTiles);
  const int64_t zoom = std::max<int64_t>(1, kTileSide / pixels.size(1));
  const at::Tensor enlarged =
      pixels.narrow(0, 0, tiles).repeat_interleave(zoom, 1).repeat_interleave(zoom, 2);
  const int64_t height = enlarged.size(1);
  const int64_t width = enlarged.size(2);
  const int64_t columns = columns_for(tiles);
  const int64_t rows = (tiles + columns - 1) / columns;
  at::Tensor sheet =
      at::full({rows * (height + kGap) + kGap, columns * (width + kGap) + kGap, pixels.size(3)},
               255, at::kByte);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t top = kGap + i / columns * (height + kGap);
    const int64_t left = kGap + i % columns * (width + kGap);
    sheet.narrow(0, top, height).narrow(1, left, width).copy_(enlarged[i]);
  }
  return sheet;
}

}  // namespace noisemark::suite
