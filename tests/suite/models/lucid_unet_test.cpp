#include "suite/models/lucid_unet.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "tests/suite/models/models_for_tests.h"

namespace noisemark::suite::test {
namespace {

TEST(LucidUnet, has_the_published_number_of_parameters) {
  const auto model = make_denoiser(locked_lucid(), baselines::plain_ops());
  EXPECT_EQ(parameter_count(*model), 35'711'491);
  EXPECT_EQ(model->parameters().size(), 245);
}

TEST(LucidUnet, lists_its_parameters_under_the_peers_names_in_the_peers_order) {
  const auto names = perturbed(small_lucid())->named_parameters().keys();
  const std::vector<std::string> first{
      "init_conv.weight",
      "init_conv.bias",
      "time_mlp.1.weight",
      "time_mlp.1.bias",
      "time_mlp.3.weight",
      "time_mlp.3.bias",
      "downs.0.0.mlp.1.weight",
      "downs.0.0.mlp.1.bias",
      "downs.0.0.block1.proj.weight",
      "downs.0.0.block1.proj.bias",
      "downs.0.0.block1.norm.g",
  };
  EXPECT_EQ(std::vector(names.begin(), names.begin() + 11), first);
  const auto place = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_LT(place("downs.0.2.mem_kv"), place("downs.0.2.norm.g"));
  EXPECT_LT(place("ups.1.3.bias"), place("mid_block1.mlp.1.weight"));
  EXPECT_LT(place("final_conv.bias"), std::ssize(names));
}

TEST(LucidUnet, refuses_attention_without_heads_or_width) {
  ModelConfig config = small_lucid();
  config.attn_heads = 0;
  EXPECT_EQ(complaint(config), "model.attn_heads: 0 (an integer of at least 1)");
  config = small_lucid();
  config.attn_dim_head = 0;
  EXPECT_EQ(complaint(config), "model.attn_dim_head: 0 (an integer of at least 1)");
}

lucid::BlockOptions block_options() {
  lucid::BlockOptions options;
  options.time_channels = 8;
  options.ops = &baselines::plain_ops();
  return options;
}

// Softmax weights of each query sum to 1, so a constant image stays constant.
TEST(LucidAttention, keeps_a_constant_picture_constant) {
  torch::manual_seed(1);
  lucid::Attention attention(16, block_options());
  const at::Tensor x = inputs_for(small_lucid()).x.slice(2, 0, 1).slice(3, 0, 1);
  const at::NoGradGuard no_grad;
  const at::Tensor out = attention.forward(x.expand({2, 16, 4, 4}));
  EXPECT_LT(relative_error(out, out.slice(2, 0, 1).slice(3, 0, 1).expand_as(out)), 1e-5);
}

// Attention sees a set of pixels: permuting them permutes the output. 1e-5: float32 sums.
TEST(LucidAttention, commutes_with_a_flip_of_the_picture) {
  torch::manual_seed(1);
  lucid::LinearAttention linear(16, block_options());
  lucid::Attention full(16, block_options());
  ModelConfig config = small_lucid();
  config.channels = 16;
  const at::Tensor x = inputs_for(config).x;
  const at::NoGradGuard no_grad;
  EXPECT_LT(relative_error(linear.forward(x.flip(3)), linear.forward(x).flip(3)), 1e-5);
  EXPECT_LT(relative_error(full.forward(x.flip(3)), full.forward(x).flip(3)), 1e-5);
}

TEST(LucidResnetBlock, has_a_shortcut_convolution_only_where_channels_change) {
  const lucid::ResnetBlock same(16, 16, block_options());
  const lucid::ResnetBlock wider(16, 32, block_options());
  EXPECT_FALSE(same.named_parameters().contains("res_conv.weight"));
  EXPECT_TRUE(wider.named_parameters().contains("res_conv.weight"));
}

}  // namespace
}  // namespace noisemark::suite::test
