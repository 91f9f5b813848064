#include "memopt/replay/held_values.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memopt/codecs/codecs.h"

namespace noisemark::memopt {
namespace {

using Codecs = std::vector<std::shared_ptr<const Codec>>;

/// Calls itself exact, and gives nothing back.
class Liar final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const override { return "liar"; }
  [[nodiscard]] bool lossless() const override { return true; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& /*key*/) const override {
    Encoded encoded;
    encoded.parts = {at::zeros_like(x)};
    return encoded;
  }
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override {
    return encoded.parts.front();
  }
};

/// Tries the codecs on one saved value, and names those that do not take it.
std::vector<std::string> refused_of(const at::Tensor& x, Codecs codecs, bool whole = false) {
  auto graph = std::make_shared<StepGraph>();
  RecordedValue value;
  value.sizes = x.sizes().vec();
  value.strides = x.strides().vec();
  value.storage = 0;
  graph->values.push_back(value);
  graph->storages.emplace_back();
  TreatmentPlan plan;
  plan.graph = graph;
  plan.values.emplace_back();
  CodecTrial trial;
  trial.codecs = std::move(codecs);
  trial.whole = whole;
  plan.trials.emplace(0, std::move(trial));
  HeldValues held(plan, EncodeKey{}, EncodeBy::kFirstToTakeUnlessItRounds);
  held.try_codecs(0, x);
  EXPECT_TRUE(held.tensors().empty()) << "nothing is held of a trial";
  std::vector<std::string> forms;
  for (const Refusal& refusal : held.refused()) {
    EXPECT_EQ(refusal.value, 0);
    forms.push_back(refusal.form);
  }
  return forms;
}

at::Tensor normals() {
  at::manual_seed(1);
  return at::randn({64, 128});
}

TEST(CodecTrials, find_which_codecs_take_what_is_saved) {
  const at::Tensor x = (normals() * 1e6).to(at::kBFloat16).to(at::kFloat);  // float16 has less
  EXPECT_EQ(refused_of(x, {make_mask_codec(), make_narrow_codec(at::kHalf), make_narrow_codec()}),
            (std::vector<std::string>{"mask1", "narrow_fp16"}));
}

TEST(CodecTrials, refuse_a_codec_whose_bits_are_others) {
  const std::vector<std::string> liar = {"liar"};
  EXPECT_EQ(refused_of(normals(), {std::make_shared<Liar>()}), liar);
  EXPECT_EQ(refused_of(at::zeros_like(normals()), {std::make_shared<Liar>()}),
            std::vector<std::string>{});
}

TEST(CodecTrials, look_no_further_than_the_smallest_room_with_some_to_spare) {
  const auto rooms = [] {
    return Codecs{make_sparse_codec(0.35), make_sparse_codec(0.5), make_sparse_codec(0.65)};
  };
  // About 38, 47 and 69 % of the elements are above zero.
  EXPECT_EQ(refused_of(at::relu(normals() - 0.3), rooms()).size(), 1U);
  EXPECT_EQ(refused_of(at::relu(normals() - 0.075), rooms()).size(), 2U) << "0.5 is nearly full";
  EXPECT_EQ(refused_of(at::relu(normals() + 0.5), rooms()).size(), 3U);
}

TEST(CodecTrials, take_all_of_the_memory_that_values_share) {
  const at::Tensor memory = normals().to(at::kBFloat16).to(at::kFloat);
  const at::Tensor part = memory.narrow(1, 0, 64);
  EXPECT_EQ(refused_of(part, {make_narrow_codec()}).size(), 1U) << "there are gaps between rows";
  EXPECT_EQ(refused_of(part, {make_narrow_codec()}, /*whole=*/true).size(), 0U);
}

}  // namespace
}  // namespace noisemark::memopt
