/// What a codec does not take goes to the next one, or is kept, and is counted.

#include <ATen/ops/full.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "tests/memopt/two_layers.h"

namespace noisemark::memopt {
namespace {

/// Two layers with a ReLU between them, whose input is shifted: by much, and no result is zero.
class ShiftedRelu : public test::TwoLayers {
 public:
  explicit ShiftedRelu(const char* mode) : TwoLayers(mode, 41) {}

  std::vector<at::Tensor> step(double shift) {
    return step_with([&](const at::Tensor& h) {
      return at::relu(h + at::full({128, 128}, shift));
    });
  }

  /// The treatment of what ReLU gave.
  [[nodiscard]] const ValueTreatment& of_relu() {
    const TreatmentPlan& plan = *planned().plan();
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const RecordedOperator* producer = plan.graph->producer_of(static_cast<ValueId>(v));
      if (producer != nullptr && producer->name == "aten::relu") return plan.values[v];
    }
    throw std::logic_error("no ReLU was recorded");
  }

  /// Of the elements; 0 where it is not sparse.
  [[nodiscard]] double sparse_room() {
    const at::Tensor zeros = at::full({64, 64}, 0.0);
    const Codec* codec = of_relu().codec;
    if (codec == nullptr || codec->name() != "ssdc") return 0;
    return static_cast<double>(codec->encode(zeros, {})->parts.at(2).numel()) / 4096;
  }
};

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

TEST(CodecRefusals, in_the_verified_step_choose_the_smallest_room_that_suffices) {
  // About 16, 31, 55 and 69 % of the results are above zero.
  const std::pair<double, double> cases[] = {
      {-1.13, 0.35}, {-0.57, 0.35}, {0.15, 0.65}, {0.57, 0.8}};
  for (const auto& [shift, room] : cases) {
    ShiftedRelu gist("gist");
    for (int i = 0; i < 4; ++i) gist.step(shift);
    EXPECT_NEAR(gist.sparse_room(), room, 1e-3) << shift;
    EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0) << "watching is no fallback";
  }
}

TEST(CodecRefusals, of_every_codec_keep_the_tensor) {
  ShiftedRelu none("none");
  ShiftedRelu gist("gist");
  for (int i = 0; i < 6; ++i) expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.of_relu().source, Source::kHeld);
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0);
}

TEST(CodecRefusals, while_the_plan_is_followed_are_kept_counted_and_lead_to_the_next_codec) {
  ShiftedRelu none("none");
  ShiftedRelu gist("gist");
  for (int i = 0; i < 4; ++i) expect_equal(none.step(-1), gist.step(-1));
  EXPECT_NEAR(gist.sparse_room(), 0.35, 1e-3);

  expect_equal(none.step(0), gist.step(0));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 1);
  EXPECT_NEAR(gist.sparse_room(), 0.35, 1e-3) << "once is an accident";
  expect_equal(none.step(0), gist.step(0));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 2);
  EXPECT_EQ(gist.of_relu().codec->name(), "narrow") << "which holds the next fewer bits";

  for (int i = 0; i < 10; ++i) expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.of_relu().source, Source::kHeld) << "no codec is left";
  const int64_t refusals = gist.planned().report().counters.codec_fallbacks;
  expect_equal(none.step(100), gist.step(100));
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, refusals);
}

TEST(CodecRefusals, of_one_that_rounds_count_although_it_is_not_compared) {
  ShiftedRelu gist("gist+dpr8");
  for (int i = 0; i < 4; ++i) gist.step(100);
  EXPECT_EQ(gist.of_relu().codec->name(), "dpr8") << "not sparse enough for any room";
  EXPECT_EQ(gist.planned().report().counters.codec_fallbacks, 0);
}

}  // namespace
}  // namespace noisemark::memopt
