#include "memopt/codecs/pool_map.h"

#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::same_bits;

const EncodeKey kKey;

at::Tensor index_map(const at::Tensor& x, const PoolGeometry& g, bool ceil_mode = false) {
  return std::get<1>(
      at::max_pool2d_with_indices(x, g.kernel, g.stride, g.padding, g.dilation, ceil_mode));
}

void expect_kept(const at::Tensor& map, const PoolGeometry& geometry) {
  const auto codec = make_pool_map_codec(geometry);
  const auto encoded = codec->encode(map, kKey);
  ASSERT_TRUE(encoded) << map.sizes();
  EXPECT_TRUE(same_bits(codec->decode(*encoded), map)) << map.sizes();
}

const PoolGeometry kTwoByTwo{{16, 12}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};

TEST(PoolMap, keeps_maps_of_many_geometries_in_both_layouts) {
  const PoolGeometry geometries[] = {
      kTwoByTwo,
      {{16, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{16, 12}, {4, 4}, {4, 3}, {2, 2}, {1, 1}},
      {{16, 12}, {3, 2}, {1, 2}, {1, 0}, {2, 3}},
      {{16, 12}, {1, 4}, {1, 1}, {0, 2}, {1, 1}},
      {{7, 5}, {2, 3}, {1, 1}, {1, 1}, {3, 1}},
      {{5, 3}, {4, 4}, {1, 1}, {2, 2}, {1, 1}},
      {{9, 1}, {2, 1}, {2, 1}, {0, 0}, {1, 1}},
  };
  for (const PoolGeometry& g : geometries) {
    const at::Tensor x = test::normals({3, 37, g.input[0], g.input[1]});
    expect_kept(index_map(x, g), g);
    expect_kept(index_map(x.contiguous(at::MemoryFormat::ChannelsLast), g), g);
    expect_kept(index_map(x[0], g), g);
    expect_kept(index_map(x, g, /*ceil_mode=*/true), g);
  }
}

TEST(PoolMap, takes_4_bits_an_index) {
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  const auto encoded = make_pool_map_codec(kTwoByTwo)->encode(map, kKey);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->parts[0].nbytes() * 16, map.nbytes());
}

TEST(PoolMap, refuses_an_index_that_is_no_position_of_a_4_by_4_window) {
  const auto codec = make_pool_map_codec(kTwoByTwo);
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  for (const int64_t wrong : {-1L, 4L, 11L, 16L, 40L, 48L, 191L, 192L, 1L << 32, -(1L << 40)}) {
    at::Tensor other = map.clone();
    other[0][0][0][0] = wrong;
    EXPECT_FALSE(codec->encode(other, kKey)) << wrong;
  }
  const at::Tensor huge = at::full({4, 64, 8, 6}, INT64_MAX, at::kLong);
  EXPECT_FALSE(codec->encode(huge, kKey));
}

TEST(PoolMap, refuses_another_map) {
  const auto codec = make_pool_map_codec(kTwoByTwo);
  const at::Tensor map = index_map(test::normals({4, 64, 16, 12}), kTwoByTwo);
  EXPECT_FALSE(codec->encode(map.to(at::kInt), kKey));
  EXPECT_FALSE(codec->encode(test::in_memory_order(map, {0, 1, 3, 2}), kKey)) << "columns first";
  EXPECT_FALSE(codec->encode(map.flatten(), kKey));
  EXPECT_FALSE(make_pool_map_codec({{16, 13}, {2, 2}, {2, 2}, {0, 0}, {1, 1}})->encode(map, kKey));
}

TEST(PoolMap, refuses_windows_whose_rows_interleave) {
  // Columns are 2 apart and rows 3: the third of the first row lies behind the second row's first.
  const PoolGeometry geometry{{9, 3}, {2, 4}, {1, 1}, {0, 2}, {1, 2}};
  const at::Tensor map = index_map(test::normals({3, 37, 9, 3}), geometry);
  EXPECT_FALSE(make_pool_map_codec(geometry)->encode(map, kKey));
}

TEST(PoolMap, refuses_what_would_leave_32_bits) {
  const PoolGeometry wide{{1 << 20, 1 << 20}, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  EXPECT_FALSE(make_pool_map_codec(wide)->encode(at::zeros({1, 1, 64, 64}, at::kLong), kKey));
}

TEST(PoolMap, refuses_a_geometry_that_does_not_exist) {
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {5, 2}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 0}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{0, 8}, {2, 2}, {1, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {0, 1}, {0, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {1, 1}, {-1, 0}, {1, 1}}), c10::Error);
  EXPECT_THROW(make_pool_map_codec({{8, 8}, {2, 2}, {1, 1}, {0, 0}, {1, 0}}), c10::Error);
}

}  // namespace
}  // namespace noisemark::memopt
