/// A float32 copy of what had 16 bits, as autocast makes it, is held in 16 bits again wherever
/// values are made again.

#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/memopt/two_layers.h"

namespace noisemark::memopt {
namespace {

constexpr int64_t kBytes = 128 * 128 * 4;

/// Two layers with SiLU between them, whose input went through `type` and back to float32. No mode
/// that makes only cheap values again can make it: the first layer's result is saved by nobody.
class Widened : public test::TwoLayers {
 public:
  Widened(const char* mode, at::ScalarType type) : TwoLayers(mode, 43), type_(type) {}

  std::vector<at::Tensor> step() {
    return step_with([&](const at::Tensor& h) { return at::silu(h.to(type_).to(at::kFloat)); });
  }

  /// Of what SiLU reads, once the plan is followed.
  [[nodiscard]] const ValueTreatment& of_the_copy() {
    const TreatmentPlan& plan = *planned().plan();
    for (const RecordedOperator& op : plan.graph->operators) {
      if (op.name != "aten::silu") continue;
      return plan.values[static_cast<size_t>(op.arguments.front().values.front())];
    }
    throw std::logic_error("no SiLU was recorded");
  }

  [[nodiscard]] std::string codec_of_the_copy() {
    for (int i = 0; i < 4; ++i) step();
    const Codec* codec = of_the_copy().codec;
    return codec == nullptr ? "" : std::string(codec->name());
  }

 private:
  at::ScalarType type_;
};

void expect_gradients_of_none(Widened& mode, at::ScalarType type) {
  Widened none("none", type);
  for (int i = 0; i < 6; ++i) {
    const std::vector<at::Tensor> expected = none.step();
    const std::vector<at::Tensor> got = mode.step();
    for (size_t w = 0; w < expected.size(); ++w) EXPECT_TRUE(got[w].equal(expected[w])) << i;
  }
  const PlannedModeReport report = mode.planned().report();
  EXPECT_EQ(report.missing_reason, "");
  EXPECT_EQ(report.counters.mismatches, 0);
  EXPECT_EQ(report.counters.codec_fallbacks, 0);
}

TEST(NarrowedCopies, of_bfloat16_are_held_as_such_and_no_bit_changes) {
  for (const char* spelling : {"echo", "echo+attn", "gist", "echo+gist"}) {
    SCOPED_TRACE(spelling);
    Widened mode(spelling, at::kBFloat16);
    expect_gradients_of_none(mode, at::kBFloat16);
    ASSERT_EQ(mode.of_the_copy().source, Source::kEncoded);
    EXPECT_EQ(mode.of_the_copy().codec->name(), "narrow");
    EXPECT_GE(mode.planned().report().plan.encoded_from_bytes, kBytes);
  }
}

TEST(NarrowedCopies, of_float16_are_held_as_such_and_no_bit_changes) {
  Widened mode("echo", at::kHalf);
  expect_gradients_of_none(mode, at::kHalf);
  ASSERT_EQ(mode.of_the_copy().source, Source::kEncoded);
  EXPECT_EQ(mode.of_the_copy().codec->name(), "narrow_fp16");
}

TEST(NarrowedCopies, are_no_others_than_those_that_stay_exact) {
  Widened mode("echo", at::kFloat);
  expect_gradients_of_none(mode, at::kFloat);
  EXPECT_EQ(mode.of_the_copy().source, Source::kHeld);
  EXPECT_EQ(mode.of_the_copy().reason, KeepReason::kNotAllowed);
  EXPECT_EQ(mode.planned().report().plan.encoded_from_bytes, 0);
}

TEST(NarrowedCopies, go_to_the_host_narrow) {
  EXPECT_EQ(Widened("echo+offload:all", at::kBFloat16).codec_of_the_copy(), "narrow+copy");
}

TEST(NarrowedCopies, are_preferred_to_a_rounding_that_holds_no_fewer_bits) {
  EXPECT_EQ(Widened("echo+dpr16", at::kBFloat16).codec_of_the_copy(), "narrow");
  EXPECT_EQ(Widened("echo+dpr16", at::kFloat).codec_of_the_copy(), "dpr16");
  EXPECT_EQ(Widened("echo+dpr10", at::kBFloat16).codec_of_the_copy(), "dpr10");
  EXPECT_EQ(Widened("echo+q2", at::kFloat).codec_of_the_copy(), "q2");
}

TEST(NarrowedCopies, are_not_looked_for_where_nothing_is_made_again) {
  EXPECT_EQ(Widened("dpr16", at::kBFloat16).codec_of_the_copy(), "dpr16");
}

}  // namespace
}  // namespace noisemark::memopt
