#include "suite/quality/inception/prepare.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <c10/util/Exception.h>

#include <array>
#include <string>
#include <string_view>

#include "reports/error.h"
#include "suite/quality/inception/layout.h"

namespace noisemark::suite::inception {
namespace {

/// In the order of Resize.
constexpr std::array<std::string_view, 2> kResizeNames{"tf1-bilinear", "bilinear"};

/// Between which pixels of one axis the output's pixels lie, and how far from the lower one.
struct Axis {
  at::Tensor low;   ///< [kInputSize] int64
  at::Tensor high;  ///< [kInputSize] int64, the last pixel at the edge
  at::Tensor part;  ///< [kInputSize], in [0, 1)
};

/// TensorFlow multiplies in float32, whatever type the pictures have.
Axis tensorflow1_axis(int64_t size, const at::TensorOptions& options) {
  const auto step = static_cast<float>(static_cast<double>(size) / double{kInputSize});
  const at::Tensor position = at::arange(kInputSize, options) * double{step};
  Axis axis;
  axis.low = position.to(at::kLong);
  axis.high = (axis.low + 1).clamp_max(size - 1);
  axis.part = position - axis.low.to(position.scalar_type());
  return axis;
}

/// low + (high - low) * part along `dimension`, in that order of operations.
at::Tensor interpolate(const at::Tensor& x, const Axis& axis, int64_t dimension) {
  std::array<int64_t, 4> shape{1, 1, 1, 1};
  shape[static_cast<size_t>(dimension)] = kInputSize;
  const at::Tensor low = x.index_select(dimension, axis.low);
  return x.index_select(dimension, axis.high).sub_(low).mul_(axis.part.view(shape)).add_(low);
}

/// Each row is interpolated once; which rows are then between which is the second axis.
at::Tensor tf1_input(const at::Tensor& pictures) {
  const Axis across = tensorflow1_axis(pictures.size(3), pictures.options());
  const Axis down = tensorflow1_axis(pictures.size(2), pictures.options());
  const at::Tensor rows = interpolate(pictures, across, 3);
  return interpolate(rows, down, 2).sub_(128).div_(128);
}

at::Tensor bilinear_input(const at::Tensor& pictures) {
  const at::Tensor unit = pictures.div(255);
  return at::upsample_bilinear2d(unit, {kInputSize, kInputSize}, /*align_corners=*/false)
      .mul_(2)
      .sub_(1);
}

}  // namespace

std::string_view resize_name(Resize resize) {
  return kResizeNames.at(static_cast<size_t>(resize));
}

Resize resize_named(const std::string& name) {
  for (const Resize resize : {Resize::kTf1Bilinear, Resize::kBilinear}) {
    if (resize_name(resize) == name) return resize;
  }
  throw bad_input("resize", "", name, "tf1-bilinear or bilinear");
}

at::Tensor network_input(const at::Tensor& pictures, Resize resize, at::ScalarType type) {
  TORCH_CHECK(pictures.dim() == 4 && pictures.scalar_type() == at::kByte,
              "pictures must be [N, C, H, W] uint8, but got ", pictures.toString(), " ",
              pictures.sizes());
  const int64_t channels = pictures.size(1);
  if (channels != 1 && channels != 3) {
    throw bad_input("Inception network", "channels", std::to_string(channels), "1 or 3");
  }
  // Repeated before they are resized: LibTorch's resize of one channel adds up in another order.
  const at::Tensor colours = pictures.expand({-1, 3, -1, -1});
  const at::Tensor values = colours.contiguous().to(type);
  return resize == Resize::kTf1Bilinear ? tf1_input(values) : bilinear_input(values);
}

}  // namespace noisemark::suite::inception
