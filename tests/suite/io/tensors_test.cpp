#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "suite/io/safetensors.h"
#include "suite/io/tensors.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

// python3 -c 'import hashlib, struct; print(hashlib.sha256(b"x\0F32\0" b"2\0" + struct.pack("<ff",
// 1, 1)).hexdigest())'
TEST(TensorsSha256, is_that_of_name_type_shape_and_bytes) {
  EXPECT_EQ(tensors_sha256({{"x", at::ones({2})}}),
            "fef928c9d848fcfb6e90c3495e8eb01c45d532ee7786b116718b17aed0e05b25");
}

TEST(TensorsSha256, changes_with_name_type_shape_bytes_and_order) {
  const at::Tensor a = at::arange(6, at::kFloat);
  const std::string hash = tensors_sha256({{"a", a}, {"b", a}});
  EXPECT_NE(tensors_sha256({{"c", a}, {"b", a}}), hash);
  EXPECT_NE(tensors_sha256({{"b", a}, {"a", a}}), hash);
  EXPECT_NE(tensors_sha256({{"a", a}}), hash);
  EXPECT_NE(tensors_sha256({{"a", a.view(at::kInt)}, {"b", a}}), hash);
  EXPECT_NE(tensors_sha256({{"a", a.reshape({2, 3})}, {"b", a}}), hash);
  EXPECT_NE(tensors_sha256({{"a", a + 1}, {"b", a}}), hash);
  EXPECT_EQ(tensors_sha256({{"a", a.clone()}, {"b", a}}), hash);
}

TEST(TensorsSha256, does_not_depend_on_the_memory_layout) {
  const at::Tensor x = at::randn({2, 3, 4, 4});
  EXPECT_EQ(tensors_sha256({{"x", x.contiguous(at::MemoryFormat::ChannelsLast)}}),
            tensors_sha256({{"x", x}}));
}

TEST(CopyByName, fills_every_destination_whatever_the_order_and_type) {
  const at::Tensor a = at::zeros({2}).requires_grad_();
  const at::Tensor b = at::zeros({3}, at::kDouble);
  copy_by_name({{"b", at::ones({3})}, {"a", at::ones({2})}}, {{"a", a}, {"b", b}}, "file");
  EXPECT_TRUE(a.equal(at::ones({2})));
  EXPECT_TRUE(b.equal(at::ones({3}, at::kDouble)));
  EXPECT_TRUE(a.requires_grad());
}

TEST(CopyByName, names_what_is_missing_unexpected_and_misshapen_and_changes_nothing) {
  const at::Tensor a = at::zeros({2});
  const auto [code, message] = outcome([&] {
    copy_by_name({{"a", at::ones({2})}, {"b", at::ones({1, 2})}, {"z", at::ones({1})}},
                 {{"a", a}, {"b", at::zeros({3})}, {"c", at::zeros({1})}}, "w.safetensors");
  });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message,
            "w.safetensors: tensors: missing c; unexpected z; b [1, 2] "
            "(exactly the 3 that are wanted; b [3])");
  EXPECT_TRUE(a.equal(at::zeros({2})));
}

TEST(CopyByName, names_a_beginning_that_a_wrapper_has_put_before_every_name) {
  const at::Tensor x = at::ones({2});
  const auto refused = [&](const NamedTensors& source) {
    return outcome([&] { copy_by_name(source, {{"a.w", x}, {"b.w", x}}, "file"); }).second;
  };
  const std::string said =
      "; every name begins with \"model.module.\", so write the file without it)";
  EXPECT_NE(refused({{"model.module.a.w", x}, {"model.module.b.w", x}}).find(said),
            std::string::npos);
  EXPECT_EQ(refused({{"model.module.a.w", x}, {"other.b.w", x}}).find("begins"), std::string::npos);
  EXPECT_EQ(refused({{"c.w", x}, {"d.w", x}}).find("begins"), std::string::npos);
}

TEST(RequireFinite, names_the_tensor_that_is_not) {
  const at::Tensor bad = at::ones({3}, at::kBFloat16);
  bad[1] = INFINITY;
  EXPECT_EQ(outcome([&] {
              require_finite({{"a", at::ones({2})}, {"b", bad}}, "w.safetensors");
            }).second,
            "w.safetensors: b: values that are not finite (numbers)");
  EXPECT_NO_THROW(
      require_finite({{"a", at::ones({2})}, {"n", at::ones({2}, at::kLong)}}, "w.safetensors"));
}

TEST(CopyByName, takes_no_whole_numbers_or_booleans_for_weights_and_no_weights_for_them) {
  const at::Tensor weight = at::zeros({2});
  const at::Tensor count = at::zeros({2}, at::kLong);
  const auto expect_mistyped = [](const at::Tensor& from, const at::Tensor& to,
                                  const std::string& words) {
    const auto [code, message] = outcome([&] { copy_by_name({{"a", from}}, {{"a", to}}, "w"); });
    EXPECT_EQ(code, ExitCode::kBadInput) << words;
    EXPECT_EQ(message, "w: tensors: a " + words);
  };
  for (const at::ScalarType dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    expect_mistyped(at::ones({2}, dtype), weight, std::string(dtype_name(dtype)) + " (a F32)");
  }
  expect_mistyped(at::ones({2}, at::kBool), weight, "BOOL (a F32)");
  expect_mistyped(at::ones({2}), count, "F32 (a I64)");
  EXPECT_TRUE(weight.equal(at::zeros({2})));
  copy_by_name({{"a", at::ones({2}, at::kInt)}}, {{"a", count}}, "w");
  EXPECT_TRUE(count.equal(at::ones({2}, at::kLong)));
  copy_by_name({{"a", at::ones({2}, at::kBFloat16)}}, {{"a", weight}}, "w");
  EXPECT_TRUE(weight.equal(at::ones({2})));
}

TEST(Conversion, is_told_by_type_and_not_where_there_is_none) {
  const auto told = [](const NamedTensors& tensors) {
    testing::internal::CaptureStderr();
    tell_of_conversion(tensors, "w.safetensors");
    return testing::internal::GetCapturedStderr();
  };
  const at::Tensor half = at::ones({2}, at::kHalf);
  const at::Tensor real = at::ones({2});
  EXPECT_EQ(told({{"a", real}, {"n", at::ones({1}, at::kLong)}}), "");
  EXPECT_EQ(told({{"a", half}, {"b", real}, {"c", half}, {"d", at::ones({1}, at::kDouble)}}),
            "noisemark: w.safetensors: 2 of its 4 tensors are F16 and are converted to F32\n"
            "noisemark: w.safetensors: 1 of its 4 tensors is F64 and is converted to F32\n");
}

TEST(CopyByName, shortens_long_lists) {
  NamedTensors wanted;
  for (char c = 'a'; c <= 'h'; ++c) wanted.emplace_back(std::string(1, c), at::zeros({1}));
  const auto [code, message] = outcome([&] { copy_by_name({}, wanted, "w"); });
  EXPECT_NE(message.find("missing a, b, c, d, e and 3 more"), std::string::npos) << message;
}

TEST(DtypeNames, are_found_both_ways) {
  EXPECT_EQ(dtype_name(at::kBFloat16), "BF16");
  EXPECT_EQ(dtype_named("BF16"), at::kBFloat16);
  EXPECT_FALSE(dtype_named("bf16").has_value());
  EXPECT_THROW((void)dtype_name(at::kComplexFloat), c10::Error);
}

}  // namespace
}  // namespace noisemark::suite::test
