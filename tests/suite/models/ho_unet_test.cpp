#include "suite/models/ho_unet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/suite/models/models_for_tests.h"

namespace noisemark::suite::test {
namespace {

TEST(HoUnet, has_the_published_number_of_parameters) {
  EXPECT_EQ(parameter_count(*make_denoiser(locked_ho(), baselines::plain_ops())), 35'746'307);
}

TEST(HoUnet, lists_its_parameters_under_the_peers_names_in_the_peers_order) {
  const auto names = perturbed(small_ho())->named_parameters().keys();
  EXPECT_EQ(names.front(), "conv_in.weight");
  const auto place = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_LT(place("down_blocks.1.attentions.1.to_out.0.bias"),
            place("down_blocks.1.resnets.0.norm1.weight"));
  EXPECT_LT(place("down_blocks.0.downsamplers.0.conv.bias"),
            place("up_blocks.0.attentions.0.group_norm.weight"));
  EXPECT_LT(place("up_blocks.0.upsamplers.0.conv.bias"),
            place("mid_block.attentions.0.group_norm.weight"));
  EXPECT_EQ(names.back(), "conv_out.bias");
}

TEST(HoUnet, attends_where_it_is_told_and_in_the_middle) {
  ModelConfig config = small_ho();
  config.attention_resolutions = {16};
  const auto parameters = perturbed(config)->named_parameters();
  EXPECT_TRUE(parameters.contains("down_blocks.0.attentions.0.to_q.weight"));
  EXPECT_FALSE(parameters.contains("down_blocks.1.attentions.0.to_q.weight"));
  EXPECT_TRUE(parameters.contains("up_blocks.1.attentions.0.to_q.weight"));
  EXPECT_TRUE(parameters.contains("mid_block.attentions.0.to_q.weight"));
}

TEST(HoUnet, differs_between_activations_and_between_ways_down) {
  const Inputs in = inputs_for(small_ho());
  ModelConfig relu = small_ho();
  relu.activation = "relu";
  ModelConfig pooled = small_ho();
  pooled.downsample = "max_pool";
  const at::NoGradGuard no_grad;
  const at::Tensor silu_out = perturbed(small_ho())->forward(in.x, in.t);
  EXPECT_GT(relative_error(perturbed(relu)->forward(in.x, in.t), silu_out), 1e-2);
  EXPECT_GT(relative_error(perturbed(pooled)->forward(in.x, in.t), silu_out), 1e-2);
}

TEST(HoUnet, refuses_what_cannot_be) {
  ModelConfig config = small_ho();
  config.groups = 24;
  EXPECT_EQ(complaint(config),
            "model.groups: 24 (a divisor of every stage's channels, here 32 * 1)");
  config = small_ho();
  config.attention_resolutions = {4};
  EXPECT_EQ(complaint(config), "model.attention_resolutions: 4 (of: 16, 8)");
  config = small_ho();
  config.activation = "gelu";
  EXPECT_EQ(complaint(config), "model.activation: gelu (one of: silu, relu)");
  config = small_ho();
  config.downsample = "avg";
  EXPECT_EQ(complaint(config), "model.downsample: avg (one of: conv, max_pool)");
  config = small_ho();
  config.res_blocks = 0;
  EXPECT_EQ(complaint(config), "model.res_blocks: 0 (an integer of at least 1)");
}

// A kernel with one 1 at its top left picks, with zeros to the right and below, pixel (2i, 2j).
TEST(HoDownsample, pads_to_the_right_and_below) {
  ho::Downsample down(1, false, baselines::Activation::kSilu);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : down.parameters()) parameter.zero_();
  down.parameters()[0][0][0][0][0] = 1;
  const at::Tensor x = inputs_for(small_ho()).x;
  EXPECT_TRUE(down.forward(x).equal(x.slice(2, 0, 16, 2).slice(3, 0, 16, 2)));
}

// The pooled way down is, with the identity as its kernel, the maximum of ReLU over 2x2 pixels.
TEST(HoDownsample, by_pooling_takes_the_largest_of_four_after_the_activation) {
  ho::Downsample down(1, true, baselines::Activation::kRelu);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : down.parameters()) parameter.zero_();
  down.parameters()[0][0][0][1][1] = 1;
  const at::Tensor x = inputs_for(small_ho()).x;
  const at::Tensor expected = x.clamp_min(0).reshape({2, 1, 8, 2, 8, 2}).amax({3, 5});
  EXPECT_TRUE(down.forward(x).equal(expected));
}

TEST(HoUpsample, repeats_pixels_before_its_convolution) {
  ho::Upsample up(1);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : up.parameters()) parameter.zero_();
  up.parameters()[0][0][0][1][1] = 1;
  const at::Tensor x = inputs_for(small_ho()).x;
  EXPECT_TRUE(up.forward(x).equal(x.repeat_interleave(2, 2).repeat_interleave(2, 3)));
}

TEST(HoSelfAttention, adds_its_input) {
  ho::BlockOptions options;
  options.groups = 4;
  options.ops = &baselines::plain_ops();
  ho::SelfAttention attention(16, options);
  const at::NoGradGuard no_grad;
  for (const auto& item : attention.named_parameters()) {
    if (item.key().starts_with("to_out")) item.value().zero_();
  }
  ModelConfig config = small_ho();
  config.channels = 16;
  const at::Tensor x = inputs_for(config).x;
  EXPECT_TRUE(attention.forward(x).equal(x));
}

}  // namespace
}  // namespace noisemark::suite::test
