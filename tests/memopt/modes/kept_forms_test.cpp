/// Saved tensors that are no plain memory: quantized, nested, sparse, named, wrapped.

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/NamedTensorUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <vector>

#include "tests/memopt/mode_run.h"

namespace noisemark::memopt::test {
namespace {

struct Form {
  const char* name;
  at::Tensor (*of)(const at::Tensor&);
  at::Tensor (*read)(const at::Tensor&);
  bool planned = true;  ///< is false where passes follow no plan, and the mode says so
};

at::Tensor named(const at::Tensor& x) {
  return x.refine_names({at::Dimname::fromSymbol(at::Symbol::dimname("rows")),
                         at::Dimname::fromSymbol(at::Symbol::dimname("columns"))});
}

at::Tensor dense(const at::Tensor& x) {
  return x.to_dense();
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"quantized",
       [](const at::Tensor& x) { return at::quantize_per_tensor(x, 0.05, 3, at::kQInt8); },
       [](const at::Tensor& x) { return x.dequantize(); }},
      {"nested",
       [](const at::Tensor& x) { return at::_nested_tensor_from_tensor_list(x.unbind()); },
       [](const at::Tensor& x) { return x.to_padded_tensor(0); }, /*planned=*/false},
      {"coordinates", [](const at::Tensor& x) { return x.to_sparse(); }, dense},
      {"rows", [](const at::Tensor& x) { return x.to_sparse_csr(); }, dense},
      // LibTorch itself saves no names of what a custom function saves.
      {"named", named, [](const at::Tensor& x) { return x.rename(std::nullopt); }},
      {"wrapped",
       [](const at::Tensor& x) { return at::functionalization::impl::to_functional_tensor(x); },
       [](const at::Tensor& x) { return at::functionalization::impl::from_functional_tensor(x); }},
  };
  return all;
}

/// The number of times that backward got back another tensor than was saved in another form.
int changed_forms = 0;

/// Squares, and multiplies the gradient by a multiple of x that it saved in another form.
class ScaledInBackward : public torch::autograd::Function<ScaledInBackward> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            int64_t form) {
    const at::Tensor twice = x.detach() * 2;
    const Form& other = forms().at(static_cast<size_t>(form));
    context->save_for_backward({x, other.of(twice)});
    context->saved_data["expected"] = other.read(other.of(twice.clone()));
    context->saved_data["form"] = form;
    return x.square();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Form& form = forms().at(static_cast<size_t>(context->saved_data["form"].toInt()));
    const at::Tensor read = form.read(saved[1]);
    if (!read.equal(context->saved_data["expected"].toTensor())) ++changed_forms;
    return {gradients[0] * saved[0] * read, {}};
  }
};

MakeModel model_that_saves(size_t form) {
  return [form] {
    TestModel model;
    const at::Tensor weight = at::randn({32, 32}).mul_(0.2).set_requires_grad(true);
    model.view.parameters.emplace_back("layer.weight", weight);
    const at::Tensor x = at::randn({16, 32});
    model.loss = [=] {
      const at::Tensor h = at::silu(at::linear(x, weight));
      return at::silu(ScaledInBackward::apply(h, static_cast<int64_t>(form)) * h).mean();
    };
    return model;
  };
}

/// Four bits leave no more of a gradient of one layer.
constexpr double kOfRounding = 0.5;

class KeptForms : public testing::TestWithParam<const char*> {};

TEST_P(KeptForms, of_saved_tensors_are_those_that_backward_reads) {
  for (size_t form = 0; form < forms().size(); ++form) {
    SCOPED_TRACE(forms()[form].name);
    ModeRun none("none", model_that_saves(form));
    ModeRun run(GetParam(), model_that_saves(form));
    for (int64_t step = 1; step <= 6; ++step) expect_equal(none.step(step), run.step(step));
    EXPECT_EQ(run.report().missing_reason,
              forms()[form].planned ? "" : "the forward pass has a nested tensor");
    EXPECT_EQ(run.report().followed_passes > 0, forms()[form].planned);
  }
}

INSTANTIATE_TEST_SUITE_P(Lossless, KeptForms,
                         testing::Values("echo", "echo+attn", "mirror", "mirror:sqrt", "gist",
                                         "offload:all", "budget:saved=1GiB"),
                         [](const auto& info) { return plain_name(info.param); });

class KeptFormsBesideRounding : public testing::TestWithParam<const char*> {};

TEST_P(KeptFormsBesideRounding, of_saved_tensors_are_those_that_backward_reads) {
  for (size_t form = 0; form < forms().size(); ++form) {
    SCOPED_TRACE(forms()[form].name);
    changed_forms = 0;
    ModeRun none("none", model_that_saves(form));
    ModeRun run(GetParam(), model_that_saves(form));
    for (int64_t step = 1; step <= 7; ++step) {
      expect_near(none.step(step), run.step(step), kOfRounding);
    }
    EXPECT_EQ(changed_forms, 0);
    EXPECT_EQ(run.report().followed_passes > 0, forms()[form].planned);
  }
}

INSTANTIATE_TEST_SUITE_P(Lossy, KeptFormsBesideRounding,
                         testing::Values("dpr8", "q4", "echo+dpr8", "echo+attn+q4",
                                         "budget:saved=1GiB,error=0.05"),
                         [](const auto& info) { return plain_name(info.param); });

}  // namespace
}  // namespace noisemark::memopt::test
