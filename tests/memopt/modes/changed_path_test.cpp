/// A model that computes something else than it did when it was recorded, with the same shapes and
/// the same operators where it saves: no gradient may be that of the recorded one.

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/memopt/mode_run.h"

namespace noisemark::memopt::test {
namespace {

constexpr int64_t kLast = 8;

struct Tensors {
  std::vector<at::Tensor> weights;  ///< [32, 32], with gradients
  std::vector<at::Tensor> biases;   ///< [32], with gradients
  std::vector<at::Tensor> buffers;  ///< [32]
  std::vector<at::Tensor> others;   ///< [32], of which the mode was not told
  at::Tensor x;                     ///< [16, 32]
  at::Generator generator;          ///< draws the same in the same step

  /// Another one in every step.
  [[nodiscard]] double factor() const {
    return 1 + 0.1 * at::rand({}, generator, at::kDouble).item<double>();
  }
};
/// The result of a linear layer is saved first: it must be held before what is made from it is
/// saved.
using Forward = std::function<at::Tensor(const Tensors& t, bool changed)>;

/// `*changed` says which of the two it is.
MakeModel model_of(const Forward& forward, const std::shared_ptr<bool>& changed) {
  return [=] {
    TestModel model;
    Tensors t;
    for (const char* name : {"a.weight", "b.weight", "c.weight"}) {
      t.weights.push_back(at::randn({32, 32}).mul_(0.2).set_requires_grad(true));
      model.view.parameters.emplace_back(name, t.weights.back());
    }
    for (const char* name : {"a.bias", "b.bias"}) {
      t.biases.push_back(at::randn({32}).set_requires_grad(true));
      model.view.parameters.emplace_back(name, t.biases.back());
      t.buffers.push_back(at::randn({32}));
      model.view.buffers.push_back(t.buffers.back());
      t.others.push_back(at::randn({32}));
    }
    t.x = at::randn({16, 32});
    t.generator = model.generator;
    model.loss = [=] { return forward(t, *changed).square().sum(); };
    return model;
  };
}

/// Relative L2 distance of two gradients.
double distance(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    difference += (from[i] - to[i]).square().sum().item<double>();
    size += from[i].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

/// A mode that rounds gives no bits of `none` to compare with, but it has twins: one that never
/// leaves the old path, whose bits it has there, and one that never followed it. On the new path
/// the mode must be as near to the exact gradient as the latter, and the old gradient farther away.
/// In the pass that leaves the recorded path fewer tensors are rounded than in the twin's, but
/// roundings also cancel: three times the twin's error is allowed.
class RoundedRun {
 public:
  RoundedRun(const std::string& mode, const Forward& forward)
      : changed_(std::make_shared<bool>(false)),
        none_("none", model_of(forward, changed_)),
        old_twin_(mode, model_of(forward, changed_)),
        new_twin_(mode, model_of(forward, changed_)),
        run_(mode, model_of(forward, changed_)) {}

  void expect_right(int64_t number, bool changed) {
    SCOPED_TRACE(number);
    *changed_ = false;
    const std::vector<at::Tensor> old_exact = none_.step(number);
    const std::vector<at::Tensor> old_twins = old_twin_.step(number);
    *changed_ = true;
    const std::vector<at::Tensor> new_exact = none_.step(number);
    const double allowed = 3 * distance(new_exact, new_twin_.step(number));
    *changed_ = changed;
    const int64_t level = live_bytes();
    const std::vector<at::Tensor> got = run_.step(number);
    if (!changed) return expect_equal(old_twins, got);
    EXPECT_GT(allowed, 0) << "nothing was rounded";
    EXPECT_LE(distance(new_exact, got), allowed);
    EXPECT_GT(distance(new_exact, old_exact), allowed) << "the change is lost in the rounding";
    EXPECT_EQ(live_bytes(), level + bytes_of(got));
  }

  [[nodiscard]] PlannedModeReport report() { return run_.report(); }

 private:
  static int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    return bytes;
  }

  std::shared_ptr<bool> changed_;
  ModeRun none_, old_twin_, new_twin_, run_;
};

class ChangedPaths : public testing::TestWithParam<const char*> {
 protected:
  /// The mode sees the change when a tensor is saved, and keeps everything from there on.
  static void expect_departures(const Forward& forward) {
    const auto changed = std::make_shared<bool>(false);
    const MakeModel make = model_of(forward, changed);
    const std::string mode = mode_for(GetParam(), make);
    if (!make_mode(mode)->lossless()) return expect_departures_of_rounding(mode, forward);
    ModeRun none("none", make);
    ModeRun run(mode, make);
    std::vector<at::Tensor> before;
    for (int64_t number = 1; number <= kLast; ++number) {
      SCOPED_TRACE(number);
      *changed = number >= kChange;
      const std::vector<at::Tensor> expected = none.step(number);
      const int64_t level = live_bytes();
      expect_equal(expected, run.step(number));
      if (number > 4) {
        EXPECT_EQ(live_bytes(), level);
      }
      if (number == kChange - 1) {
        EXPECT_EQ(run.report().missing_reason, "");
        EXPECT_EQ(run.report().counters.departures, 0);
        before = expected;
      }
      if (number == kChange) {
        EXPECT_FALSE(expected[0].equal(before[0])) << "the change is none";
      }
    }
    EXPECT_EQ(run.report().counters.departures, kLast - kChange + 1);
    EXPECT_EQ(run.report().counters.mismatches, 0);
    *changed = false;
    expect_equal(none.step(kLast + 1), run.step(kLast + 1));
    EXPECT_EQ(run.report().counters.departures, kLast - kChange + 1) << "the old path is followed";
  }

 private:
  static void expect_departures_of_rounding(const std::string& mode, const Forward& forward) {
    RoundedRun run(mode, forward);
    for (int64_t number = 1; number <= kLast; ++number) {
      run.expect_right(number, number >= kChange);
      if (number < kChange) {
        EXPECT_EQ(run.report().counters.departures, 0);
      }
    }
    EXPECT_EQ(run.report().missing_reason, "");
    EXPECT_NE(run.report().departure_reason, "");
    EXPECT_EQ(run.report().counters.departures, kLast - kChange + 1);
    run.expect_right(kLast + 1, false);
    EXPECT_EQ(run.report().counters.departures, kLast - kChange + 1) << "the old path is followed";
  }
};

TEST_P(ChangedPaths, a_factor) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h);
    return at::linear(y + at::silu(h * (changed ? 3 : 2)), t.weights[1]);
  });
}

TEST_P(ChangedPaths, a_factor_of_a_summand) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h).sub(at::tanh(h), changed ? 0.5 : 1);
    return at::linear(at::silu(y), t.weights[1]);
  });
}

TEST_P(ChangedPaths, a_bound) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h) + at::clamp(h, -1, changed ? 0.5 : 0.75);
    return at::linear(at::silu(y), t.weights[1]);
  });
}

TEST_P(ChangedPaths, a_bias_of_the_same_shape) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h);
    return at::linear(y + at::silu(h + t.biases[changed ? 1 : 0]), t.weights[1]);
  });
}

TEST_P(ChangedPaths, a_summand_of_the_same_shape) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h1 = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor h2 = at::silu(at::linear(t.x, t.weights[1]));
    const at::Tensor h3 = at::tanh(h1);
    return at::linear(at::silu(h1 + (changed ? h3 : h2)), t.weights[2]);
  });
}

TEST_P(ChangedPaths, the_order_of_a_concatenation) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor a = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor b = at::silu(at::linear(t.x, t.weights[1]));
    const at::Tensor both = changed ? at::cat({b, a}, 0) : at::cat({a, b}, 0);
    return at::linear(at::silu(both), t.weights[2]).narrow(0, 0, 8);
  });
}

TEST_P(ChangedPaths, the_half_of_a_view) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor half = h.narrow(0, changed ? 8 : 0, 8);
    return at::linear(at::silu(h).narrow(0, 0, 8) * at::silu(half), t.weights[1]);
  });
}

TEST_P(ChangedPaths, a_new_addition_in_place_behind_an_addition) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h1 = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor h2 = at::silu(at::linear(t.x, t.weights[1]));
    at::Tensor y = h1 + h2;
    if (changed) y.add_(h1);
    return at::linear(at::silu(y), t.weights[2]);
  });
}

TEST_P(ChangedPaths, memory_that_is_written_without_history_before_it_is_saved) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h1 = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor h2 = at::silu(at::linear(t.x, t.weights[1]));
    const at::Tensor y = h1 + h2;
    if (changed) {
      const c10::NoGradGuard no_grad;
      y.mul_(2);
    }
    return at::linear(at::silu(y), t.weights[2]);
  });
}

// Autograd keeps nothing of these. Rounding hides them from whoever compares values, so they must
// be seen when a tensor is saved.

at::Tensor another_summand(const Tensors& t, bool changed) {
  const at::Tensor h = at::linear(t.x, t.weights[0]);
  const at::Tensor y = at::silu(h);
  return at::linear(y * at::silu(h + (changed ? 3 : 2)), t.weights[1]);
}

at::Tensor another_buffer(const Tensors& t, bool changed) {
  const at::Tensor h = at::linear(t.x, t.weights[0]);
  const at::Tensor y = at::silu(h);
  return at::linear(y * at::silu(h + t.buffers[changed ? 1 : 0]), t.weights[1]);
}

TEST_P(ChangedPaths, a_summand_without_history) {
  expect_departures(another_summand);
}

TEST_P(ChangedPaths, a_buffer_of_the_same_shape) {
  expect_departures(another_buffer);
}

TEST_P(ChangedPaths, the_half_of_a_buffer) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h.narrow(1, 0, 16));
    const at::Tensor half = t.buffers[0].narrow(0, changed ? 16 : 0, 16);
    return at::mm(y * at::silu(h.narrow(1, 0, 16) + half), t.weights[1].narrow(0, 0, 16));
  });
}

TEST_P(ChangedPaths, memory_that_is_written_without_history_and_saved_by_nobody) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h1 = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor h2 = at::silu(at::linear(t.x, t.weights[1]));
    const at::Tensor y = h1 + h2;
    if (changed) {
      const c10::NoGradGuard no_grad;
      y.mul_(2);
    }
    return at::mm(y * 0.5, t.weights[2]);
  });
}

/// Writes `y` without history, by an operator whose name does not say that it writes.
void write(const at::Tensor& y, bool changed, bool in_a_list) {
  const c10::NoGradGuard no_grad;
  at::Tensor written = y;
  if (in_a_list) {
    at::_foreach_mul_(at::TensorList(written), changed ? 2 : 3);
  } else {
    at::clamp_out(written, y, changed ? -0.1 : -0.2, 0.3);
  }
}

TEST_P(ChangedPaths, memory_that_an_operator_writes_which_it_was_given_for_its_result) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor y = at::silu(at::linear(t.x, t.weights[0])) * 2;
    write(y, changed, /*in_a_list=*/false);
    return at::linear(at::silu(y), t.weights[2]);
  });
}

TEST_P(ChangedPaths, memory_that_an_operator_writes_as_one_of_a_list) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor y = at::silu(at::linear(t.x, t.weights[0])) * 2;
    write(y, changed, /*in_a_list=*/true);
    return at::linear(at::silu(y), t.weights[2]);
  });
}

template <typename By>
void multiply_in_place(const at::Tensor& y, const By& by) {
  const c10::NoGradGuard no_grad;
  y.mul_(by);
}

TEST_P(ChangedPaths, a_parameter_that_a_write_without_history_reads) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::gelu(at::linear(t.x, t.weights[0]));
    multiply_in_place(h, t.biases[changed ? 1 : 0]);
    return at::linear(at::tanh(at::linear(h, t.weights[1])), t.weights[2]);
  });
}

TEST_P(ChangedPaths, a_part_of_a_parameter_that_a_write_without_history_reads) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::gelu(at::linear(t.x, t.weights[0]));
    multiply_in_place(h, t.weights[1].select(0, changed ? 1 : 0) * 1);
    multiply_in_place(h, t.weights[1].select(0, changed ? 3 : 2));
    return at::linear(at::tanh(at::linear(h, t.weights[1])), t.weights[2]);
  });
}

TEST_P(ChangedPaths, a_tensor_with_history_that_a_write_without_history_reads) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor a = at::linear(t.x, t.weights[0]);
    const at::Tensor u = at::sigmoid(a);
    const at::Tensor v = at::tanh(a);
    const at::Tensor h = at::gelu(a) + 1;
    multiply_in_place(h, changed ? v : u);
    return at::linear(at::tanh(at::linear(h, t.weights[1])), t.weights[2]) + u * v;
  });
}

TEST_P(ChangedPaths, one_of_two_that_were_made_alike_which_a_write_without_history_reads) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor u = at::linear(t.x, t.weights[0]).narrow(0, 0, 8);
    const at::Tensor v = at::linear(t.x, t.weights[0]).narrow(0, 8, 8);
    const at::Tensor h = at::gelu(u) + at::gelu(v);
    multiply_in_place(h, changed ? v : u);
    return at::linear(at::tanh(at::linear(h, t.weights[1])), t.weights[2]);
  });
}

// A part that varies from step to step hides no other of the same call.

TEST_P(ChangedPaths, a_summand_behind_a_factor_that_varies) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::gelu(at::linear(t.x, t.weights[0])) * 1.5;
    multiply_in_place(h, t.factor());
    const at::Tensor y = at::silu(h) * at::gelu(h + (changed ? 3 : 0.1));
    return at::linear(at::tanh(at::linear(y, t.weights[1])), t.weights[2]);
  });
}

TEST_P(ChangedPaths, the_operator_that_writes_a_part) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::silu(at::linear(t.x, t.weights[0]));
    const at::Tensor y = h + at::silu(at::linear(h, t.weights[1]));
    at::Tensor part = y.narrow(0, 0, 8);
    changed ? part.add_(3) : part.add_(0.1);
    return at::linear(at::gelu(y), t.weights[2]);
  });
}

TEST_P(ChangedPaths, a_padding_behind_a_factor_that_varies) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::gelu(at::linear(t.x, t.weights[0])) * 1.5;
    multiply_in_place(h, t.factor());
    const at::Tensor padded = at::constant_pad_nd(h, {0, 0, 0, 8}, changed ? 4 : 0);
    return at::linear(at::tanh(at::linear(at::gelu(padded), t.weights[1])), t.weights[2]);
  });
}

TEST_P(ChangedPaths, a_bound_of_one_part_beside_a_factor_that_varies_of_another) {
  expect_departures([](const Tensors& t, bool changed) {
    const at::Tensor h = at::gelu(at::linear(t.x, t.weights[0]));
    const at::Tensor u = h.narrow(1, 0, 16);
    const at::Tensor v = h.narrow(1, 16, 16);
    multiply_in_place(u, t.factor());
    write(v, changed, /*in_a_list=*/false);
    return at::mm(u, t.weights[1].narrow(0, 0, 16)) * at::mm(v, t.weights[2].narrow(0, 0, 16));
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, ChangedPaths,
                         testing::Values("mirror", "mirror+echo", "echo", "echo+attn", "gist",
                                         "echo+gist", "offload:all", "echo+offload:all", "budget",
                                         "dpr8", "echo+dpr8"),
                         [](const auto& info) { return plain_name(info.param); });

/// Neither a saved tensor, nor autograd, nor the calls of operators show which of two tensors
/// is read that have no history and of which the mode was not told. Only values tell.
class HiddenChanges : public testing::TestWithParam<const char*> {
 protected:
  /// Backward gives the right gradient or an error that names the operator: so many. A budget that
  /// cannot keep what differed ends the training with an error of its own.
  static int errors_of(const Forward& forward) {
    const auto changed = std::make_shared<bool>(false);
    const MakeModel make = model_of(forward, changed);
    ModeRun none("none", make);
    ModeRun run(mode_for(GetParam(), make), make);
    int errors = 0;
    for (int64_t number = 1; number <= kLast + 1; ++number) {
      SCOPED_TRACE(number);
      *changed = number >= kChange;
      const std::vector<at::Tensor> expected = none.step(number);
      const int64_t level = live_bytes();
      try {
        expect_equal(expected, run.step(number));
      } catch (const BudgetTooSmall&) {
        EXPECT_GT(errors, 0);
        EXPECT_STREQ(GetParam(), "budget");
        return errors;
      } catch (const c10::Error& error) {
        ++errors;
        const std::string words = error.what_without_backtrace();
        EXPECT_NE(words.find("the result of aten::"), std::string::npos) << words;
        EXPECT_NE(words.find("is not what forward had"), std::string::npos) << words;
        EXPECT_GE(number, kChange);
        run.mode().end_step();
        static_cast<void>(run.take_gradients());
      }
      if (number > 4) {
        EXPECT_EQ(live_bytes(), level);
      }
    }
    const PlannedModeReport report = run.report();
    EXPECT_EQ(report.counters.mismatches, errors);
    EXPECT_GE(report.kept_after_mismatch, errors);
    EXPECT_EQ(report.missing_reason, "");
    return errors;
  }
};

/// Both are saved in every pass, so the sum can be made again from either.
at::Tensor another_of_the_others(const Tensors& t, bool changed) {
  const at::Tensor h = at::linear(t.x, t.weights[0]);
  const at::Tensor y = at::silu(h);
  const at::Tensor both = y * t.others[0] + y * t.others[1];
  return at::linear(both * at::silu(h + t.others[changed ? 1 : 0]), t.weights[1]);
}

TEST_P(HiddenChanges, are_right_or_an_error) {
  EXPECT_LE(errors_of(another_of_the_others), 1) << "all that could be wrong is kept from then on";
}

INSTANTIATE_TEST_SUITE_P(Modes, HiddenChanges,
                         testing::Values("mirror", "mirror+echo", "echo", "echo+attn", "gist",
                                         "echo+gist", "offload:all", "echo+offload:all", "budget"),
                         [](const auto& info) { return plain_name(info.param); });

/// `echo` makes the sum again, which silu saved.
class HiddenChangesUnderEcho : public HiddenChanges {};

TEST_P(HiddenChangesUnderEcho, are_seen_at_once) {
  EXPECT_EQ(errors_of(another_of_the_others), 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, HiddenChangesUnderEcho,
                         testing::Values("echo", "echo+gist", "echo+offload:all"),
                         [](const auto& info) { return plain_name(info.param); });

TEST(HiddenChange, names_the_operator_its_shape_and_who_saved_it) {
  const auto changed = std::make_shared<bool>(false);
  const Forward forward = [](const Tensors& t, bool other) {
    const at::Tensor h = at::linear(t.x, t.weights[0]);
    const at::Tensor y = at::silu(h);
    const at::Tensor both = y * t.others[0] + y * t.others[1];
    // mm alone saves what is made from the sum.
    return both + at::mm((h + t.others[other ? 1 : 0]) * 0.5, t.weights[1]);
  };
  ModeRun run("echo", model_of(forward, changed));
  for (int64_t number = 1; number < kChange; ++number) static_cast<void>(run.step(number));
  *changed = true;
  try {
    static_cast<void>(run.step(kChange));
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    const std::string words = error.what_without_backtrace();
    EXPECT_NE(words.find("the result of aten::mul"), std::string::npos) << words;
    EXPECT_NE(words.find("[16, 32]"), std::string::npos) << words;
    EXPECT_NE(words.find("aten::mm"), std::string::npos) << words;
  }
}

/// The error promises that what differed is kept from the next step on, whenever backward comes.
TEST(HiddenChange, that_a_backward_after_its_step_finds_is_kept_from_the_next_step_on) {
  const auto changed = std::make_shared<bool>(false);
  const MakeModel make = model_of(another_of_the_others, changed);
  ModeRun none("none", make);
  ModeRun run("echo", make);
  for (int64_t number = 1; number < kChange; ++number) static_cast<void>(run.step(number));
  *changed = true;
  run.begin(kChange);
  {
    const at::Tensor loss = run.forward();
    run.mode().end_step();
    EXPECT_THROW(loss.backward(), c10::Error);
  }
  EXPECT_EQ(run.report().kept_after_mismatch, 0) << "a finding of after the step";
  static_cast<void>(run.take_gradients());
  expect_equal(none.step(kChange + 1), run.step(kChange + 1));
  EXPECT_EQ(run.report().counters.mismatches, 1);
  EXPECT_GE(run.report().kept_after_mismatch, 1);
  EXPECT_EQ(run.report().missing_reason, "");
}

TEST(HiddenChange, that_is_found_when_a_second_forward_pass_has_begun_is_kept_too) {
  const auto changed = std::make_shared<bool>(false);
  const MakeModel make = model_of(another_of_the_others, changed);
  ModeRun none("none", make);
  ModeRun run("echo", make);
  for (int64_t number = 1; number < kChange; ++number) static_cast<void>(run.step(number));
  *changed = true;
  run.begin(kChange);
  {
    const at::Tensor first = run.forward();
    const at::Tensor second = run.forward();
    EXPECT_THROW(first.backward(), c10::Error);
    EXPECT_THROW(second.backward(), c10::Error) << "it was saved by the old plan";
  }
  run.mode().end_step();
  static_cast<void>(run.take_gradients());
  expect_equal(none.step(kChange + 1), run.step(kChange + 1));
  EXPECT_EQ(run.report().counters.mismatches, 2);
}

/// Constants that are others in every pass are no change: what depends on them is kept. `number`:
/// of the step, written before each.
void expect_no_departure(const Forward& forward, int64_t& number) {
  const MakeModel make = model_of(forward, std::make_shared<bool>(false));
  ModeRun none("none", make);
  ModeRun run("echo", make);
  for (number = 1; number <= kLast; ++number) expect_equal(none.step(number), run.step(number));
  EXPECT_EQ(run.report().counters.departures, 0);
  EXPECT_GT(run.report().unrepeatable, 0);
  EXPECT_GT(run.report().counters.recipes_run, 0);
}

TEST(VaryingNumbers, are_no_departure) {
  int64_t step = 0;
  expect_no_departure(
      [&step](const Tensors& t, bool) {
        const at::Tensor h = at::linear(t.x, t.weights[0]);
        const at::Tensor y = at::silu(h) + at::silu(h * static_cast<double>(1 + step));
        return at::linear(at::silu(y), t.weights[1]);
      },
      step);
}

TEST(VaryingNumbers, that_autograd_does_not_keep_are_no_departure) {
  int64_t step = 0;
  expect_no_departure(
      [&step](const Tensors& t, bool) {
        const at::Tensor h = at::linear(t.x, t.weights[0]);
        const at::Tensor y = at::silu(h) + at::silu(h + static_cast<double>(1 + step));
        return at::linear(at::silu(y), t.weights[1]);
      },
      step);
}

/// Operators without a part in what is saved may come and go: a program that looks at a mean now
/// and then.
TEST(OtherWork, between_the_operators_is_no_departure) {
  const auto changed = std::make_shared<bool>(false);
  double seen = 0;
  const MakeModel make = model_of(
      [&seen](const Tensors& t, bool looks) {
        const at::Tensor h = at::linear(t.x, t.weights[0]);
        const at::Tensor y = at::silu(h + 2);
        if (looks) seen += (y * 3 + t.buffers[0]).detach().sum().item<double>();
        return at::linear(at::silu(y + 1), t.weights[1]);
      },
      changed);
  ModeRun none("none", make);
  ModeRun run("echo", make);
  for (int64_t number = 1; number <= kLast; ++number) {
    *changed = number % 2 == 0 && number > 4;
    expect_equal(none.step(number), run.step(number));
  }
  EXPECT_NE(seen, 0);
  EXPECT_EQ(run.report().counters.departures, 0);
  EXPECT_GT(run.report().counters.recipes_run, 0);
}

}  // namespace
}  // namespace noisemark::memopt::test
