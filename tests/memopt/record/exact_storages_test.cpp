#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memopt/record/exact_storages.h"
#include "memopt/replay/bounded_rounding.h"
#include "tests/memopt/mode_run.h"
#include "tests/memopt/recording_sink.h"

/// The saved tensors that a lossy mode must not round, told by the operators that saved them.

namespace noisemark::memopt::test {
namespace {

using Net = std::function<at::Tensor(const at::Tensor& h, const at::Tensor& w)>;

enum class End { kLinear, kNone };

/// Names the operators that saved what may be rounded, of a net behind a linear layer, and before
/// another unless it is the end.
std::set<std::string> rounded(const Net& net, End end = End::kLinear) {
  at::manual_seed(3);
  const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
  RecordingSink sink(ModelView{{{"w", w}}, {}, 1});
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    const at::Tensor result = net(at::linear(at::randn({32, 32}), w), w);
    loss = (end == End::kLinear ? at::linear(result, w) : result).sum();
  }
  loss.backward();
  const StepGraph graph = sink.take();
  std::set<std::string> savers;
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    const RecordedValue& value = graph.values[static_cast<size_t>(graph.slots[s].value)];
    const RecordedStorage& storage = graph.storages[static_cast<size_t>(value.storage)];
    if (storage.external || storage.exact || value.dtype == at::kBool) continue;
    savers.insert(graph.saver_of(static_cast<SlotId>(s)));
  }
  return savers;
}

using Savers = std::set<std::string>;

TEST(ExactStorages, are_not_those_of_matrix_products_norms_and_activations) {
  EXPECT_EQ(rounded([](const at::Tensor& h, const at::Tensor&) { return at::silu(h); }),
            (Savers{"aten::silu", "aten::mm"}));
  EXPECT_EQ(rounded([](const at::Tensor& h, const at::Tensor&) { return at::relu(h); }),
            (Savers{"aten::relu", "aten::mm"}));
  EXPECT_TRUE(rounded([](const at::Tensor& h, const at::Tensor&) {
                return at::layer_norm(h, {32});
              }).contains("aten::native_layer_norm"));
  EXPECT_TRUE(rounded([](const at::Tensor& h, const at::Tensor& w) {
                return h * at::linear(h, w);
              }).contains("aten::mul"));
}

TEST(ExactStorages, are_what_a_steep_derivative_reads) {
  for (const Net& net : {
           Net([](const at::Tensor&h, const at::Tensor&) { return at::log(h.square() + 1); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::rsqrt(h.square() + 1); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::pow(h.square() + 1, -1.5); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::reciprocal(h.exp()); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::log_softmax(h, -1); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return h / (h.square() + 1); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::sqrt(h.square() + 1); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return h / h.norm(2, -1, true); }),
       }) {
    // The result is an operand of the next matrix product alone where its maker saved it not.
    const Savers savers = rounded(net);
    for (const std::string& saver : savers) EXPECT_EQ(saver, "aten::mm");
  }
}

TEST(ExactStorages, are_what_a_wave_or_a_steep_step_is_taken_of) {
  for (const Net& net : {
           Net([](const at::Tensor&h, const at::Tensor&) { return at::sin(100 * h); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::cos(100 * h); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::softplus(h, 50); }),
       }) {
    EXPECT_EQ(rounded(net), Savers{"aten::mm"});
  }
  EXPECT_TRUE(rounded([](const at::Tensor& h, const at::Tensor&) {
                return at::softplus(h);
              }).contains("aten::softplus"));
}

TEST(ExactStorages, are_what_passes_its_gradient_on_to_a_steep_derivative) {
  EXPECT_FALSE(rounded([](const at::Tensor& h, const at::Tensor&) {
                 return at::log(at::sigmoid(h) + 1e-8);
               }).contains("aten::sigmoid"));
  EXPECT_FALSE(rounded([](const at::Tensor& h, const at::Tensor&) {
                 return at::log(at::softmax(h, -1).clamp_min(1e-8));
               }).contains("aten::_softmax"));
  for (const Net& steep : {
           Net([](const at::Tensor&p, const at::Tensor&) { return at::lgamma(p); }),
           Net([](const at::Tensor&p, const at::Tensor&) { return at::digamma(p); }),
           Net([](const at::Tensor&p, const at::Tensor&) { return at::special_ndtri(p); }),
           Net([](const at::Tensor&p, const at::Tensor&) { return at::atan2(p, p); }),
           Net([](const at::Tensor&p, const at::Tensor&) { return at::logdet(p) + p; }),
           Net([](const at::Tensor&p, const at::Tensor&) {
             return std::get<0>(at::linalg_eigh(p)) + p;
           }),
       }) {
    const Savers savers =
        rounded([&](const at::Tensor& h, const at::Tensor& w) { return steep(at::sigmoid(h), w); });
    EXPECT_FALSE(savers.contains("aten::sigmoid"));
  }
}

TEST(ExactStorages, are_what_multiplies_a_gradient_that_a_steep_derivative_multiplies_again) {
  const Net variance_head = [](const at::Tensor& h, const at::Tensor& w) {
    const at::Tensor spread = at::linear(h, w);
    return h.square() * at::exp(-spread) + spread;
  };
  const Savers savers = rounded(variance_head);
  EXPECT_FALSE(savers.contains("aten::mul"));
  EXPECT_FALSE(savers.contains("aten::exp"));
}

TEST(ExactStorages, are_a_softmax_that_nothing_mixes) {
  const Net softmax = [](const at::Tensor& h, const at::Tensor&) {
    return (2 * at::softmax(h, -1)).view({4, 8, 32}).flatten(0, 1);
  };
  const Net attention = [](const at::Tensor& h, const at::Tensor&) {
    return at::softmax(h.mm(h.t()), -1).mm(h);
  };
  const Net squared = [&softmax](const at::Tensor& h, const at::Tensor& w) {
    return softmax(h, w).square();
  };
  const Net logarithm = [](const at::Tensor& h, const at::Tensor&) {
    return at::tanh(h - h.logsumexp(-1, true));
  };
  const Net fused = [](const at::Tensor& h, const at::Tensor&) {
    return at::tanh(at::log_softmax(h, -1));
  };
  EXPECT_TRUE(rounded(softmax).contains("aten::_softmax"));
  EXPECT_TRUE(rounded(attention, End::kNone).contains("aten::_softmax"));
  EXPECT_FALSE(rounded(softmax, End::kNone).contains("aten::_softmax"));
  // Rounding a factor of its gradient would make two that cancel differ.
  for (const Net& net : {squared, logarithm, fused}) {
    EXPECT_EQ(rounded(net, End::kNone), (Savers{"aten::mm"}));
  }
}

TEST(ExactStorages, are_a_softmax_and_an_attention_of_what_nothing_bounds) {
  const auto attend = [](const at::Tensor& h) {
    const at::Tensor heads = h.view({1, 1, 32, 32});
    return at::scaled_dot_product_attention(heads, heads, heads).view({32, 32});
  };
  const std::string attention = "aten::_scaled_dot_product_flash_attention_for_cpu";
  const Net large = [&](const at::Tensor& h, const at::Tensor& w) {
    return attend(at::linear(at::pow(h.square() + 0.1, -1.5), w));
  };
  const Net normed = [&](const at::Tensor& h, const at::Tensor& w) {
    return attend(at::layer_norm(at::linear(at::exp(h), w), {32}));
  };
  const Net unit = [&](const at::Tensor& h, const at::Tensor& w) {
    const at::Tensor length = at::clamp_min(h.norm(2, -1, true), 1e-3);
    return attend(at::linear(h / length.expand_as(h), w));
  };
  const Net scores = [&](const at::Tensor& h, const at::Tensor&) {
    const at::Tensor large = at::reciprocal(h.square() + 0.1);
    return at::softmax(large.mm(large.t()), -1).mm(large);
  };
  EXPECT_FALSE(rounded(large).contains(attention));
  EXPECT_TRUE(rounded(normed).contains(attention));
  EXPECT_TRUE(rounded(unit).contains(attention));
  EXPECT_FALSE(rounded(scores).contains("aten::_softmax"));
}

TEST(ExactStorages, are_what_a_matrix_product_saves_of_what_nothing_bounds) {
  const auto grown = [](const at::Tensor& h) { return at::pow(h.square() + 0.1, -1.5); };
  const auto multiply = [](const at::Tensor& h, const at::Tensor& w) {
    return at::bmm(h.unsqueeze(0), w.unsqueeze(0)).squeeze(0);
  };
  const Net growing[] = {
      [&](const at::Tensor& h, const at::Tensor& w) { return multiply(grown(h), w); },
      [&](const at::Tensor& h, const at::Tensor& w) {
        return multiply(2 * at::linalg_householder_product(h, h.select(0, 0)), w);
      },
      [&](const at::Tensor& h, const at::Tensor& w) {
        return multiply(at::addcdiv(h, h, h.square() + 0.1), w);
      },
      [&](const at::Tensor& h, const at::Tensor& w) {
        return multiply(at::prod(h, 1, true).expand_as(h).contiguous(), w);
      },
  };
  const Net bounded = [&](const at::Tensor& h, const at::Tensor& w) {
    return multiply(at::layer_norm(grown(h), {32}), w);
  };
  for (const Net& net : growing) EXPECT_FALSE(rounded(net).contains("aten::bmm"));
  EXPECT_TRUE(rounded(bounded).contains("aten::bmm"));
}

/// A part of something is not smaller than that, nor is half of a spectrum.
TEST(ExactStorages, are_what_a_matrix_product_saves_of_what_grew_in_a_part_of_something_larger) {
  for (const Net& grown : {
           Net([](const at::Tensor&h, const at::Tensor&) { return at::exp(h.narrow(1, 0, 16)); }),
           Net([](const at::Tensor&h, const at::Tensor&) { return at::exp(h.sum(1, true)); }),
           Net([](const at::Tensor&h, const at::Tensor&) {
             return at::fft_irfft(at::exp(at::fft_rfft(h)), 32);
           }),
       }) {
    EXPECT_FALSE(rounded([&](const at::Tensor& h, const at::Tensor& w) {
                   const at::Tensor part = grown(h, w).repeat({1, 2}).narrow(1, 0, 2);
                   return at::bmm(part.unsqueeze(0), w.narrow(0, 0, 2).unsqueeze(0)).squeeze(0);
                 }).contains("aten::bmm"));
  }
}

TEST(ExactStorages, are_what_leads_to_the_solution_of_a_linear_system) {
  const auto solve = [](const at::Tensor& a) { return at::linalg_solve(a, a); };
  const auto invert = [](const at::Tensor& a) { return at::linalg_pinv(a); };
  const auto fit = [](const at::Tensor& a) { return std::get<0>(at::linalg_lstsq(a, a)); };
  for (const std::function<at::Tensor(const at::Tensor&)>& solved :
       {std::function<at::Tensor(const at::Tensor&)>(solve), {invert}, {fit}}) {
    EXPECT_FALSE(rounded([&](const at::Tensor& h, const at::Tensor&) {
                   return solved(at::sigmoid(h) + at::eye(32));
                 }).contains("aten::sigmoid"));
  }
}

/// Its gradient may be all in one row, which is small.
TEST(ExactStorages, are_what_a_matrix_product_before_a_steep_operator_reads) {
  const auto rows_of = [](const at::Tensor& h, const at::Tensor& w) {
    return at::bmm(at::silu(h).unsqueeze(0), w.unsqueeze(0)).squeeze(0);
  };
  const Net steep = [&](const at::Tensor& h, const at::Tensor& w) {
    return at::pow(rows_of(h, w).square() + 0.1, -1.5);
  };
  const Net unit = [&](const at::Tensor& h, const at::Tensor& w) {
    const at::Tensor rows = rows_of(h, w);
    return rows / rows.norm(2, -1, true).expand_as(rows);
  };
  const Net root = [&](const at::Tensor& h, const at::Tensor& w) {
    const at::Tensor rows = rows_of(h, w);
    return rows * at::rsqrt(rows.square().mean(-1, true) + 1e-5);
  };
  // Its terms may cancel, and it is then no scale of the row.
  const Net mean = [&](const at::Tensor& h, const at::Tensor& w) {
    const at::Tensor rows = rows_of(h, w);
    return rows / (rows.mean(-1, true).square() + 1e-5);
  };
  EXPECT_FALSE(rounded(steep).contains("aten::bmm"));
  EXPECT_TRUE(rounded(unit).contains("aten::bmm"));
  EXPECT_TRUE(rounded(root).contains("aten::bmm"));
  EXPECT_FALSE(rounded(mean).contains("aten::bmm"));
}

TEST(ExactStorages, are_what_leaves_the_pass_for_an_operator_that_nobody_sees) {
  const auto rounds_any = [](bool leaves, bool is_measured = false) {
    at::manual_seed(3);
    const at::Tensor w = at::randn({32, 32}).requires_grad_();
    RecordingSink sink(ModelView{{{"w", w}}, {}, 1});
    at::Tensor result;
    {
      const SavedTensorScope scope(sink);
      result = at::sigmoid(at::linear(at::randn({32, 32}), w));
      if (!leaves) result = result.sum();
      if (is_measured) static_cast<void>(result.detach().mean());
    }
    (leaves ? at::log(result + 1e-8).sum() : result).backward();
    const StepGraph graph = sink.take();
    return std::any_of(graph.slots.begin(), graph.slots.end(),
                       [](const RecordedSlot& slot) { return !slot.exact; });
  };
  EXPECT_TRUE(rounds_any(false));
  EXPECT_FALSE(rounds_any(true));
  EXPECT_FALSE(rounds_any(true, /*is_measured=*/true)) << "a metric hands nothing on";
}

TEST(ExactStorages, are_masks_and_what_is_compared) {
  const Net masked = [](const at::Tensor& h, const at::Tensor&) {
    const at::Tensor mask = at::zeros({32, 32}).masked_fill_(
        at::ones({32, 32}, at::kBool).triu(1), -std::numeric_limits<float>::infinity());
    const at::Tensor heads = h.view({1, 1, 32, 32});
    return at::scaled_dot_product_attention(heads, heads, heads, mask).view({32, 32});
  };
  at::manual_seed(3);
  RecordingSink sink(ModelView{{}, {}, 1});
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    loss = masked(at::randn({32, 32}).requires_grad_(), {}).sum();
  }
  loss.backward();
  const StepGraph graph = sink.take();
  int minus_infinite = 0;
  for (const RecordedSlot& slot : graph.slots) {
    const RecordedOperator* made_by = graph.producer_of(slot.value);
    if (made_by == nullptr || made_by->name != "aten::masked_fill_") continue;
    EXPECT_TRUE(slot.exact);
    ++minus_infinite;
  }
  EXPECT_LE(minus_infinite, 1);
  EXPECT_FALSE(rounded([](const at::Tensor& h, const at::Tensor& w) {
                 return at::maximum(h, at::linear(h, w));
               }).contains("aten::maximum"));
}

TEST(ExactStorages, are_those_of_operators_that_are_not_known) {
  EXPECT_FALSE(rounded([](const at::Tensor& h, const at::Tensor&) {
                 return at::erf(h);
               }).contains("aten::erf"));
}

TEST(ExactStorages, are_not_told_by_a_factor_that_all_elements_share) {
  EXPECT_TRUE(rounded([](const at::Tensor& h, const at::Tensor&) {
                const at::Tensor s = at::silu(h);
                return s / s.detach().square().mean().sqrt();
              }).contains("aten::silu"));
}

/// The largest error of a gradient under a mode, in parts of the gradient.
double largest_error(const std::string& mode, const std::function<TestModel()>& make) {
  ModeRun exact("none", make);
  ModeRun run(mode, make);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (int64_t step = 1; step <= 8; ++step) {
    const auto expected = exact.step(step);
    const auto got = run.step(step);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
      largest = std::max(largest, std::isfinite(error) ? error : kInfinity);
    }
  }
  return largest;
}

/// The gradient of a tanh that is saturated is smaller than any rounding of it.
TEST(Rounding, of_an_activation_is_left_where_nothing_bounds_what_it_reads) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({8, 8}).mul_(0.3).requires_grad_();
    const at::Tensor x = at::randn({30, 8});
    model.view.parameters = {{"w", w}};
    model.loss = [w, x] {
      return at::tanh(at::linear(at::reciprocal(x.square() + 0.1), w)).mean();
    };
    return model;
  };
  EXPECT_EQ(largest_error("dpr8", make), 0);
}

using Activation = std::function<at::Tensor(const at::Tensor&)>;

/// Trains each on a linear layer of an input with rows of that `scale`. The bounds are those of the
/// oracle of random programs, for "q2" 8.
void expect_bounded_errors(const std::vector<Activation>& activations, const at::Tensor& scale) {
  for (size_t a = 0; a < activations.size(); ++a) {
    const auto make = [&activation = activations[a], &scale] {
      TestModel model;
      const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
      const at::Tensor x = at::randn({32, 32}) * scale;
      const at::Tensor factor = at::randn({32, 32});
      model.view.parameters = {{"w", w}};
      model.loss = [w, x, factor, activation] {
        return (activation(at::linear(x, w)) * factor).sum();
      };
      return model;
    };
    for (const auto& [mode, bound] : {std::pair{"dpr8", 0.5}, {"q4", 1.2}, {"q2", 8.0}}) {
      EXPECT_LT(largest_error(mode, make), bound) << mode << ", activation " << a;
    }
  }
}

/// A large argument is often made of large values, which multiply the error of the slope.
TEST(Rounding, of_a_saturated_activation_is_left_though_others_are_not_saturated) {
  expect_bounded_errors(
      {[](const at::Tensor& h) { return at::tanh(h); },
       [](const at::Tensor& h) { return at::sigmoid(h); },
       [](const at::Tensor& h) { return at::softmax(h, -1).mm(at::eye(32).flip(0)); }},
      at::linspace(0, 14, 32).exp().unsqueeze(1));
}

/// A few large elements set the range in which the others are rounded: half of these would come to
/// the wrong side of a step, and half of the gradient would be lost.
TEST(Rounding, of_a_rectifier_leaves_elements_on_their_side_beside_a_few_large_ones) {
  const std::vector<Activation> rectifiers = {
      [](const at::Tensor& h) { return at::relu(h); },
      [](const at::Tensor& h) { return at::leaky_relu(h, 0.2); },
      [](const at::Tensor& h) { return at::threshold(h, 0.1, 0); },
      [](const at::Tensor& h) { return at::elu(h); },
      [](const at::Tensor& h) { return at::mish(h); },
      [](const at::Tensor& h) {
        return at::glu(at::cat({h, h}, 1));
      }};
  for (size_t a = 0; a < rectifiers.size(); ++a) {
    const auto make = [&rectifier = rectifiers[a]] {
      TestModel model;
      const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
      const at::Tensor x = at::randn({32, 32});
      at::Tensor scale = at::ones({32});
      scale[5] = 1e4;
      const at::Tensor inverse = at::randn({32, 32}) / scale;
      model.view.parameters = {{"w", w}};
      model.loss = [=] { return (rectifier(at::linear(x, w) * scale) * inverse).sum(); };
      return model;
    };
    EXPECT_LT(largest_error("q4", make), 0.3) << a;
  }
}

/// All slopes are some 1e-4, of which the rounding of an argument near -12 leaves none.
TEST(Rounding, of_what_an_activation_reads_is_left_where_all_of_it_is_flat) {
  expect_bounded_errors({[](const at::Tensor& h) { return at::silu(h * 2 - 12); },
                         [](const at::Tensor& h) { return at::gelu(h - 6); },
                         [](const at::Tensor& h) { return at::softplus(h * 2 - 12); },
                         [](const at::Tensor& h) { return at::softplus(h / 2 - 3, 4); }},
                        at::ones({1}));
}

/// The weights of an attention by hand are made again from what its block reads. The bounds are
/// those of the oracle of random programs.
TEST(Rounding, of_what_a_hot_softmax_is_made_from_again_is_left) {
  const auto make = [] {
    TestModel model;
    const at::Tensor embedding = at::randn({16, 16}).mul_(0.25).requires_grad_();
    const at::Tensor projection = at::randn({48, 16}).mul_(0.25).requires_grad_();
    const at::Tensor out = at::randn({16, 16}).mul_(0.25).requires_grad_();
    const at::Tensor x = at::randn({2, 24, 16});
    const at::Tensor factor = at::randn({2, 24, 16});
    model.view.parameters = {{"embedding", embedding},
                             {"layers.0.attention.projection", projection},
                             {"layers.0.attention.out", out}};
    model.loss = [=] {
      const at::Tensor h = at::layer_norm(at::linear(x, embedding), {16});
      const std::vector<at::Tensor> parts = at::linear(h, projection).chunk(3, -1);
      const at::Tensor logits = at::matmul(parts[0] * 40, parts[1].transpose(1, 2));
      const at::Tensor mixed = at::matmul(at::softmax(logits, -1), parts[2]);
      return (at::linear(mixed, out) * factor).sum();
    };
    return model;
  };
  for (const auto& [codec, bound] : {std::pair{"dpr8", 0.5}, {"q4", 1.2}, {"q2", 8.0}}) {
    for (const char* replay : {"", "echo+", "echo+attn+", "echo+attn+gist+"}) {
      const std::string mode = std::string(replay) + codec;
      EXPECT_LT(largest_error(mode, make), bound) << mode;
    }
  }
}

/// The gradient is that of the small rows, since a norm makes all rows of one size.
TEST(Rounding, of_small_rows_before_a_norm_is_left) {
  const auto make = [] {
    TestModel model;
    const at::Tensor first = at::randn({32, 32}).mul_(0.2).requires_grad_();
    const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
    const at::Tensor x = at::randn({32, 32});
    x.slice(0, 0, 32, 2).mul_(1e-3);
    const at::Tensor factor = at::randn({32, 32});
    model.view.parameters = {{"first", first}, {"w", w}};
    model.loss = [=] {
      const at::Tensor h = at::linear(at::linear(x, first), w);
      return (at::layer_norm(h, {32}, {}, {}, 1e-12) * factor).sum();
    };
    return model;
  };
  for (const auto& [mode, bound] : {std::pair{"dpr8", 0.5}, {"q4", 1.2}, {"q2", 8.0}}) {
    EXPECT_LT(largest_error(mode, make), bound) << mode;
  }
}

/// A layer whose queries and keys are made again from what its norm reads. `made` gets the weights
/// of its projection, whose first two thirds are theirs.
std::function<TestModel()> attending_model(double scale, std::vector<at::Tensor>* made = nullptr) {
  return [scale, made] {
    TestModel model;
    const at::Tensor embedding = at::randn({16, 16}).mul_(0.25).requires_grad_();
    at::Tensor projection = at::randn({48, 16}).mul_(0.25);
    projection.narrow(0, 0, 32).mul_(scale);
    projection.requires_grad_();
    if (made != nullptr) made->push_back(projection);
    const at::Tensor x = at::randn({2, 24, 16});
    const at::Tensor factor = at::randn({2, 24, 16});
    model.view.parameters = {{"embedding", embedding},
                             {"layers.0.attention.projection", projection}};
    model.loss = [=] {
      const at::Tensor h = at::layer_norm(at::linear(x, embedding), {16});
      const std::vector<at::Tensor> parts = at::linear(h, projection).chunk(3, -1);
      const auto heads = [](const at::Tensor& part) {
        return part.unflatten(-1, {2, 8}).transpose(1, 2);
      };
      const at::Tensor mixed =
          at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
      return (mixed.transpose(1, 2).flatten(2) * factor).sum();
    };
    return model;
  };
}

TEST(Rounding, of_what_queries_and_keys_are_made_from_again_is_bounded_by_a_logit) {
  for (const auto& [codec, bound] : {std::pair{"dpr8", 0.5}, {"q4", 1.2}}) {
    for (const char* replay : {"echo+attn+", "mirror+"}) {
      const std::string mode = std::string(replay) + codec;
      EXPECT_LT(largest_error(mode, attending_model(12)), bound) << mode;
    }
  }
}

TEST(Rounding, of_what_queries_and_keys_are_made_from_again_is_an_error_once_they_have_grown) {
  std::vector<at::Tensor> projections;
  ModeRun none("none", attending_model(1, &projections));
  ModeRun run("echo+attn+dpr8", attending_model(1, &projections));
  int errors = 0;
  for (int64_t number = 1; number <= 16; ++number) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& projection : projections) {
      if (number == 8) projection.narrow(0, 0, 32).mul_(12);
    }
    const at::AutoGradMode grad(true);
    const std::vector<at::Tensor> exact = none.step(number);
    std::vector<at::Tensor> rounded;
    try {
      rounded = run.step(number);
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("logits"), std::string::npos) << error.what();
      ++errors;
      run.mode().end_step();
      static_cast<void>(run.take_gradients());
      continue;
    }
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LT((rounded[i] - exact[i]).norm().item<double>(), 0.5 * exact[i].norm().item<double>())
          << number;
    }
  }
  EXPECT_EQ(errors, 1);
}

/// A layer whose query is normalized, and made again from what its norm reads; the key is that of
/// other tokens, and saved itself. `scales`: factors of query and key, [2].
std::function<TestModel()> cross_attending_model(const at::Tensor& scales) {
  return [scales] {
    TestModel model;
    const at::Tensor of_query = at::randn({16, 16}).mul_(0.25).requires_grad_();
    const at::Tensor of_key = at::randn({16, 16}).mul_(0.25).requires_grad_();
    const at::Tensor x = at::randn({2, 24, 16});
    const at::Tensor tokens = at::randn({2, 24, 16});
    const at::Tensor factor = at::randn({2, 24, 16});
    model.view.parameters = {{"query", of_query}, {"key", of_key}};
    model.view.buffers = {scales};
    model.loss = [=] {
      const at::Tensor query = at::layer_norm(at::linear(x, of_query), {16}) * scales[0];
      const at::Tensor key = at::linear(tokens * scales[1], of_key);
      const auto heads = [](const at::Tensor& part) {
        return part.unflatten(-1, {2, 8}).transpose(1, 2);
      };
      const at::Tensor mixed =
          at::scaled_dot_product_attention(heads(query), heads(key), heads(tokens));
      return (mixed.transpose(1, 2).flatten(2) * factor).sum();
    };
    return model;
  };
}

TEST(Rounding, of_what_a_query_is_made_from_again_is_an_error_once_query_or_key_has_grown) {
  for (const int grown : {0, 1}) {
    const at::Tensor scales = at::ones({2});
    ModeRun none("none", cross_attending_model(scales));
    ModeRun run("echo+dpr8", cross_attending_model(scales));
    int errors = 0;
    for (int64_t number = 1; number <= 16; ++number) {
      if (number == 8) scales[grown] = 100;
      const std::vector<at::Tensor> exact = none.step(number);
      std::vector<at::Tensor> rounded;
      try {
        rounded = run.step(number);
      } catch (const c10::Error&) {
        ++errors;
        run.mode().end_step();
        static_cast<void>(run.take_gradients());
        continue;
      }
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_LT((rounded[i] - exact[i]).norm().item<double>(),
                  0.5 * exact[i].norm().item<double>())
            << number << ", " << (grown == 0 ? "query" : "key");
      }
    }
    EXPECT_EQ(errors, 1) << grown;
  }
}

at::Tensor in_heads(const at::Tensor& part) {
  return part.unflatten(-1, {2, 8}).transpose(1, 2);
}

struct Attended {
  at::Tensor query, key, value;  ///< [2, 24, 16]
  at::Tensor grown;              ///< [16], which is 1, and from step 8 on so large that "q4" would
                                 ///< move logits of a key times this by some 7
  at::Tensor probe;              ///< [16], a parameter
};

using Attend = std::function<at::Tensor(const Attended&)>;

MakeModel model_that_attends(const Attend& attend, const at::Tensor& grown) {
  return [attend, grown] {
    TestModel model;
    std::vector<at::Tensor> weights;
    for (const char* name : {"query", "key", "value"}) {
      weights.push_back(at::randn({16, 16}).mul_(0.25).requires_grad_());
      model.view.parameters.emplace_back(name, weights.back());
    }
    const at::Tensor probe = at::randn({16}).requires_grad_();
    model.view.parameters.emplace_back("probe", probe);
    model.view.buffers = {grown};
    const at::Tensor x = at::randn({2, 24, 16});
    model.loss = [=] {
      return attend({at::linear(x, weights[0]) * 2, at::linear(x.roll(1), weights[1]),
                     at::linear(x.roll(2), weights[2]), grown, probe});
    };
    return model;
  };
}

void grow(const at::Tensor& grown) {
  grown.fill_(50);
  grown.narrow(0, 0, 1).fill_(500);
}

void expect_right_logits(const Attend& attend) {
  const at::Tensor grown = at::ones({16});
  const MakeModel make = model_that_attends(attend, grown);
  ModeRun none("none", make);
  ModeRun run("q4", make);
  for (int64_t number = 1; number <= 12; ++number) {
    if (number == 8) grow(grown);
    const std::vector<at::Tensor> exact = none.step(number);
    const std::vector<at::Tensor> rounded = run.step(number);
    for (size_t i = 0; i < 2; ++i) {  // those of query and key
      EXPECT_LT((rounded[i] - exact[i]).norm().item<double>(), 1.2 * exact[i].norm().item<double>())
          << number << ", " << i;
    }
  }
  EXPECT_GT(run.report().followed_passes, 0);
}

/// The key of the second attention grows when its query and its value have been rounded beside the
/// key of the first.
TEST(Rounding, of_what_several_attentions_read_is_left) {
  expect_right_logits([](const Attended& t) {
    const at::Tensor query = in_heads(t.query);
    const at::Tensor value = in_heads(t.value);
    const at::Tensor first = at::scaled_dot_product_attention(query, in_heads(t.key), value);
    const at::Tensor large = in_heads(t.key.roll(1) * t.grown);
    return (first + at::scaled_dot_product_attention(query, large, value)).square().sum();
  });
}

/// Saves a query, then a key whose norm refuses its rounding, once it has grown, before anybody
/// looks at it as a key. `between` comes after the first.
at::Tensor attend_to_normed(const Attended& t,
                            const std::function<void(const at::Tensor& query)>& between) {
  const at::Tensor query = 0.25 * t.query;
  const at::Tensor probed = (query * t.probe).sum();
  between(query);
  const at::Tensor key = t.key + (t.grown.narrow(0, 1, 1) - 1) * t.key.mean(-1, true);
  const at::Tensor normed = (at::layer_norm(key, {16}) * t.probe).sum();
  const at::Tensor mixed =
      at::scaled_dot_product_attention(in_heads(query), in_heads(key), in_heads(t.value));
  return mixed.square().sum() + 1e-6 * (probed + normed);
}

TEST(Rounding, of_a_query_is_bounded_by_a_key_that_another_operator_refuses_to_round) {
  expect_right_logits(
      [](const Attended& t) { return attend_to_normed(t, [](const at::Tensor&) {}); });
}

TEST(Rounding, of_a_query_that_is_written_before_its_key_is_refused_is_an_error) {
  const at::Tensor grown = at::ones({16});
  const auto writes = std::make_shared<bool>(false);
  const auto attend = [writes](const Attended& t) {
    return attend_to_normed(t, [writes](const at::Tensor& query) {
      if (*writes) query.detach().mul_(2);
    });
  };
  for (const char* mode : {"none", "q4"}) {
    grown.fill_(1);
    *writes = false;
    ModeRun run(mode, model_that_attends(attend, grown));
    for (int64_t number = 1; number <= 7; ++number) static_cast<void>(run.step(number));
    grow(grown);
    *writes = true;
    EXPECT_THROW(static_cast<void>(run.step(8)), c10::Error) << mode;
    run.mode().end_step();
  }
}

TEST(Rounding, of_complex_values_is_compared_by_both_parts) {
  const at::Tensor large = at::randn({64});
  const at::Tensor small = large * 0.01;
  const at::Tensor x = at::complex(small, large);
  EXPECT_TRUE(rounds_within_size(x, x));
  EXPECT_FALSE(rounds_within_size(x, at::complex(small, -large)));
}

/// The difference of two activations of nearly the same values is made again from rounded ones, and
/// a head near zero has nearly all of the gradient. The mode need not know the parameters.
TEST(Rounding, of_what_a_difference_is_made_from_again_is_left) {
  std::vector<at::Tensor> heads;
  const auto make = [&heads](bool tells) {
    TestModel model;
    const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
    const at::Tensor head = at::randn({32, 32}).mul_(1e-4).requires_grad_();
    const at::Tensor x = at::randn({64, 32});
    const at::Tensor noise = at::randn({64, 32}).mul_(0.01);
    const at::Tensor target = at::randn({64, 32});
    if (tells) model.view.parameters = {{"trunk.weight", w}, {"head.weight", head}};
    heads.push_back(head);
    model.loss = [=] {
      const at::Tensor d = at::silu(at::linear(x, w)) - at::silu(at::linear(x + noise, w));
      return (at::linear(d, head) - target).square().mean();
    };
    return model;
  };
  for (const bool tells : {true, false}) {
    for (const auto& [mode, bound] : {std::pair{"echo+dpr8", 0.5}, {"echo+q4", 1.2}}) {
      heads.clear();
      ModeRun exact("none", [&] { return make(tells); });
      ModeRun run(mode, [&] { return make(tells); });
      const auto step = [](ModeRun& of, int64_t number, const at::Tensor& head) {
        head.mutable_grad() = at::Tensor();
        of.begin(number);
        of.forward().backward();
        of.mode().end_step();
        return head.grad();
      };
      for (int64_t number = 1; number <= 8; ++number) {
        const at::Tensor expected = step(exact, number, heads[0]);
        EXPECT_LT((step(run, number, heads[1]) - expected).norm().item<double>(),
                  bound * expected.norm().item<double>())
            << mode << ' ' << number << ' ' << tells;
      }
    }
  }
}

/// Most elements are nothing beside the few that set the range of a group, and all count the same
/// in the gradient.
TEST(Rounding, of_a_few_large_elements_does_not_take_the_others) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({32}).requires_grad_();
    const at::Tensor x = at::randn({32, 32}).mul_(4).exp();
    const at::Tensor factor = x.pow(-2);
    model.view.parameters = {{"w", w}};
    model.loss = [w, x, factor] { return ((x * w).square() * factor).sum(); };
    return model;
  };
  for (const char* mode : {"dpr8", "q4", "q2"}) EXPECT_LT(largest_error(mode, make), 0.5) << mode;
}

TEST(Rounding, of_a_steep_loss_gives_gradients_near_those_of_none) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({32, 32}).mul_(0.3).requires_grad_();
    const at::Tensor u = at::randn({32, 32}).mul_(0.3).requires_grad_();
    const at::Tensor x = at::randn({32, 32});
    model.view.parameters = {{"w", w}, {"u", u}};
    model.loss = [w, u, x] {
      const at::Tensor h = at::silu(at::linear(x, w));
      const at::Tensor mean = at::linear(h, u);
      const at::Tensor spread = 8 * at::tanh(at::linear(h, w));
      const at::Tensor hidden = at::ones({32, 32}, at::kBool).triu(1);
      const at::Tensor logits = mean.masked_fill(hidden, -std::numeric_limits<double>::infinity());
      return (mean.square() * at::exp(-spread) + spread).mean() -
             at::log(at::softmax(mean * 20, -1) + 1e-8).mean() -
             at::log_softmax(logits, -1).masked_fill(hidden, 0).mean();
    };
    return model;
  };
  for (const char* mode : {"dpr8", "q4", "q2", "echo+q4", "gist+dpr8"}) {
    EXPECT_LT(largest_error(mode, make), 1) << mode;
  }
}

/// A mean of 3000 deviations leaves "dpr8" nothing of what a norm reads, and channels that lie as
/// far apart leave "q4" nothing, whose groups of 256 elements are 16 channels here. The tolerance
/// is what rounds_within_spread() allows: an error as large as the deviation.
TEST(Rounding, of_what_a_norm_reads_is_bounded_by_the_deviation) {
  using Norm = std::function<at::Tensor(const at::Tensor&)>;
  const Norm norms[] = {
      [](const at::Tensor& h) {
        return at::layer_norm(h, {4, 4});
      },
      [](const at::Tensor& h) { return at::group_norm(h, 16); },
      [](const at::Tensor& h) {
        return at::instance_norm(h, {}, {}, {}, {}, true, 0.1, 1e-5, false);
      },
      [](const at::Tensor& h) { return at::batch_norm(h, {}, {}, {}, {}, true, 0.1, 1e-5, false); },
  };
  for (size_t n = 0; n < std::size(norms); ++n) {
    const auto make = [&norm = norms[n]] {
      TestModel model;
      const at::Tensor w = at::randn({16, 16, 1, 1}).mul_(0.25).requires_grad_();
      const at::Tensor x = at::randn({8, 16, 4, 4});
      const at::Tensor shift = 3000 * at::randn({1, 16, 1, 1});
      const at::Tensor factor = at::randn({8, 16, 4, 4});
      model.view.parameters = {{"w", w}};
      model.loss = [w, x, shift, factor, norm] {
        return (norm(at::conv2d(x, w) + shift).square() * factor).sum();
      };
      return model;
    };
    for (const char* mode : {"dpr8", "q4", "q2", "echo+dpr8"}) {
      EXPECT_LT(largest_error(mode, make), 1) << mode << ", norm " << n;
    }
  }
}

/// The gradient that a norm gives has the sum 0, which it loses where its input was rounded, and
/// the layer before it multiplies the rest by the mean of what it read, as of pixels. The bounds
/// are those of the oracle of random programs.
TEST(Rounding, of_what_a_norm_reads_is_bounded_where_the_layer_before_it_reads_a_large_mean) {
  for (const double mean : {1, 3, 6, 10}) {
    const auto make = [mean] {
      TestModel model;
      const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
      const at::Tensor head = at::randn({32, 32}).mul_(0.2).requires_grad_();
      const at::Tensor x = at::randn({128, 32}).mul_(0.2).add_(mean);
      model.view.parameters = {{"w", w}, {"head", head}};
      model.loss = [=] {
        const at::Tensor h = at::linear(x, w);
        const at::Tensor normed =
            at::batch_norm(h, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false);
        return at::linear(at::relu(normed), head).square().mean();
      };
      return model;
    };
    for (const auto& [mode, bound] :
         {std::pair{"dpr10", 0.5}, {"dpr8", 0.5}, {"q4", 1.2}, {"echo+dpr8", 0.5}}) {
      EXPECT_LT(largest_error(mode, make), bound) << mode << ", mean " << mean;
    }
  }
}

/// An epsilon of 1e-12 lets a norm divide by deviations of 1e-5.
TEST(Rounding, of_what_a_norm_reads_is_bounded_by_a_deviation_beside_its_own_epsilon) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
    const at::Tensor x = at::randn({32, 32});
    const at::Tensor factor = at::randn({32, 32});
    model.view.parameters = {{"w", w}};
    model.loss = [w, x, factor] {
      const at::Tensor h = at::linear(x, w) * 1e-5 + 1;
      return (at::layer_norm(h, {32}, {}, {}, 1e-12).square() * factor).sum();
    };
    return model;
  };
  for (const char* mode : {"dpr8", "q4", "q2"}) EXPECT_LT(largest_error(mode, make), 1) << mode;
}

/// A pass looks at an eighth of 131,072 elements, which the step chooses.
TEST(Rounding, of_large_tensors_is_bounded_when_their_mean_grows_later) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({16, 16, 1, 1}).mul_(0.25).requires_grad_();
    const at::Tensor x = at::randn({8, 16, 32, 32});
    const at::Tensor factor = at::randn({8, 16, 32, 32});
    const auto passes = std::make_shared<int>(0);
    model.view.parameters = {{"w", w}};
    model.loss = [w, x, factor, passes, small = at::zeros({1}), large = at::full({1}, 3000.0)] {
      const at::Tensor& shift = ++*passes > 5 ? large : small;
      return (at::group_norm(at::conv2d(x, w) + shift, 16).square() * factor).sum();
    };
    return model;
  };
  for (const char* mode : {"dpr8", "q4"}) EXPECT_LT(largest_error(mode, make), 1) << mode;
}

/// Logits with a deviation of 100 are moved by some 15 by "q4", so that backward would get weights
/// of e^15. The bound is that of the oracle of random programs for "q4" (1.2) and for "q2" (8).
TEST(Rounding, of_queries_and_keys_is_bounded_by_what_it_does_to_a_logit) {
  for (const bool fused : {false, true}) {
    const auto make = [fused] {
      TestModel model;
      const at::Tensor w = at::randn({48, 16}).mul_(0.25).requires_grad_();
      const at::Tensor x = at::randn({2, 24, 16});
      const at::Tensor factor = at::randn({2, 24, 16});
      model.view.parameters = {{"w", w}};
      model.loss = [w, x, factor, fused] {
        const std::vector<at::Tensor> parts = (at::linear(x, w) * 20).chunk(3, -1);
        const auto heads = [fused](const at::Tensor& part) {
          const at::Tensor split = part.unflatten(-1, {2, 8}).transpose(1, 2);
          return fused ? split : split.contiguous();
        };
        const at::Tensor mixed = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]),
                                                                  heads(parts[2]) / 20);
        return (mixed.transpose(1, 2).flatten(2) * factor).sum();
      };
      return model;
    };
    for (const auto& [mode, bound] : {std::pair{"dpr8", 0.5}, {"q4", 1.2}, {"q2", 8.0}}) {
      EXPECT_LT(largest_error(mode, make), bound) << mode << ", fused: " << fused;
    }
  }
}

using Loss =
    std::function<at::Tensor(const at::Tensor& x, const at::Tensor& v, const at::Tensor& w)>;

TestModel two_layers(const Loss& loss) {
  TestModel model;
  const at::Tensor v = at::randn({32, 32}).mul_(0.2).requires_grad_();
  const at::Tensor w = at::randn({32, 32}).mul_(0.2).requires_grad_();
  const at::Tensor x = at::randn({64, 32});
  model.view.parameters = {{"v", v}, {"w", w}};
  model.loss = [loss, x, v, w] { return loss(x, v, w); };
  return model;
}

/// Two uses of each weight have nearly equal gradients of opposite sign.
at::Tensor siamese(const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
  const auto net = [&](const at::Tensor& in) { return at::linear(at::gelu(at::linear(in, v)), w); };
  return ((net(x) - net(x + 0.01 * x.roll(1))) / 0.01).square().mean();
}

/// No operator alone tells how large the gradient is that is left. Each moved it by 0.7 to 100
/// before it was measured. The bounds are the modes' own (mode_grammar.h) and as much again, since
/// it is measured in one step and rounding at random differs.
TEST(Rounding, of_what_moves_the_gradient_of_a_step_beyond_the_bound_is_left) {
  const Loss weighted_rows = [](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
    at::Tensor weight = at::ones({64, 1});
    weight.narrow(0, 0, 1).fill_(1e4);
    const at::Tensor small = x / weight;
    return ((at::linear(at::silu(at::linear(small, v)), w) - 0.3 * small) * weight).square().mean();
  };
  const Loss large_mean = [](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
    const at::Tensor y = at::linear(at::tanh(at::linear(x, v)) * 0.3 + 6, w);
    return (at::silu((y - y.mean(0)) / (y.var(0, false, true) + 1e-5).sqrt()) - 0.3 * x)
        .square()
        .mean();
  };
  for (const Loss& loss : {Loss(siamese), weighted_rows, large_mean}) {
    const auto make = [&loss] { return two_layers(loss); };
    for (const auto& [mode, bound] : {std::pair{"dpr8", 0.125}, {"q4", 0.3}, {"echo+q4", 0.3}}) {
      EXPECT_LT(largest_error(mode, make), 2 * bound) << mode;
      ModeRun run(mode, make);
      for (int64_t step = 1; step <= 12; ++step) static_cast<void>(run.step(step));
      EXPECT_GT(run.report().followed_passes, 0) << mode;
    }
  }
}

/// A mode that a second model is attached to measures that one too.
TEST(Rounding, of_what_moves_the_gradient_is_measured_for_each_model) {
  const auto easy = [](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
    return at::linear(at::silu(at::linear(x, v)), w).square().mean();
  };
  const auto mode = make_mode("q4");
  int64_t measured = 0;
  for (const Loss& loss : {Loss(easy), Loss(siamese)}) {
    at::manual_seed(31);
    const TestModel model = two_layers(loss);
    mode->attach(model.view);
    for (int64_t step = 1; step <= 12; ++step) {
      mode->begin_step(step);
      at::Tensor value;
      {
        const SavedTensorScope scope(*mode);
        value = model.loss();
      }
      value.backward();
      mode->end_step();
    }
    measured = report_of(*mode).plan.unrounded_bytes;
  }
  EXPECT_GT(measured, 0) << "the second model's is not left";
}

/// Its hook runs as often as without a mode, and the rules of single operators are all.
TEST(Rounding, of_a_model_with_a_hook_is_not_measured) {
  const auto calls = std::make_shared<int>(0);
  const auto make = [calls] {
    return two_layers([calls](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      const at::Tensor h = at::silu(at::linear(x, v));
      h.register_hook([calls](const at::Tensor&) { ++*calls; });
      return at::linear(h, w).square().mean();
    });
  };
  ModeRun run("q4", make);
  for (int64_t step = 1; step <= 6; ++step) static_cast<void>(run.step(step));
  EXPECT_EQ(*calls, 6);
  EXPECT_EQ(run.report().followed_passes, 2);
  EXPECT_GT(run.report().plan.encoded_from_bytes, 0);
}

/// The relative distance of a step's gradient from that of "none".
double error_in_step(ModeRun& none, ModeRun& run, int64_t number) {
  const std::vector<at::Tensor> exact = none.step(number);
  const std::vector<at::Tensor> rounded = run.step(number);
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (rounded[i] - exact[i]).square().sum().item<double>();
    size += exact[i].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

/// A value that a linear layer reads beside another that is nearly the same is made again bit for
/// bit until another tensor is added: then it is kept, and was never measured as it is rounded.
TEST(Rounding, of_what_is_kept_from_a_later_step_on_is_measured_too) {
  const auto changed = std::make_shared<bool>(false);
  const auto make = [changed] {
    const at::Tensor terms[] = {at::randn({64, 32}), at::randn({64, 32})};
    return two_layers([=](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      const at::Tensor rows = at::cat({v, v});
      const at::Tensor both = (rows * terms[0] + rows * terms[1]).square().mean();
      const at::Tensor in = rows + terms[*changed ? 1 : 0];
      const auto net = [&](const at::Tensor& of) { return at::gelu(at::linear(of, w)); };
      const at::Tensor first = net(in);
      const at::Tensor second = net(in * 1.01);  // its backward is the first to run
      // It is rounded and measured before.
      const at::Tensor beside = at::linear(at::linear(x, v), w).square().mean();
      return ((first - second) / 0.01).square().mean() + 1e-6 * both + 0.1 * beside;
    });
  };
  *changed = false;
  ModeRun none("none", make);
  ModeRun run("echo+dpr8", make);
  constexpr int64_t kChangesAt = 8;
  int errors = 0;
  for (int64_t number = 1; number <= 16; ++number) {
    *changed = number >= kChangesAt;
    try {
      EXPECT_LT(error_in_step(none, run, number), 2 * 0.125) << number;
    } catch (const c10::Error&) {
      ++errors;
      run.mode().end_step();
      static_cast<void>(run.take_gradients());
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(run.report().unplanned_passes, 0);
}

/// A program may count its steps in tokens, or backwards.
TEST(Rounding, follows_a_plan_in_steps_of_any_number) {
  const auto make = [] {
    return two_layers([](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      return at::linear(at::silu(at::linear(x.repeat({4, 1}), v)), w).square().mean();
    });
  };
  for (const int64_t first : {int64_t{0xfffffffa}, int64_t{-6}, int64_t{1} << 61}) {
    for (const char* mode : {"q4", "dpr8", "budget:saved=150KiB,error=0.1"}) {
      ModeRun none("none", make);
      ModeRun run(mode, make);
      for (int64_t step = 0; step < 12; ++step) {
        EXPECT_LT(error_in_step(none, run, first + step), 0.3) << mode << ' ' << first + step;
      }
      EXPECT_EQ(run.report().missing_reason, "") << mode << ' ' << first;
      EXPECT_GT(run.report().followed_passes, 6) << mode << ' ' << first;
    }
  }
}

/// The exponent is another one in the two recorded passes, so that no pass is compared by it.
TEST(Rounding, of_what_a_call_saves_whose_constant_varies_is_left) {
  const auto exponent = std::make_shared<double>(2);
  const auto make = [exponent] {
    return two_layers([exponent](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      const at::Tensor h = at::linear(x, v);
      return at::linear(at::pow(h, *exponent), w).mean() + at::linear(h, w).square().mean();
    });
  };
  ModeRun none("none", make);
  ModeRun run("q4", make);
  for (int64_t number = 1; number <= 12; ++number) {
    *exponent = number < 8 ? static_cast<double>(2 + number % 2) : -1.0;
    EXPECT_LT(error_in_step(none, run, number), 0.6) << number;
  }
  EXPECT_GT(run.report().followed_passes, 4);
}

/// Autograd makes the node of a view anew once its base was written, and that of what writes a view
/// is not the last: neither hides which operator saves.
TEST(Rounding, for_one_operator_is_not_given_to_another_that_reads_an_older_view_or_writes_one) {
  const auto changed = std::make_shared<bool>(false);
  const Loss of_an_older_view = [changed](const at::Tensor& x, const at::Tensor& v,
                                          const at::Tensor& w) {
    const at::Tensor h = at::linear(x, v).abs();
    const at::Tensor view = h.t();
    h.add_(1e-3);
    return at::linear((*changed ? at::log(view) : at::silu(view)).t(), w).square().mean();
  };
  const Loss of_a_part = [changed](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
    const at::Tensor h = 8 * at::linear(x, v);
    at::Tensor part = h.narrow(0, 0, 32);
    if (!*changed) {
      part.tanh_();
      return at::linear(h, w).square().mean();
    }
    part.exp_();
    return at::linear((part + 1).log(), w).square().mean();
  };
  for (const Loss& loss : {of_an_older_view, of_a_part}) {
    for (const char* mode : {"q4", "dpr8"}) {
      *changed = false;
      const auto make = [&loss] { return two_layers(loss); };
      ModeRun none("none", make);
      ModeRun run(mode, make);
      constexpr int64_t kLast = 10;
      for (int64_t number = 1; number <= kLast; ++number) {
        *changed = number == kLast;
        EXPECT_LT(error_in_step(none, run, number), 0.6) << mode << ' ' << number;
      }
      EXPECT_GT(run.report().followed_passes, 4);
    }
  }
}

/// Loss scaling begins with gradients that are not finite, here in all steps that would be
/// measured.
TEST(Rounding, is_measured_later_where_the_first_gradients_are_not_finite) {
  const auto scale = std::make_shared<double>(1);
  const auto make = [scale] {
    return two_layers([scale](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      return siamese(x, v, w) * *scale;
    });
  };
  ModeRun none("none", make);
  ModeRun run("q4", make);
  double error = 0;
  for (int64_t number = 1; number <= 24; ++number) {
    *scale = number < 8 ? std::numeric_limits<double>::infinity() : 1;
    error = error_in_step(none, run, number);
  }
  EXPECT_LT(error, 2 * 0.3);
  EXPECT_EQ(run.report().unplanned_passes, 0);
}

/// A plan that waits to be measured while passes of another kind have theirs.
TEST(Rounding, is_measured_later_too_after_another_kind_of_pass_was_planned_for) {
  const auto scale = std::make_shared<double>(1);
  const auto rows = std::make_shared<int64_t>(64);
  const auto make = [scale, rows] {
    return two_layers([scale, rows](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      return siamese(x.narrow(0, 0, *rows), v, w) * *scale;
    });
  };
  ModeRun none("none", make);
  ModeRun run("q4", make);
  double error = 0;
  for (int64_t number = 1; number <= 48; ++number) {
    *scale = number < 8 ? std::numeric_limits<double>::infinity() : 1;
    *rows = number >= 8 && number < 20 ? 32 : 64;
    error = error_in_step(none, run, number);
  }
  EXPECT_LT(error, 2 * 0.3);
  EXPECT_EQ(run.report().unplanned_passes, 0);
}

/// Nobody but its saver shows that the last saved tensor is read by another operator.
TEST(Rounding, is_not_measured_by_a_pass_whose_last_saver_is_another) {
  const auto other = std::make_shared<bool>(false);
  const auto make = [other] {
    return two_layers([other](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      const auto net = [&](const at::Tensor& in) {
        return at::linear(at::gelu(at::linear(in, v)), w);
      };
      const at::Tensor beside = 0.1 * at::linear(at::linear(x, v), w).square().mean();
      const at::Tensor difference = (net(x) - net(x + 0.01 * x.roll(1))) / 0.01;
      return beside + (*other ? 1e-6 * difference.abs() : difference.square()).mean();
    });
  };
  ModeRun none("none", make);
  ModeRun run("q4", make);
  for (int64_t number = 1; number <= 12; ++number) {
    *other = number == 4;  // the first that could be measured
    EXPECT_LT(error_in_step(none, run, number), 2 * 0.3) << number;
  }
  EXPECT_GT(run.report().followed_passes, 4);
}

/// Two equal tensors are rounded alike, and their errors cancel until a norm grows for which only
/// one of them may not be rounded any more.
TEST(Rounding, is_measured_again_once_a_part_of_what_was_rounded_is_kept) {
  const auto shift = std::make_shared<at::Tensor>();
  const auto make = [shift] {
    return two_layers([shift, factor = at::randn({64, 32})](
                          const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      const at::Tensor h = at::linear(x, v) + *shift;
      const at::Tensor same = h.clone();
      const at::Tensor cancels = (at::linear(h, w) - at::linear(same, w)) * factor;
      return 100 * cancels.mean() + at::linear(at::layer_norm(same, {32}), w).square().mean();
    });
  };
  ModeRun none("none", make);
  ModeRun run("dpr8", make);
  for (int64_t number = 1; number <= 16; ++number) {
    const bool grows = number == 7 || number == 8;
    *shift = at::full({1}, grows ? 3000.0 : 0.0);
    const double error = error_in_step(none, run, number);
    if (!grows) {
      EXPECT_LT(error, 2 * 0.125) << number;
    }
  }
  EXPECT_GT(run.report().counters.codec_fallbacks, 0);
  EXPECT_EQ(run.report().unplanned_passes, 0);
}

/// A program may give each step the same number.
TEST(Rounding, is_followed_unmeasured_where_all_steps_have_one_number) {
  const auto make = [] {
    return two_layers([](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      return siamese(x, v, w) * std::numeric_limits<double>::infinity();
    });
  };
  ModeRun run("q4", make);
  for (int step = 0; step < 12; ++step) static_cast<void>(run.step(0));
  EXPECT_EQ(run.report().unplanned_passes, 0);
}

/// The backward passes of one step have gradients that are not finite together.
TEST(Rounding, that_could_not_be_measured_waits_for_steps_and_not_for_passes) {
  ModeRun run("q4", [] {
    return two_layers([](const at::Tensor& x, const at::Tensor& v, const at::Tensor& w) {
      return siamese(x, v, w) * std::numeric_limits<double>::infinity();
    });
  });
  constexpr int kPasses = 4;
  constexpr int kSteps = 10;
  for (int64_t step = 1; step <= kSteps; ++step) {
    run.begin(step);
    for (int pass = 0; pass < kPasses; ++pass) run.forward().backward();
    run.mode().end_step();
  }
  // Two passes are recorded, one verifies the plan, and steps 1, 2 and 3 have no gradient.
  EXPECT_EQ(run.report().followed_passes, kSteps * kPasses - 9);
}

/// Backward runs within the scope in every step.
TEST(Rounding, that_can_never_be_measured_is_not_waited_for) {
  ModeRun run("q4", [] { return two_layers(siamese); });
  constexpr int kFirst = 10;
  int64_t before = 0;
  constexpr int kSteps = 40;
  for (int64_t step = 1; step <= kSteps; ++step) {
    run.begin(step);
    {
      const SavedTensorScope scope(run.mode());
      run.model().loss().backward();
    }
    run.mode().end_step();
    if (step == kFirst) before = run.report().followed_passes;
  }
  const int64_t followed = run.report().followed_passes - before;
  EXPECT_EQ(followed, kSteps - kFirst);
}

TEST(Rounding, of_float64_is_refused_by_name_and_changes_no_bit) {
  const auto make = [] {
    TestModel model;
    const at::Tensor w = at::randn({32, 32}, at::kDouble).mul_(0.3).requires_grad_();
    const at::Tensor x = at::randn({32, 32}, at::kDouble);
    model.view.parameters = {{"w", w}};
    model.loss = [w, x] { return at::linear(at::silu(at::linear(x, w)), w).square().mean(); };
    return model;
  };
  for (const char* mode : {"dpr8", "q4", "q2"}) {
    EXPECT_EQ(largest_error(mode, make), 0) << mode;
    ModeRun run(mode, make);
    for (int64_t step = 1; step <= 4; ++step) static_cast<void>(run.step(step));
    const auto plan = dynamic_cast<const PlannedMode&>(run.mode()).plan();
    const std::vector<HeldGroup> groups = held_groups(*plan);
    EXPECT_TRUE(std::any_of(groups.begin(), groups.end(), [](const HeldGroup& group) {
      return group.reason == KeepReason::kTypeNotRounded;
    })) << mode;
    EXPECT_GT(run.report().plan.unrounded_bytes, 0) << mode;
  }
}

}  // namespace
}  // namespace noisemark::memopt::test
