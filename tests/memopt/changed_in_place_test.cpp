/// Tensors that are changed in place between forward and backward: an error that names the
/// operator, or the gradient of what was saved. Never another one.

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/memopt/mode_run.h"

namespace noisemark::memopt::test {
namespace {

/// What the model computes on its way, by the operator that makes it.
struct Exposed {
  at::Tensor mm;       ///< saved by silu, and held where silu's result is made again
  at::Tensor silu;     ///< saved by mul
  at::Tensor sigmoid;  ///< saved by its own operator, and by mul
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

  /// Whether the step ended in an error. `number` is the step in which the change is made.
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

}  // namespace
}  // namespace noisemark::memopt::test
