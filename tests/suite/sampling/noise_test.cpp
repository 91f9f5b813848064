#include "suite/sampling/noise.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "reports/error.h"
#include "suite/io/npy.h"
#include "suite/random/counter_rng.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite {
namespace {

at::Tensor drawn(const NoiseSource& source, const NoiseDraw& draw, int64_t count,
                 at::ScalarType type = at::kFloat) {
  const at::Tensor out = at::empty({count, 3, 4, 4}, type);
  source(draw, out);
  return out;
}

TEST(CounterNoise, of_a_sample_depends_on_the_seed_the_draw_and_the_sample_alone) {
  const NoiseSource source = counter_noise(7);
  const at::Tensor all = drawn(source, {2, 0}, 5);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(drawn(source, {2, i}, 1)[0].equal(all[i])) << i;
    std::vector<float> expected(48);
    CounterRng(7, Stream::kSampler, 2, static_cast<uint64_t>(i)).fill_normal(expected);
    for (int64_t j = 0; j < 48; ++j) {
      ASSERT_EQ(all[i].flatten()[j].item<float>(), expected[static_cast<size_t>(j)]);
    }
  }
  EXPECT_FALSE(drawn(counter_noise(8), {2, 0}, 5).equal(all));
  EXPECT_FALSE(drawn(source, {1, 0}, 5).equal(all));
}

TEST(CounterNoise, in_float32_is_that_in_float64_rounded) {
  const at::Tensor single = drawn(counter_noise(1), {0, 3}, 2);
  const at::Tensor full = drawn(counter_noise(1), {0, 3}, 2, at::kDouble);
  EXPECT_TRUE(full.to(at::kFloat).equal(single));
}

TEST(InitialNoise, is_taken_for_the_first_draw_only) {
  const at::Tensor initial = at::randn({6, 3, 4, 4}, at::kDouble);
  const NoiseSource source = with_initial_noise(initial, counter_noise(7));
  EXPECT_TRUE(drawn(source, {0, 2}, 3, at::kDouble).equal(initial.narrow(0, 2, 3)));
  EXPECT_TRUE(drawn(source, {0, 0}, 6).equal(initial.to(at::kFloat)));
  EXPECT_TRUE(drawn(source, {1, 2}, 3).equal(drawn(counter_noise(7), {1, 2}, 3)));
  EXPECT_ANY_THROW((void)drawn(source, {0, 4}, 3)) << "of samples that it does not have";
}

TEST(InitialNoise, is_read_from_a_file_of_the_right_shape) {
  const test::ScratchFolder folder;
  const std::string path = folder.path("noise.npy");
  const at::Tensor noise = at::randn({5, 3, 4, 4});
  write_npy(path, noise);
  EXPECT_TRUE(read_initial_noise(path, 3, 4).equal(noise));
  const auto refused = [&](const at::Tensor& other) {
    write_npy(path, other);
    return test::outcome([&] { (void)read_initial_noise(path, 3, 4); });
  };
  EXPECT_EQ(refused(at::randn({5, 1, 4, 4})),
            std::make_pair(ExitCode::kBadInput, path + ": numbers [5, 1, 4, 4] (float32 or float64 "
                                                       "[N, 3, 4, 4])"));
  EXPECT_EQ(refused(at::randn({5, 48})).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::empty({0, 3, 4, 4})).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::full({5, 3, 4, 4}, 1, at::kByte)).first, ExitCode::kBadInput);
  EXPECT_EQ(refused(at::full({5, 3, 4, 4}, std::nan(""))).second,
            path + ": a NaN or an infinity (finite numbers)");
}

}  // namespace
}  // namespace noisemark::suite
