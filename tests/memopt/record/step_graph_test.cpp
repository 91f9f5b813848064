#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {
namespace {

using NamedMatrices = std::vector<std::pair<std::string, at::Tensor>>;

NamedMatrices matrices(const std::vector<std::string>& names) {
  NamedMatrices parameters;
  for (const std::string& name : names) parameters.emplace_back(name, at::empty({2, 2}));
  return parameters;
}

TEST(Segments, are_the_residual_and_attention_blocks_of_diffusers_names) {
  NamedMatrices parameters = matrices(
      {"conv_in.weight", "down_blocks.0.resnets.0.conv1.weight",
       "down_blocks.0.resnets.0.conv2.weight", "down_blocks.0.attentions.0.to_q.weight",
       "down_blocks.0.attentions.0.to_out.0.weight", "down_blocks.0.downsamplers.0.conv.weight"});
  parameters.emplace_back("down_blocks.0.resnets.0.norm1.weight", at::empty({2}));
  const auto segment = segments_of(parameters);
  EXPECT_EQ(segment.at("conv_in.weight"), "conv_in");
  EXPECT_EQ(segment.at("down_blocks.0.resnets.0.conv2.weight"), "down_blocks.0.resnets.0");
  EXPECT_EQ(segment.at("down_blocks.0.resnets.0.norm1.weight"), "down_blocks.0.resnets.0");
  EXPECT_EQ(segment.at("down_blocks.0.attentions.0.to_out.0.weight"), "down_blocks.0.attentions.0");
  EXPECT_EQ(segment.at("down_blocks.0.downsamplers.0.conv.weight"),
            "down_blocks.0.downsamplers.0.conv");
}

TEST(Segments, are_the_residual_and_attention_blocks_of_lucidrains_names) {
  NamedMatrices parameters = matrices({"downs.0.0.mlp.1.weight", "downs.0.0.block1.proj.weight",
                                       "downs.0.0.block2.proj.weight", "downs.0.2.to_qkv.weight",
                                       "downs.0.2.to_out.0.weight", "mid_block1.block1.proj.weight",
                                       "mid_block1.block2.proj.weight"});
  // A gain of four dimensions is no weight matrix: it does not make a block of its module.
  parameters.emplace_back("downs.0.0.block1.norm.g", at::empty({1, 2, 1, 1}));
  const auto segment = segments_of(parameters);
  EXPECT_EQ(segment.at("downs.0.0.mlp.1.weight"), "downs.0.0");
  EXPECT_EQ(segment.at("downs.0.0.block1.norm.g"), "downs.0.0");
  EXPECT_EQ(segment.at("downs.0.2.to_out.0.weight"), "downs.0.2");
  EXPECT_EQ(segment.at("mid_block1.block1.proj.weight"), "mid_block1");
}

ElementsRead read_by(const at::Tensor& tensor) {
  return {tensor.sizes(), tensor.strides(), tensor.storage_offset(), tensor.scalar_type()};
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  return may_overlap(read_by(a), read_by(b)) || may_overlap(read_by(b), read_by(a));
}

TEST(Overlaps, are_ruled_out_for_parts_of_one_tensor_alone) {
  const at::Tensor whole = at::empty({6, 8});
  const auto gates = whole.chunk(4, 1);
  EXPECT_FALSE(overlap(gates[0], gates[1]));
  EXPECT_FALSE(overlap(gates[3], gates[1]));
  EXPECT_FALSE(overlap(whole[0], whole[1]));
  EXPECT_FALSE(overlap(whole.narrow(0, 0, 3), whole.narrow(0, 3, 3)));
  EXPECT_FALSE(overlap(whole.t().narrow(0, 0, 2), gates[1]));
  EXPECT_TRUE(overlap(gates[1], whole));
  EXPECT_TRUE(overlap(gates[1], gates[1]));
  EXPECT_TRUE(overlap(whole.narrow(1, 0, 3), whole.narrow(1, 2, 3)));
  EXPECT_TRUE(overlap(whole.narrow(1, 0, 2), whole.view({48}).narrow(0, 1, 4)));
  EXPECT_TRUE(overlap(whole.view({48}).narrow(0, 0, 8).expand({3, 8}), whole[0]));
  // One row of the first begins where the second lies, though no row is as long.
  EXPECT_TRUE(overlap(whole.as_strided({2, 8}, {6, 1}), whole.as_strided({2, 2}, {6, 1}, 6)));
  EXPECT_FALSE(overlap(whole.narrow(0, 0, 0), whole));
}

TEST(Segments, of_a_plain_sequence_are_its_layers) {
  const auto segment = segments_of(matrices({"0.weight", "2.weight"}));
  EXPECT_EQ(segment.at("0.weight"), "0");
  EXPECT_EQ(segment.at("2.weight"), "2");
}

}  // namespace
}  // namespace noisemark::memopt
