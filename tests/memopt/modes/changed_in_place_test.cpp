#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/modes/budget.h"
#include "memopt/modes/budget_mode.h"
#include "tests/memopt/mode_run.h"

/// Tensors that are changed in place between forward and backward: an error that names the
/// operator, or the gradient of what was saved. Never another one.

namespace noisemark::memopt::test {
namespace {

/// The values that the model computes on its way, by the operator that makes each.
struct Exposed {
  at::Tensor mm;       ///< silu saves it; it is held where silu's result is made again
  at::Tensor silu;     ///< mul saves it
  at::Tensor sigmoid;  ///< its own operator saves it, and mul
};
using Change = std::function<void(Exposed& exposed)>;

MakeModel exposing_model(const std::shared_ptr<Exposed>& exposed) {
  return [=] {
    TestModel model;
    for (const char* name : {"a.weight", "b.weight"}) {
      model.view.parameters.emplace_back(name,
                                         at::randn({64, 64}).mul_(0.2).set_requires_grad(true));
    }
    const at::Tensor x = at::randn({64, 64});
    model.loss = [x, exposed, parameters = model.view.parameters] {
      exposed->mm = at::mm(x, parameters[0].second);
      exposed->silu = at::silu(exposed->mm);
      exposed->sigmoid = at::sigmoid(at::mm(x, parameters[1].second));
      return (exposed->silu * exposed->sigmoid).square().sum();
    };
    return model;
  };
}

struct InPlace {
  const char* name;
  Change change;
  std::vector<std::string> makers;  ///< one of them is named; as ATen or autograd speaks of them
};

const std::vector<InPlace>& changes() {
  static const std::vector<InPlace> table = {
      {"an input", [](Exposed& e) { e.mm.mul_(2); }, {"aten::mm", "MmBackward"}},
      {"a result", [](Exposed& e) { e.silu.mul_(2); }, {"aten::silu", "SiluBackward"}},
      {"an own result",
       [](Exposed& e) { e.sigmoid.add_(1); },
       {"aten::sigmoid", "SigmoidBackward"}},
      {"a view",
       [](Exposed& e) { e.silu.narrow(0, 3, 1).zero_(); },
       {"aten::silu", "SiluBackward"}},
      {"a transposed view",
       [](Exposed& e) { e.mm.t().select(0, 1).fill_(7); },
       {"aten::mm", "MmBackward"}}};
  return table;
}

bool names_one_of(const std::string& words, const std::vector<std::string>& makers) {
  return std::any_of(makers.begin(), makers.end(), [&](const std::string& maker) {
    return words.find("the result of " + maker) != std::string::npos;
  });
}

class ChangedInPlace : public testing::TestWithParam<const char*> {
 protected:
  ChangedInPlace() : mode_(mode_for(GetParam(), exposing_model(std::make_shared<Exposed>()))) {}

  /// Returns whether the step ended in an error. `number` is the step in which the change is made.
  [[nodiscard]] bool is_refused(const InPlace& in_place, int64_t number) const {
    const auto exposed = std::make_shared<Exposed>();
    ModeRun reference(reference_of(mode_), exposing_model(std::make_shared<Exposed>()));
    ModeRun run(mode_, exposing_model(exposed));
    for (int64_t before = 1; before < number; ++before) {
      static_cast<void>(reference.step(before));
      static_cast<void>(run.step(before));
    }
    const std::vector<at::Tensor> expected = reference.step(number);
    *exposed = {};
    const int64_t level = live_bytes();
    run.begin(number);
    at::Tensor loss = run.forward();
    {
      const c10::NoGradGuard no_grad;
      in_place.change(*exposed);
    }
    bool refused = false;
    try {
      loss.backward();
      expect_right(mode_, expected, run.take_gradients());
    } catch (const c10::Error& error) {
      refused = true;
      const std::string words = error.what_without_backtrace();
      EXPECT_NE(words.find("was changed in place after"), std::string::npos) << words;
      EXPECT_TRUE(names_one_of(words, in_place.makers)) << words;
    }
    run.mode().end_step();
    static_cast<void>(run.take_gradients());
    loss = at::Tensor();
    *exposed = {};
    if (number > 5) {
      EXPECT_EQ(live_bytes(), level);
    }
    return refused;
  }

  const std::string mode_;
};

TEST_P(ChangedInPlace, is_an_error_that_names_the_operator_or_changes_no_gradient) {
  for (const InPlace& in_place : changes()) {
    SCOPED_TRACE(in_place.name);
    static_cast<void>(is_refused(in_place, 6));
  }
}

TEST_P(ChangedInPlace, is_an_error_while_a_step_is_recorded_or_verified) {
  for (const InPlace& in_place : changes()) {
    for (const int64_t number : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << in_place.name << " in step " << number);
      EXPECT_TRUE(is_refused(in_place, number));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ChangedInPlace, testing::ValuesIn(kModesOfEveryKind),
                         [](const auto& info) { return plain_name(info.param); });

/// `offload` keeps all of a model without convolutions in its slots; `echo` holds what mm made, and
/// makes the rest again.
TEST(ChangedInPlaceWords, name_who_made_the_tensor_and_who_saved_it) {
  struct Case {
    const char* mode;
    size_t change;
    const char* maker;
    const char* saver;
  };
  const Case cases[] = {{"offload", 0, "aten::mm", "aten::silu"},
                        {"offload", 1, "aten::silu", "aten::mul"},
                        {"offload", 2, "aten::sigmoid", ""},
                        {"echo", 0, "aten::mm", "aten::silu"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.mode << ": " << changes()[c.change].name);
    const auto exposed = std::make_shared<Exposed>();
    ModeRun run(c.mode, exposing_model(exposed));
    for (int64_t number = 1; number <= 5; ++number) static_cast<void>(run.step(number));
    run.begin(6);
    const at::Tensor loss = run.forward();
    {
      const c10::NoGradGuard no_grad;
      changes()[c.change].change(*exposed);
    }
    try {
      loss.backward();
      ADD_FAILURE() << "no error";
    } catch (const c10::Error& error) {
      const std::string words = error.what_without_backtrace();
      EXPECT_NE(words.find(std::string("the result of ") + c.maker), std::string::npos) << words;
      EXPECT_NE(words.find("of shape [64, 64]"), std::string::npos) << words;
      EXPECT_NE(words.find(std::string("in place after ") + c.saver), std::string::npos) << words;
    }
  }
}

TEST(ChangedInPlaceWords, name_the_parameter) {
  for (const char* mode : {"offload", "mirror"}) {
    SCOPED_TRACE(mode);
    ModeRun run(mode, [] { return block_model(); });
    for (int64_t number = 1; number <= 5; ++number) static_cast<void>(run.step(number));
    run.begin(6);
    const at::Tensor loss = run.forward();
    {
      const c10::NoGradGuard no_grad;
      for (const auto& [name, parameter] : run.model().view.parameters) {
        if (name == "head.weight") parameter.mul_(2);
      }
    }
    try {
      loss.backward();
      ADD_FAILURE() << "no error";
    } catch (const c10::Error& error) {
      const std::string words = error.what_without_backtrace();
      EXPECT_NE(words.find("\"head.weight\""), std::string::npos) << words;
      EXPECT_NE(words.find("was changed in place"), std::string::npos) << words;
    }
  }
}

// The gradient of a gradient.

/// Two blocks with all that the modes know how to treat. Attention is left out: LibTorch's has no
/// second derivative.
TestModel smooth_model() {
  TestModel model;
  const auto add = [&](const char* name, at::IntArrayRef shape) {
    model.view.parameters.emplace_back(name, at::randn(shape).mul_(0.2).set_requires_grad(true));
    return model.view.parameters.back().second;
  };
  const at::Tensor stem = add("stem.weight", {8, 3, 3, 3});
  const at::Tensor scale = add("block.norm.weight", {8});
  const at::Tensor shift = add("block.norm.bias", {8});
  const at::Tensor first = add("block.conv1.weight", {8, 8, 3, 3});
  const at::Tensor second = add("block.conv2.weight", {8, 8, 3, 3});
  const at::Tensor x = at::randn({2, 3, 12, 12});
  model.loss = [=, generator = model.generator] {
    at::Tensor h = at::max_pool2d(at::relu(at::conv2d(x, stem, {}, 1, 1)), 2);
    at::Tensor y = at::silu(at::group_norm(h, 4, scale, shift));
    y = y * at::bernoulli(at::full_like(y.detach(), 0.9), generator);
    h = h + at::conv2d(y, first, {}, 1, 1);
    return at::conv2d(at::silu(h * 0.5), second, {}, 1, 1).square().mean();
  };
  return model;
}

struct Derivatives {
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;  ///< gradients of half the squared norm of the first
};

class DoubleBackward : public testing::TestWithParam<const char*> {
 protected:
  static Derivatives derivatives(ModeRun& run, int64_t number) {
    Derivatives derivatives;
    run.begin(number);
    {
      const at::Tensor loss = run.forward();
      const std::vector<at::Tensor> gradients = torch::autograd::grad(
          {loss}, run.parameters(), {}, /*retain_graph=*/std::nullopt, /*create_graph=*/true);
      at::Tensor penalty;
      for (const at::Tensor& gradient : gradients) {
        const at::Tensor squares = gradient.square().sum() / 2;
        penalty = penalty.defined() ? penalty + squares : squares;
        derivatives.first.push_back(gradient.detach().clone());
      }
      (loss + penalty).backward();
    }
    run.mode().end_step();
    derivatives.second = run.take_gradients();
    return derivatives;
  }

  /// The mode, with the budget that such steps need: their backward holds what it was given.
  static std::string mode_for_derivatives(const char* kind) {
    std::string mode = mode_for(kind, smooth_model);
    if (!mode.starts_with("budget")) return mode;
    try {
      ModeRun run(mode, smooth_model);
      for (int64_t number = 1; number <= 7; ++number) static_cast<void>(derivatives(run, number));
      ADD_FAILURE() << mode << " is not refused";
    } catch (const BudgetTooSmall& refusal) {
      mode = spell_budget_of_at_least(parse_budget(mode), refusal.smallest_bytes());
    }
    return mode;
  }
};

TEST_P(DoubleBackward, gives_the_bits_of_none_and_its_bytes_back) {
  const std::string mode = mode_for_derivatives(GetParam());
  ModeRun reference(reference_of(mode), smooth_model);
  ModeRun run(mode, smooth_model);
  for (int64_t number = 1; number <= 7; ++number) {
    SCOPED_TRACE(number);
    const Derivatives expected = derivatives(reference, number);
    const int64_t level = live_bytes();
    {
      const Derivatives got = derivatives(run, number);
      expect_right(mode, expected.first, got.first);
      expect_right(mode, expected.second, got.second);
    }
    if (number > 5) {
      EXPECT_EQ(live_bytes(), level);
    }
  }
  EXPECT_EQ(run.report().missing_reason, "");
  EXPECT_EQ(run.report().counters.departures, 0);
  EXPECT_EQ(run.report().counters.mismatches, 0);
}

TEST_P(DoubleBackward, may_follow_steps_that_were_differentiated_once) {
  const std::string mode = mode_for(GetParam(), smooth_model);
  ModeRun reference(reference_of(mode), smooth_model);
  ModeRun run(mode, smooth_model);
  for (int64_t number = 1; number <= 5; ++number) {
    static_cast<void>(reference.step(number));
    static_cast<void>(run.step(number));
  }
  const Derivatives expected = derivatives(reference, 6);
  const int64_t level = live_bytes();
  {
    const Derivatives got = derivatives(run, 6);
    expect_right(mode, expected.first, got.first);
    expect_right(mode, expected.second, got.second);
  }
  EXPECT_EQ(live_bytes(), level);
  expect_right(mode, reference.step(7), run.step(7));
}

INSTANTIATE_TEST_SUITE_P(Modes, DoubleBackward,
                         testing::Values("mirror", "mirror:sqrt", "mirror+echo", "echo",
                                         "echo+attn", "gist", "echo+gist", "offload", "offload:all",
                                         "echo+gist+offload:all", "dpr8", "q4", "budget",
                                         "budget,error"),
                         [](const auto& info) { return plain_name(info.param); });

}  // namespace
}  // namespace noisemark::memopt::test
