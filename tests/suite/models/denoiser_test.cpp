#include "suite/models/denoiser.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/suite/models/models_for_tests.h"

namespace noisemark::suite::test {
namespace {

using ::testing::TestWithParam;

struct Named {
  std::string name;
  ModelConfig config;
};

void PrintTo(const Named& named, std::ostream* out) {
  *out << named.name;
}

class EveryDenoiser : public TestWithParam<Named> {};

TEST_P(EveryDenoiser, keeps_the_shape_of_its_input) {
  const ModelConfig config = GetParam().config;
  const Inputs in = inputs_for(config);
  EXPECT_EQ(perturbed(config)->forward(in.x, in.t).sizes(), in.x.sizes());
}

TEST_P(EveryDenoiser, gives_every_parameter_a_gradient) {
  const ModelConfig config = GetParam().config;
  const auto model = perturbed(config);
  const Inputs in = inputs_for(config);
  model->forward(in.x, in.t).square().sum().backward();
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
}

TEST_P(EveryDenoiser, depends_on_the_timestep) {
  const ModelConfig config = GetParam().config;
  const auto model = perturbed(config);
  const Inputs in = inputs_for(config);
  const at::NoGradGuard no_grad;
  const at::Tensor shifted = model->forward(in.x, in.t + 1);
  EXPECT_GT(relative_error(shifted, model->forward(in.x, in.t)), 1e-4);
}

// Samples never meet: no batch statistics, attention within an image.
TEST_P(EveryDenoiser, treats_each_sample_alone) {
  const ModelConfig config = GetParam().config;
  const auto model = perturbed(config);
  model->to(at::kDouble);
  const Inputs in = inputs_for(config);
  const at::Tensor x = in.x.to(at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor together = model->forward(x, in.t);
  const at::Tensor alone = model->forward(x.slice(0, 1, 2), in.t.slice(0, 1, 2));
  EXPECT_LT(relative_error(alone, together.slice(0, 1, 2)), 1e-12);  // sums in another order
}

TEST_P(EveryDenoiser, gives_the_same_in_channels_last_memory) {
  const ModelConfig config = GetParam().config;
  const auto model = perturbed(config);
  model->to(at::kDouble);
  const Inputs in = inputs_for(config);
  const at::Tensor x = in.x.to(at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor contiguous = model->forward(x, in.t);
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  const at::Tensor channels_last =
      model->forward(x.contiguous(at::MemoryFormat::ChannelsLast), in.t);
  EXPECT_LT(relative_error(channels_last, contiguous), 1e-12);  // sums in another order
}

TEST_P(EveryDenoiser, drops_only_in_training) {
  ModelConfig config = GetParam().config;
  config.dropout = 0.5;
  const auto model = perturbed(config);
  const Inputs in = inputs_for(config);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(model->forward(in.x, in.t).equal(model->forward(in.x, in.t)));
  model->eval();
  EXPECT_TRUE(model->forward(in.x, in.t).equal(model->forward(in.x, in.t)));
}

TEST_P(EveryDenoiser, repeats_its_weights_for_a_seed) {
  const ModelConfig config = GetParam().config;
  const auto first = perturbed(config);
  const auto second = perturbed(config);
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(first->parameters()[i].equal(second->parameters()[i]));
  }
}

TEST_P(EveryDenoiser, refuses_inputs_of_another_shape) {
  const ModelConfig config = GetParam().config;
  const auto model = perturbed(config);
  const Inputs in = inputs_for(config);
  EXPECT_THROW(model->forward(in.x.expand({2, 2, -1, -1}), in.t), c10::Error);
  if (config.dim_mults.size() > 1) {
    EXPECT_THROW(model->forward(in.x.slice(2, 1), in.t), c10::Error);
  }
  EXPECT_THROW(model->forward(in.x, in.t.slice(0, 1)), c10::Error);
  EXPECT_THROW(model->forward(in.x, in.t.to(at::kFloat)), c10::Error);
}

ModelConfig changed(ModelConfig config, const std::function<void(ModelConfig&)>& change) {
  change(config);
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Small, EveryDenoiser,
    ::testing::Values(
        Named{"lucid", small_lucid()},
        Named{"lucid_one_stage", changed(small_lucid(), [](auto& c) { c.dim_mults = {2}; })},
        Named{"ho", small_ho()},
        Named{"ho_relu", changed(small_ho(), [](auto& c) { c.activation = "relu"; })},
        Named{"ho_max_pool", changed(small_ho(), [](auto& c) { c.downsample = "max_pool"; })},
        Named{
            "ho_one_stage",
            changed(small_ho(), [](auto& c) { c.dim_mults = {1}, c.attention_resolutions = {}; })}),
    [](const auto& info) { return info.param.name; });

TEST(Denoiser, of_an_unknown_name_is_refused_with_the_known_ones) {
  ModelConfig config = small_lucid();
  config.name = "lucid";
  EXPECT_EQ(complaint(config), "model.name: lucid (one of: lucid-unet ho-unet)");
}

TEST(Denoiser, of_an_impossible_shape_is_refused_with_the_key) {
  const std::vector<std::pair<std::function<void(ModelConfig&)>, std::string>> cases{
      {[](auto& c) { c.channels = 0; }, "model.channels"},
      {[](auto& c) { c.resolution = 15; }, "model.resolution"},
      {[](auto& c) { c.resolution = -16; }, "model.resolution"},
      {[](auto& c) { c.dim = 17; }, "model.dim"},
      {[](auto& c) { c.dim = 2; }, "model.dim"},
      {[](auto& c) { c.dim_mults = {}; }, "model.dim_mults"},
      {[](auto& c) {
         c.dim_mults = {1, 0};
       },
       "model.dim_mults"},
      {[](auto& c) { c.dim_mults = std::vector<int64_t>(64, 1); }, "model.dim_mults"},
      {[](auto& c) { c.dropout = 1.0; }, "model.dropout"},
      {[](auto& c) { c.dropout = -0.1; }, "model.dropout"},
  };
  for (const ModelConfig& base : {small_lucid(), small_ho()}) {
    EXPECT_EQ(complaint(base), "");
    for (const auto& [change, key] : cases) {
      const std::string message = complaint(changed(base, change));
      EXPECT_EQ(message.substr(0, message.find(':')), key) << base.name << ": " << message;
    }
  }
}

}  // namespace
}  // namespace noisemark::suite::test
