#include "memopt/codecs/host_offload.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "tests/memopt/codecs/bits.h"

namespace noisemark::memopt {
namespace {

using test::kAnyKey;
using test::same_bits;

const c10::Device kCpu("cpu");

TEST(HostOffload, on_a_cpu_calls_itself_a_copy_and_is_one) {
  const auto offload = make_host_offload(kCpu, 1 << 20);
  EXPECT_EQ(offload->name(), "copy");
  EXPECT_TRUE(offload->lossless());
  const at::Tensor x = test::in_memory_order(test::normals({3, 5, 7, 9}), {0, 2, 3, 1});
  const auto encoded = offload->encode(x, kAnyKey);
  ASSERT_TRUE(encoded);
  offload->prefetch(*encoded);
  EXPECT_TRUE(same_bits(offload->decode(*encoded), x));
  EXPECT_TRUE(same_bits(offload->decode(*encoded), x)) << "a second time";
  EXPECT_NE(encoded->parts[0].const_data_ptr(), x.const_data_ptr());
}

TEST(HostOffload, takes_every_type) {
  const auto offload = make_host_offload(kCpu, 1 << 20);
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kByte, at::kBool, at::kComplexFloat}) {
    const at::Tensor x = test::normals({33, 3}).mul_(100).to(type);
    const auto encoded = offload->encode(x, kAnyKey);
    ASSERT_TRUE(encoded) << type;
    EXPECT_TRUE(same_bits(offload->decode(*encoded), x)) << type;
  }
}

TEST(HostOffload, falls_back_and_counts_when_the_host_has_no_room) {
  const auto offload = make_host_offload(kCpu, 1000);
  const at::Tensor x = test::normals({200});  // 800 bytes
  auto first = offload->encode(x, kAnyKey);
  ASSERT_TRUE(first);
  EXPECT_EQ(offload->usage().held_bytes, 800);
  EXPECT_EQ(offload->usage().fallbacks, 0);
  EXPECT_FALSE(offload->encode(x, kAnyKey));
  EXPECT_EQ(offload->usage().fallbacks, 1);
  first.reset();
  EXPECT_EQ(offload->usage().held_bytes, 0);
  EXPECT_TRUE(offload->encode(x, kAnyKey));
  EXPECT_EQ(offload->usage().fallbacks, 1);
  EXPECT_EQ(offload->usage().capacity_bytes, 1000);
}

TEST(HostOffload, remembers_until_asked_for_which_storages_there_was_no_room) {
  const auto offload = make_host_offload(kCpu, 1000);
  const at::Tensor x = test::normals({200});  // 800 bytes
  const auto first = offload->encode(x, {1, 2, 3});
  ASSERT_TRUE(first);
  EXPECT_EQ(offload->take_refused(), std::set<int64_t>{});
  EXPECT_FALSE(offload->encode(x, {1, 2, 5}));
  EXPECT_FALSE(offload->encode(x, {1, 2, 4}));
  EXPECT_FALSE(offload->encode(x, {1, 3, 5}));
  EXPECT_FALSE(offload->encode(x, {1, 3, EncodeKey::kNoStorage}));
  EXPECT_EQ(offload->take_refused(), (std::set<int64_t>{4, 5}));
  EXPECT_EQ(offload->take_refused(), std::set<int64_t>{});
}

TEST(HostOffload, refuses_gaps_without_counting_them_as_fallbacks) {
  const auto offload = make_host_offload(kCpu, 1 << 20);
  EXPECT_FALSE(offload->encode(test::normals({64, 2}).select(1, 0), kAnyKey));
  EXPECT_FALSE(offload->encode(at::zeros({0}), kAnyKey));
  EXPECT_EQ(offload->usage().fallbacks, 0);
  EXPECT_TRUE(offload->take_refused().empty());
}

TEST(HostOffload, may_end_before_what_it_holds) {
  std::optional<Encoded> encoded;
  {
    const auto offload = make_host_offload(kCpu, 1 << 20);
    encoded = offload->encode(test::normals({200}), kAnyKey);
  }
  EXPECT_TRUE(encoded);
  encoded.reset();
}

}  // namespace
}  // namespace noisemark::memopt
