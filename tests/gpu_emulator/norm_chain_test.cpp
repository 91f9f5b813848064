#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu_emulator/emulated_kernels.h"
#include "tests/gpu_emulator/emulator.h"
#include "tests/gpu_emulator/guarded_memory.h"

// The norm chain's kernel against the CPU's.
namespace noisemark::memopt::treatment {
namespace {

using test::gpu::Guarded;
using test::gpu::Order;
using test::gpu::Settings;
using test::gpu::WithSettings;

struct Sizes {
  int64_t channels, groups, pixels;
};
/// Rows that are and are not whole packs of 4; more than a block of threads.
const std::vector<Sizes> kSizes = {{8, 2, 16}, {15, 5, 27}, {6, 1, 1}, {32, 8, 63}, {12, 4, 300}};

std::vector<float> normals(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<size_t>(count));
  for (float& value : all) value = normal(generator);
  return all;
}

/// A chain's tensors; statistics need not be those of x.
struct Chain {
  static constexpr int64_t kSamples = 3;
  NormChain job;
  Guarded<float> x, mean, rstd, weight, bias, factor, scale, shift;

  Chain(const Sizes& s, int64_t lead)
      : x(normals(kSamples * s.channels * s.pixels + lead, 1)),
        mean(normals(kSamples * s.groups, 2)),
        rstd(normals(kSamples * s.groups, 3)),
        weight(normals(s.channels, 4)),
        bias(normals(s.channels, 5)),
        factor(normals(kSamples * s.channels * s.pixels + lead, 6)),
        scale(kSamples * s.channels),
        shift(kSamples * s.channels) {
    job.samples = kSamples;
    job.channels = s.channels;
    job.groups = s.groups;
    job.pixels = s.pixels;
    job.x = x.data() + lead;
    job.mean = mean.data();
    job.rstd = rstd.data();
    job.weight = weight.data();
    job.bias = bias.data();
    job.factor = factor.data() + lead;
    job.scale = scale.data();
    job.shift = shift.data();
  }

  [[nodiscard]] int64_t elements() const { return kSamples * job.channels * job.pixels; }
};

std::vector<float> on_the_cpu(const Chain& chain) {
  NormChain job = chain.job;
  job.store = NormStore::kFloat32;
  Guarded<float> y(chain.elements());
  job.y = y.data();
  run_norm_chain_on_cpu(job);
  return y.values();
}

template <typename Out>
std::vector<Out> emulated(const Chain& chain) {
  NormChain job = chain.job;
  const Guarded<float> scale(Chain::kSamples * job.channels);
  const Guarded<float> shift(Chain::kSamples * job.channels);
  job.scale = scale.data();
  job.shift = shift.data();
  Guarded<Out> y(chain.elements());
  job.y = y.data();
  run_emulated_norm_chain(job);
  return y.values();
}

template <typename Out>
void expect_rounded(const std::vector<Out>& y, const std::vector<float>& expected) {
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const auto rounded = static_cast<Out>(expected[i]);
    ASSERT_EQ(std::memcmp(&y[i], &rounded, sizeof rounded), 0) << i;
  }
}

/// The bits must be ATen's, whatever the order of threads and the number of blocks.
void expect_the_cpus_bits(Chain& chain) {
  const std::vector<float> expected = on_the_cpu(chain);
  for (const Settings& settings : {Settings{Order::kForward}, Settings{Order::kBackward},
                                   Settings{Order::kShuffled}, Settings{Order::kForward, 1}}) {
    const WithSettings with(settings);
    chain.job.store = NormStore::kFloat32;
    expect_rounded(emulated<float>(chain), expected);
    chain.job.store = NormStore::kBFloat16;
    expect_rounded(emulated<c10::BFloat16>(chain), expected);
    chain.job.store = NormStore::kFloat16;
    expect_rounded(emulated<c10::Half>(chain), expected);
  }
}

void for_each_chain(const std::function<void(Chain&)>& check) {
  for (const Sizes& s : kSizes) {
    for (const int64_t lead : {0, 1}) {
      for (const bool channels_last : {false, true}) {
        SCOPED_TRACE(std::to_string(s.channels) + " channels of " + std::to_string(s.pixels) +
                     (channels_last ? ", channels last" : ", planes") +
                     (lead != 0 ? ", off a pack" : ""));
        Chain chain(s, lead);
        chain.job.channels_last = channels_last;
        check(chain);
      }
    }
  }
}

TEST(EmulatedNormChain, has_the_cpus_bits_in_every_form) {
  for_each_chain([](Chain& chain) {
    for (const NormForm form : kNormForms) {
      for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
        chain.job.form = form;
        chain.job.activation = activation;
        expect_the_cpus_bits(chain);
      }
    }
  });
}

TEST(EmulatedNormChain, has_the_cpus_bits_without_weight_bias_and_factor) {
  for_each_chain([](Chain& chain) {
    chain.job.weight = nullptr;
    chain.job.bias = nullptr;
    chain.job.factor = nullptr;
    expect_the_cpus_bits(chain);
  });
}

TEST(EmulatedNormChain, differs_from_the_cpu_in_silu_by_the_exponentials_last_bits) {
  for_each_chain([](Chain& chain) {
    chain.job.activation = Activation::kSilu;
    const std::vector<float> expected = on_the_cpu(chain);
    const std::vector<float> y = emulated<float>(chain);
    for (size_t i = 0; i < y.size(); ++i) {
      // One unit of the exponential, one of the sum, one of the quotient and one of the product.
      ASSERT_NEAR(y[i], expected[i], 4 * 0x1p-23 * std::abs(expected[i])) << i;
    }
  });
}

}  // namespace
}  // namespace noisemark::memopt::treatment
