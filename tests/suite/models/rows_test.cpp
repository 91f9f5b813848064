#include "suite/models/rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/var_mean.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "tests/suite/models/models_for_tests.h"

namespace noisemark::suite {
namespace {

using test::inputs_for;
using test::perturbed;
using test::small_ho;
using test::small_lucid;

/// Bands that are computed by threads of this process, which wait for each other at every question.
class Together {
 public:
  explicit Together(int64_t bands) : parts(static_cast<size_t>(bands)), meeting(bands) {}
  std::vector<at::Tensor> parts;
  std::barrier<> meeting;
};

class ByThreads final : public RowExchange {
 public:
  ByThreads(Together& together, size_t band, bool unbiased = false)
      : together_(together), band_(band), unbiased_(unbiased) {}

  [[nodiscard]] bool is_synchronous() const override { return true; }
  [[nodiscard]] NormRule norm_rule() const override { return NormRule::kSynchronous; }
  [[nodiscard]] bool unbiased_variance() const override { return unbiased_; }
  [[nodiscard]] int64_t bands() const override {
    return static_cast<int64_t>(together_.parts.size());
  }
  [[nodiscard]] Parts gather(const at::Tensor& own, bool fresh) override {
    EXPECT_TRUE(fresh);
    return {all_of(own), {}};
  }
  void skip() override { ADD_FAILURE() << "not in a synchronous call"; }
  [[nodiscard]] Halo halo(const at::Tensor& first, const at::Tensor& last) override {
    const std::vector<at::Tensor> lasts = all_of(last);
    const std::vector<at::Tensor> firsts = all_of(first);
    Halo halo;
    if (band_ > 0) halo.above = lasts[band_ - 1];
    if (band_ + 1 < firsts.size()) halo.below = firsts[band_ + 1];
    return halo;
  }

 private:
  std::vector<at::Tensor> all_of(const at::Tensor& own) {
    together_.parts[band_] = own;
    together_.meeting.arrive_and_wait();
    std::vector<at::Tensor> all = together_.parts;
    together_.meeting.arrive_and_wait();
    return all;
  }

  Together& together_;
  size_t band_;
  bool unbiased_;
};

using OnBand = std::function<at::Tensor(const at::Tensor& band, RowExchange& exchange)>;

/// Computes every band of `x` by `function` in a thread of its own, and joins what comes out.
at::Tensor by_bands(const at::Tensor& x, int64_t bands, const OnBand& function,
                    bool unbiased = false) {
  Together together(bands);
  std::vector<at::Tensor> out(static_cast<size_t>(bands));
  std::vector<std::thread> threads;
  for (size_t band = 0; band < out.size(); ++band) {
    threads.emplace_back([&, band] {
      const at::NoGradGuard no_grad;
      ByThreads exchange(together, band, unbiased);
      out[band] = function(x.chunk(bands, 2)[band].contiguous(), exchange);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return at::cat(out, 2);
}

ModelConfig with_four_bands(ModelConfig config) {
  config.resolution = 32;  // a band of four still has two rows where the image is lowest
  return config;
}

ModelConfig ho_with(const std::string& downsample) {
  ModelConfig config = with_four_bands(small_ho());
  config.attention_resolutions = {16};
  config.downsample = downsample;
  return config;
}

/// Largest difference between a network on bands and on the whole image.
double difference_by_bands(const ModelConfig& config, at::ScalarType dtype, int64_t bands) {
  const auto model = perturbed(config);
  model->eval();
  place_model(*model, at::kCPU, dtype, false);
  const auto inputs = inputs_for(config);
  const at::NoGradGuard no_grad;
  const at::Tensor x = inputs.x.to(dtype);
  const at::Tensor whole = model->forward(x, inputs.t);
  const at::Tensor joined = by_bands(x, bands, [&](const at::Tensor& band, RowExchange& exchange) {
    const RowsGuard rows(exchange);
    return model->forward(band, inputs.t);
  });
  return (joined - whole).abs().max().item<double>();
}

/// The bounds are those of the issue; sums of other orders move last bits.
TEST(RowsOfANetwork, give_the_whole_pictures_output_in_two_and_four_bands) {
  for (const ModelConfig& config :
       {ho_with("conv"), ho_with("max_pool"), with_four_bands(small_lucid())}) {
    for (const int64_t bands : {2, 4}) {
      EXPECT_LT(difference_by_bands(config, at::kDouble, bands), 1e-12) << config.name << bands;
      EXPECT_LT(difference_by_bands(config, at::kFloat, bands), 1e-5) << config.name << bands;
    }
  }
}

TEST(RowsOfANetwork, are_in_force_only_while_the_guard_lives) {
  Together together(1);
  ByThreads exchange(together, 0);
  EXPECT_EQ(rows_in_force(), nullptr);
  {
    const RowsGuard rows(exchange);
    EXPECT_EQ(rows_in_force(), &exchange);
  }
  EXPECT_EQ(rows_in_force(), nullptr);
}

constexpr int64_t kGroups = 4;

torch::nn::GroupNorm group_norm_of_eight() {
  torch::nn::GroupNorm norm(torch::nn::GroupNormOptions(kGroups, 8).eps(1e-6));
  norm->to(at::kDouble);
  const at::NoGradGuard no_grad;
  norm->weight.normal_();
  norm->bias.normal_();
  return norm;
}

at::Tensor normed_by_bands(const at::Tensor& x, const torch::nn::GroupNorm& norm, bool unbiased) {
  return by_bands(
      x, 2,
      [&](const at::Tensor& band, RowExchange& exchange) {
        return normalize_rows(band, norm, exchange);
      },
      unbiased);
}

TEST(GroupNormOfRows, is_that_of_the_whole_picture) {
  torch::manual_seed(3);
  const torch::nn::GroupNorm norm = group_norm_of_eight();
  const at::Tensor x = at::randn({2, 8, 6, 5}, at::kDouble) + 0.3;
  const at::Tensor whole = at::group_norm(x, kGroups, norm->weight, norm->bias, 1e-6);
  EXPECT_LT((normed_by_bands(x, norm, false) - whole).abs().max().item<double>(), 1e-12);
}

/// DistriFusion's rule, written out: the variance of the whole image, but with the factor of the
/// elements in one band.
TEST(GroupNormOfRows, has_the_peers_factor_of_a_bands_elements_where_that_is_asked_for) {
  torch::manual_seed(3);
  const torch::nn::GroupNorm norm = group_norm_of_eight();
  const at::Tensor x = at::randn({2, 8, 6, 5}, at::kDouble) + 0.3;
  const at::Tensor grouped = x.view({2, kGroups, -1});
  const double n = 2 * 3 * 5;  // channels of a group, rows and columns of a band
  const auto [variance, mean] = at::var_mean(grouped, at::IntArrayRef{2}, /*correction=*/0, true);
  const at::Tensor normed = (grouped - mean) / (variance * n / (n - 1) + 1e-6).sqrt();
  const at::Tensor expected =
      normed.view(x.sizes()) * norm->weight.view({1, 8, 1, 1}) + norm->bias.view({1, 8, 1, 1});
  const at::Tensor found = normed_by_bands(x, norm, true);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-12);
  EXPECT_GT((found - normed_by_bands(x, norm, false)).abs().max().item<double>(), 1e-3);
}

}  // namespace
}  // namespace noisemark::suite
