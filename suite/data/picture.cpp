#include "suite/data/image_file.h"

#include <algorithm>
#include <cmath>

namespace noisemark::suite {
namespace {

constexpr int kFractionBits = 22;

/// The source pixels that make one pixel of the result, and how much of each.
struct Taps {
  int64_t begin = 0;
  std::vector<int32_t> weights;  ///< sum close to 2^kFractionBits
};

/// Taps of the pixels [first, first + count) of a line of `source` pixels resized to `target`.
std::vector<Taps> make_taps(int64_t source, int64_t target, int64_t first, int64_t count) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double center = (static_cast<double>(first + i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto end = std::min(source, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) {
      const double distance = (static_cast<double>(j) - center + 0.5) * (1.0 / support);
      weights.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      sum += weights.back();
    }
    taps[i].begin = begin;
    for (const double weight : weights) {
      taps[i].weights.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << kFractionBits)));
    }
  }
  return taps;
}

/// The part of one side that the kept square takes: the side's length after resizing, and its
/// start.
struct Cut {
  int64_t length;
  int64_t first;
};

Cut make_cut(int64_t side, int64_t shorter, int64_t resolution) {
  const int64_t length = resolution * side / shorter;
  // Half a pixel goes to the even side, as Python's round() does.
  const auto first = std::nearbyint(static_cast<double>(length - resolution) / 2.0);
  return {length, static_cast<int64_t>(first)};
}

uint8_t round_pixel(int64_t sum) {
  return static_cast<uint8_t>(
      std::clamp<int64_t>((sum + (int64_t{1} << (kFractionBits - 1))) >> kFractionBits, 0, 255));
}

/// Applies `taps` along the width.
Picture resize_width(const Picture& source, const std::vector<Taps>& taps) {
  Picture result{static_cast<int64_t>(taps.size()), source.height, source.channels, {}};
  result.pixels.resize(static_cast<size_t>(result.width * result.height * result.channels));
  auto out = result.pixels.begin();
  for (int64_t y = 0; y < source.height; ++y) {
    const uint8_t* row = source.pixels.data() + y * source.width * source.channels;
    for (const Taps& tap : taps) {
      for (int64_t c = 0; c < source.channels; ++c) {
        const uint8_t* pixel = row + tap.begin * source.channels + c;
        int64_t sum = 0;
        for (const int32_t weight : tap.weights) {
          sum += int64_t{weight} * *pixel;
          pixel += source.channels;
        }
        *out++ = round_pixel(sum);
      }
    }
  }
  return result;
}

/// Applies `taps` along the height.
Picture resize_height(const Picture& source, const std::vector<Taps>& taps) {
  Picture result{source.width, static_cast<int64_t>(taps.size()), source.channels, {}};
  const int64_t stride = source.width * source.channels;
  result.pixels.resize(static_cast<size_t>(result.height * stride));
  auto out = result.pixels.begin();
  std::vector<int64_t> sums(static_cast<size_t>(stride));
  for (const Taps& tap : taps) {
    std::fill(sums.begin(), sums.end(), 0);
    const uint8_t* row = source.pixels.data() + tap.begin * stride;
    for (const int32_t weight : tap.weights) {
      for (int64_t i = 0; i < stride; ++i) sums[i] += int64_t{weight} * row[i];
      row += stride;
    }
    out = std::transform(sums.begin(), sums.end(), out, round_pixel);
  }
  return result;
}

/// Pillow (13 and later) resizes the height first where that takes off more than twice as much. The
/// bytes between the two passes are rounded, so their order shows in the bits.
bool is_height_first(const Picture& source, int64_t width, int64_t height) {
  const int64_t taken_off = source.height - height;
  return taken_off > 0 && taken_off > 2 * (source.width - width);
}

}  // namespace

Picture to_gray(const Picture& rgb) {
  Picture gray{rgb.width, rgb.height, 1, {}};
  gray.pixels.reserve(static_cast<size_t>(rgb.width * rgb.height));
  for (size_t i = 0; i < rgb.pixels.size(); i += 3) {
    const uint32_t luma =
        rgb.pixels[i] * 19595U + rgb.pixels[i + 1] * 38470U + rgb.pixels[i + 2] * 7471U;
    gray.pixels.push_back(static_cast<uint8_t>((luma + 0x8000U) >> 16));
  }
  return gray;
}

Picture resize_and_crop(const Picture& source, int64_t resolution) {
  if (source.width == resolution && source.height == resolution) return source;
  const int64_t shorter = std::min(source.width, source.height);
  const Cut across = make_cut(source.width, shorter, resolution);
  const Cut down = make_cut(source.height, shorter, resolution);
  const auto columns = make_taps(source.width, across.length, across.first, resolution);
  const auto rows = make_taps(source.height, down.length, down.first, resolution);
  if (is_height_first(source, across.length, down.length)) {
    return resize_width(resize_height(source, rows), columns);
  }
  return resize_height(resize_width(source, columns), rows);
}

}  // namespace noisemark::suite
