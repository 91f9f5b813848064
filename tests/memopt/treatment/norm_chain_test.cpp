#include "memopt/treatment/norm_chain.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/memopt/recording_sink.h"

namespace noisemark::memopt {
namespace {

using treatment::Activation;

using test::expect_same_bits;
using test::RecordingSink;

struct Shape {
  std::vector<int64_t> sizes;
  int64_t groups = 1;
  bool channels_last = false;
};

/// A group norm of a tensor, and what follows it, recorded. Everything it reads is the model's, so
/// that the recipe's inputs can be looked up.
class NormedTensor {
 public:
  NormedTensor(const Shape& shape, bool weight, bool bias, at::ScalarType type = at::kFloat)
      : groups_(shape.groups) {
    at::manual_seed(11);
    const std::vector<int64_t> channels = {shape.sizes[1]};
    x = at::randn(shape.sizes).mul_(3).add_(0.7).to(type);
    if (shape.channels_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
    mask = (at::randn_like(x) > -1).to(type).div_(0.9);
    add("x", x);
    add("mask", mask);
    if (weight) add("weight", weight_ = at::randn(channels).to(type));
    if (bias) add("bias", bias_ = at::randn(channels).to(type));
  }

  [[nodiscard]] at::Tensor norm() const { return at::group_norm(x, groups_, weight_, bias_); }

  StepGraph record(const std::function<at::Tensor()>& forward) {
    RecordingSink sink(view_);
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      result = forward();
      loss = result.square().sum();
    }
    loss.backward();
    return sink.take();
  }

  /// The value that the recipe gives for the last value of operator `name`; undefined without a
  /// recipe.
  at::Tensor made_again(const StepGraph& graph, const std::string& name) const {
    const std::optional<Recipe> recipe = norm_chain_recipe(graph, last_of(graph, name));
    if (!recipe) return {};
    std::vector<at::Tensor> inputs;
    for (const ValueId id : recipe->inputs) inputs.push_back(tensor(graph, id));
    const c10::NoGradGuard no_grad;
    return recipe->run(inputs).front();
  }

  at::Tensor x, mask, result;

 private:
  void add(const char* name, at::Tensor& tensor) {
    view_.parameters.emplace_back(name, tensor.set_requires_grad(true));
  }

  static ValueId last_of(const StepGraph& graph, const std::string& name) {
    ValueId last = kNone;
    for (const RecordedOperator& op : graph.operators) {
      if (op.name == name) last = op.results.front();
    }
    return last;
  }

  [[nodiscard]] at::Tensor tensor(const StepGraph& graph, ValueId id) const {
    const RecordedValue& value = graph.values[static_cast<size_t>(id)];
    if (value.model_tensor.defined()) return value.model_tensor;
    EXPECT_EQ(graph.producer_of(id)->name, "aten::native_group_norm");
    const auto [y, mean, rstd] =
        at::native_group_norm(x.detach(), weight_.defined() ? weight_.detach() : weight_,
                              bias_.defined() ? bias_.detach() : bias_, x.size(0), x.size(1),
                              x.numel() / x.size(0) / x.size(1), groups_, 1e-5);
    return value.result_index == 1 ? mean : rstd;
  }

  int64_t groups_;
  at::Tensor weight_, bias_;
  ModelView view_;
};

class NormChainOfShape : public testing::TestWithParam<Shape> {};

TEST_P(NormChainOfShape, gives_the_bits_of_the_norm_with_and_without_its_parameters) {
  // LibTorch cannot train a bias alone.
  for (const auto& [weight, bias] :
       {std::pair(true, true), std::pair(true, false), std::pair(false, false)}) {
    NormedTensor normed(GetParam(), weight, bias);
    const StepGraph graph = normed.record([&] { return normed.norm(); });
    expect_same_bits(normed.made_again(graph, "aten::native_group_norm"), normed.result);
  }
}

TEST_P(NormChainOfShape, gives_the_bits_of_the_activation_behind_it) {
  NormedTensor normed(GetParam(), true, true);
  const StepGraph silu = normed.record([&] { return at::silu(normed.norm()); });
  expect_same_bits(normed.made_again(silu, "aten::silu"), normed.result);
  const StepGraph relu = normed.record([&] { return at::relu(normed.norm()); });
  expect_same_bits(normed.made_again(relu, "aten::relu"), normed.result);
}

TEST_P(NormChainOfShape, gives_the_bits_of_the_mask_behind_that_on_either_side) {
  NormedTensor normed(GetParam(), true, true);
  const StepGraph right = normed.record([&] { return at::silu(normed.norm()) * normed.mask; });
  expect_same_bits(normed.made_again(right, "aten::mul"), normed.result);
  const StepGraph left = normed.record([&] { return normed.mask * at::relu(normed.norm()); });
  expect_same_bits(normed.made_again(left, "aten::mul"), normed.result);
}

TEST_P(NormChainOfShape, gives_the_bits_of_what_is_rounded_behind_that) {
  NormedTensor normed(GetParam(), true, true);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const StepGraph silu = normed.record([&] { return at::silu(normed.norm()).to(type); });
    expect_same_bits(normed.made_again(silu, "aten::_to_copy"), normed.result);
    const StepGraph masked =
        normed.record([&] { return (at::relu(normed.norm()) * normed.mask).to(type); });
    expect_same_bits(normed.made_again(masked, "aten::_to_copy"), normed.result);
  }
}

// Enough elements for two threads, planes shorter and longer than vectors, sizes that leave a rest
// behind the last vector, and one value per channel.
INSTANTIATE_TEST_SUITE_P(Shapes, NormChainOfShape,
                         testing::Values(Shape{{2, 64, 32, 32}, 32}, Shape{{2, 8, 4, 4}, 2},
                                         Shape{{3, 12, 5, 7}, 3}, Shape{{2, 16, 9}, 4},
                                         Shape{{4, 6, 1, 1}, 3}, Shape{{1, 4, 128, 128}, 1},
                                         Shape{{2, 64, 16, 16}, 32, true},
                                         Shape{{3, 12, 5, 7}, 3, true},
                                         Shape{{2, 8, 64, 64}, 8, true}));

TEST(NormChain, is_for_float32_alone) {
  NormedTensor normed({{2, 8, 4, 4}, 2}, true, true, at::kDouble);
  const StepGraph graph = normed.record([&] { return at::silu(normed.norm()); });
  EXPECT_FALSE(normed.made_again(graph, "aten::silu").defined());
}

TEST(NormChain, leaves_other_casts_to_their_operators) {
  NormedTensor normed({{2, 8, 4, 4}, 2}, true, true);
  const StepGraph wider = normed.record([&] { return at::silu(normed.norm()).to(at::kDouble); });
  EXPECT_FALSE(normed.made_again(wider, "aten::_to_copy").defined());
  const StepGraph in_another_order = normed.record([&] {
    return at::silu(normed.norm())
        .to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
  });
  EXPECT_FALSE(normed.made_again(in_another_order, "aten::_to_copy").defined());
}

TEST(NormChain, leaves_other_activations_to_their_operators) {
  NormedTensor normed({{2, 8, 4, 4}, 2}, true, true);
  const StepGraph graph = normed.record([&] { return at::gelu(normed.norm()); });
  EXPECT_FALSE(normed.made_again(graph, "aten::gelu").defined());
  EXPECT_TRUE(normed.made_again(graph, "aten::native_group_norm").defined());
}

TEST(NormChain, leaves_a_product_that_is_broadcast_to_its_operator) {
  NormedTensor normed({{2, 8, 4, 4}, 2}, true, true);
  const at::Tensor one_per_sample = at::randn({2, 1, 1, 1});
  const StepGraph graph = normed.record([&] { return at::silu(normed.norm()) * one_per_sample; });
  EXPECT_FALSE(normed.made_again(graph, "aten::mul").defined());
}

/// Every 64th bit pattern there is, infinities and NaN among them.
TEST(NormChain, has_the_exponential_of_the_vectors_for_all_magnitudes) {
  ASSERT_TRUE(treatment::is_exact(Activation::kSilu));
  constexpr int64_t kStep = 64;
  constexpr int64_t kBlock = int64_t{1} << 20;
  const treatment::NormChainKernels& kernels = treatment::norm_chain_kernels(current_cpu_level());
  at::Tensor x = at::empty({kBlock});
  const at::Tensor own = at::empty({kBlock});
  std::vector<float> constants = {0, 1, 0, 0};
  treatment::NormChain job;
  job.samples = job.channels = 1;
  job.pixels = kBlock;
  job.form = treatment::NormForm::kWithoutAffine;
  job.activation = Activation::kSilu;
  job.x = x.const_data_ptr<float>();
  job.mean = constants.data();
  job.rstd = constants.data() + 1;
  job.scale = constants.data() + 2;
  job.shift = constants.data() + 3;
  job.y = own.mutable_data_ptr<float>();
  kernels.prepare(job);
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += kBlock * kStep) {
    auto* bits = static_cast<uint32_t*>(x.mutable_data_ptr());
    for (int64_t i = 0; i < kBlock; ++i) {
      bits[i] = static_cast<uint32_t>(first + static_cast<uint64_t>(i * kStep));
    }
    // (x - 0) * 1 has the bits of x, but for the payload of a NaN, which no one may rely on.
    kernels.run(job, 0, job.rows());
    const at::Tensor expected = at::silu(x);
    const at::Tensor differs =
        (own.view(at::kInt) != expected.view(at::kInt)) & ~(own.isnan() & expected.isnan());
    ASSERT_FALSE(differs.any().item<bool>()) << x.masked_select(differs)[0].item<float>();
  }
}

TEST(NormExactness, knows_where_threads_leave_a_rest_to_the_c_library) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(treatment::is_all_vectors(32 * 3));
  EXPECT_FALSE(treatment::is_all_vectors(32 * 3 + 1));
  EXPECT_TRUE(treatment::is_all_vectors(32 * 4097));
  at::set_num_threads(2);
  // 4097 vectors of 32 do not divide into two shares of whole ones.
  EXPECT_FALSE(treatment::is_all_vectors(32 * 4097));
  EXPECT_TRUE(treatment::is_all_vectors(32 * 4098));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace noisemark::memopt
