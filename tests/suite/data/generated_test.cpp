#include "suite/data/generated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

using test::read;

Definition generated_definition(int64_t channels, int64_t resolution, int64_t seed = 0) {
  Definition definition;
  definition.model.channels = channels;
  definition.model.resolution = resolution;
  definition.data.seed = seed;
  return definition;
}

TEST(Gmm16, knows_its_mixture_and_draws_from_it) {
  const auto dataset = open_gmm16(generated_definition(1, 16));
  ASSERT_NE(dataset->mixture(), nullptr);
  EXPECT_EQ(dataset->standing(), "generated");
  EXPECT_TRUE(dataset->files().empty());
  std::vector<float> expected(256);
  dataset->mixture()->sample(CounterRng(0, Stream::kData, 1, 42), expected);
  EXPECT_EQ(read(*dataset, Split::kTrain, 42), expected);
}

TEST(Gmm16, splits_and_seeds_hold_different_pictures) {
  const auto dataset = open_gmm16(generated_definition(1, 16));
  EXPECT_NE(read(*dataset, Split::kTrain, 5), read(*dataset, Split::kTest, 5));
  EXPECT_NE(read(*dataset, Split::kTrain, 5), read(*dataset, Split::kTrain, 6));
  const auto other = open_gmm16(generated_definition(1, 16, 1));
  EXPECT_NE(read(*dataset, Split::kTrain, 5), read(*other, Split::kTrain, 5));
}

TEST(Gmm16, has_as_many_training_pictures_as_asked_for) {
  Definition definition = generated_definition(1, 16);
  EXPECT_EQ(open_gmm16(definition)->size(Split::kTrain), kGeneratedSamples);
  definition.data.train_samples = 100;
  const auto dataset = open_gmm16(definition);
  EXPECT_EQ(dataset->size(Split::kTrain), 100);
  EXPECT_EQ(dataset->size(Split::kTest), kGeneratedSamples);
  EXPECT_ANY_THROW(read(*dataset, Split::kTrain, 100));
}

TEST(Synthetic, makes_pictures_of_any_shape_in_range) {
  for (const auto& [channels, resolution] : {std::pair<int64_t, int64_t>{3, 128}, {1, 10}}) {
    const auto dataset = open_synthetic(generated_definition(channels, resolution));
    EXPECT_EQ(dataset->mixture(), nullptr);
    for (int64_t i = 0; i < 5; ++i) {
      const auto values = read(*dataset, Split::kTrain, i);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      EXPECT_GE(*low, -1.0001F);
      EXPECT_LE(*high, 1.0001F);
      EXPECT_GT(*high - *low, 0.1F);
    }
  }
}

TEST(Synthetic, a_picture_depends_on_its_index_alone) {
  const auto dataset = open_synthetic(generated_definition(3, 32));
  const auto first = read(*dataset, Split::kTrain, 7);
  (void)read(*dataset, Split::kTrain, 8);
  EXPECT_EQ(read(*dataset, Split::kTrain, 7), first);
  EXPECT_NE(read(*dataset, Split::kTrain, 8), first);
  EXPECT_NE(read(*dataset, Split::kTest, 7), first);
}

std::vector<double> field(uint64_t sample, const FieldShape& shape) {
  CounterRng rng(1, Stream::kData, 0, sample);
  std::vector<double> out(
      static_cast<size_t>(shape.channels * shape.resolution * shape.resolution));
  SmoothField(rng, shape).fill(out);
  return out;
}

TEST(SmoothField, stays_within_minus_one_and_one) {
  for (uint64_t sample = 0; sample < 50; ++sample) {
    for (const double value : field(sample, {3, 17, 6, 4})) {
      ASSERT_LE(std::abs(value), 1 + 1e-12);  // amplitudes add up to 1, to rounding
    }
  }
}

/// The derivative of waves of at most f periods whose amplitudes add up to 1 is at most 2 pi f per
/// width, so neighbours differ by at most 2 pi f / resolution.
TEST(SmoothField, neighbours_differ_by_no_more_than_the_highest_frequency_allows) {
  const FieldShape shape{1, 32, 6, 3};
  const double bound = 2 * M_PI * 3 / 32;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const auto values = field(sample, shape);
    for (int64_t y = 0; y < 31; ++y) {
      for (int64_t x = 0; x < 31; ++x) {
        ASSERT_LE(std::abs(values[y * 32 + x + 1] - values[y * 32 + x]), bound);
        ASSERT_LE(std::abs(values[(y + 1) * 32 + x] - values[y * 32 + x]), bound);
      }
    }
  }
}

TEST(SmoothField, wraps_around_its_borders) {
  const FieldShape shape{1, 16, 4, 2};
  const auto values = field(3, shape);
  const double bound = 2 * M_PI * 2 / 16;
  for (int64_t i = 0; i < 16; ++i) {
    ASSERT_LE(std::abs(values[i * 16] - values[i * 16 + 15]), bound);
    ASSERT_LE(std::abs(values[i] - values[15 * 16 + i]), bound);
  }
}

TEST(SmoothField, differs_between_samples_and_channels_and_varies_in_space) {
  const auto first = field(0, {2, 16, 4, 2});
  const auto second = field(1, {2, 16, 4, 2});
  EXPECT_NE(first, second);
  EXPECT_NE(std::vector(first.begin(), first.begin() + 256),
            std::vector(first.begin() + 256, first.end()));
  EXPECT_GT(std::abs(first[0] - first[8 * 16 + 8]), 1e-3);
}

}  // namespace
}  // namespace noisemark::suite
