#include "suite/data/loader.h"

#include <ATen/ops/equal.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/error.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kPictures = 40;

/// Tiny images that say who they are: value = index + pixel / 64.
class Counting : public Dataset {
 public:
  [[nodiscard]] int64_t size(Split) const override { return kPictures; }
  void read(Split, int64_t index, std::span<float> out) const override {
    ++reads;
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(index) + static_cast<float>(i) / 64.0F;
    }
  }
  [[nodiscard]] int64_t channels() const override { return 2; }
  [[nodiscard]] int64_t resolution() const override { return 4; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return {}; }
  [[nodiscard]] std::string standing() const override { return "generated"; }

  mutable std::atomic<int64_t> reads = 0;
};

/// Cannot read the images from `first` on.
class Failing final : public Counting {
 public:
  explicit Failing(int64_t first) : first_(first) {}
  void read(Split split, int64_t index, std::span<float> out) const override {
    if (index >= first_) {
      // The later the image, the sooner its error.
      std::this_thread::sleep_for(std::chrono::milliseconds(kPictures - index));
      throw Error(ExitCode::kBadInput, "image " + std::to_string(index));
    }
    Counting::read(split, index, out);
  }

 private:
  int64_t first_;
};

Definition small_definition() {
  Definition definition;
  definition.seed = 3;
  definition.train.batch = 12;
  definition.diffusion.timesteps = 50;
  return definition;
}

std::vector<Batch> load(const Definition& definition, const LoaderOptions& options) {
  Loader loader(std::make_shared<Counting>(), definition, options);
  std::vector<Batch> batches;
  for (int64_t step = options.first_step; step < options.last_step; ++step) {
    batches.push_back(loader.next());
  }
  return batches;
}

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_TRUE(at::equal(a.images, b.images)) << a.step;
  EXPECT_TRUE(at::equal(a.timesteps, b.timesteps)) << a.step;
  EXPECT_TRUE(at::equal(a.noise, b.noise)) << a.step;
}

/// Index of the image behind a row, whether flipped or not.
int64_t picture_of(const at::Tensor& image) {
  return static_cast<int64_t>(image.min().item<float>());
}

TEST(Loader, gives_the_same_bits_for_every_thread_count_and_prefetch_depth) {
  const Definition definition = small_definition();
  const auto expected = load(definition, {.threads = 1, .prefetch = 1, .last_step = 12});
  for (const auto& [threads, prefetch] : {std::pair{2, 1}, {3, 4}, {8, 2}, {1, 7}}) {
    const auto batches =
        load(definition, {.threads = threads, .prefetch = prefetch, .last_step = 12});
    for (size_t i = 0; i < expected.size(); ++i) expect_same(batches[i], expected[i]);
  }
}

TEST(Loader, resumes_at_a_step_with_the_same_bits) {
  const Definition definition = small_definition();
  const auto whole = load(definition, {.last_step = 12});
  const auto rest = load(definition, {.threads = 2, .first_step = 7, .last_step = 12});
  for (size_t i = 0; i < rest.size(); ++i) expect_same(rest[i], whole[7 + i]);
}

TEST(Loader, does_not_depend_on_accumulation) {
  Definition split = small_definition();
  split.train.accumulation = 4;
  const auto expected = load(small_definition(), {.last_step = 3});
  const auto batches = load(split, {.last_step = 3});
  for (size_t i = 0; i < expected.size(); ++i) expect_same(batches[i], expected[i]);
}

TEST(Loader, states_shapes_types_and_ranges) {
  const auto batches = load(small_definition(), {.last_step = 20});
  std::vector<bool> seen(50, false);
  for (const Batch& batch : batches) {
    EXPECT_EQ(batch.images.sizes(), (std::vector<int64_t>{12, 2, 4, 4}));
    EXPECT_EQ(batch.noise.sizes(), batch.images.sizes());
    EXPECT_EQ(batch.images.scalar_type(), at::kFloat);
    EXPECT_EQ(batch.timesteps.scalar_type(), at::kLong);
    for (int64_t i = 0; i < 12; ++i) seen.at(batch.timesteps[i].item<int64_t>()) = true;
  }
  // 240 draws of 50 values: a given value is missed with probability 0.8 %, half of them never.
  EXPECT_GT(std::count(seen.begin(), seen.end(), true), 40);
}

TEST(Loader, every_epoch_is_a_permutation_of_its_own) {
  const auto batches = load(small_definition(), {.last_step = 10});  // 120 samples: 3 epochs of 40
  std::vector<int64_t> order;
  for (const Batch& batch : batches) {
    for (int64_t i = 0; i < 12; ++i) order.push_back(picture_of(batch.images[i]));
  }
  std::vector<int64_t> all(kPictures);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = order.begin() + epoch * kPictures;
    epochs.emplace_back(begin, begin + kPictures);
    EXPECT_TRUE(std::is_permutation(all.begin(), all.end(), epochs.back().begin()));
    EXPECT_NE(epochs.back(), all);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Loader, a_batch_larger_than_the_dataset_crosses_epochs) {
  Definition definition = small_definition();
  definition.train.batch = 100;
  const auto batches = load(definition, {.threads = 3, .last_step = 2});
  std::vector<int> count(kPictures, 0);
  for (const Batch& batch : batches) {
    for (int64_t i = 0; i < 100; ++i) ++count.at(picture_of(batch.images[i]));
  }
  EXPECT_EQ(count, std::vector<int>(kPictures, 5));
}

TEST(Loader, flips_about_half_of_the_pictures_and_all_their_rows) {
  const auto batches = load(small_definition(), {.last_step = 20});
  Definition definition = small_definition();
  definition.data.flip = false;
  const auto straight = load(definition, {.last_step = 20});
  int flipped = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(at::equal(batches[i].noise, straight[i].noise));
    for (int64_t n = 0; n < 12; ++n) {
      const at::Tensor image = batches[i].images[n];
      const at::Tensor original = straight[i].images[n];
      const bool same = at::equal(image, original);
      EXPECT_TRUE(same || at::equal(image, original.flip({2})));
      flipped += same ? 0 : 1;
    }
  }
  EXPECT_NEAR(flipped, 120, 5 * std::sqrt(240 * 0.25));  // five standard deviations
}

TEST(Loader, draws_noise_from_the_key_of_step_and_sample) {
  const auto batches = load(small_definition(), {.first_step = 5, .last_step = 6});
  std::vector<float> expected(32);
  CounterRng(3, Stream::kNoise, 5, 11).fill_normal(expected);
  const at::Tensor row = batches[0].noise[11].contiguous();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), row.const_data_ptr<float>()));
}

TEST(Loader, leaves_the_noise_out_when_told_to_and_changes_nothing_else) {
  const auto with = load(small_definition(), {.last_step = 3});
  const auto without = load(small_definition(), {.last_step = 3, .noise = false});
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_FALSE(without[i].noise.defined());
    EXPECT_TRUE(at::equal(with[i].images, without[i].images));
    EXPECT_TRUE(at::equal(with[i].timesteps, without[i].timesteps));
  }
}

TEST(Loader, works_ahead_by_its_prefetch_depth_and_no_further) {
  const auto dataset = std::make_shared<Counting>();
  Loader loader(dataset, small_definition(), {.threads = 3, .prefetch = 4, .last_step = 100});
  static_cast<void>(loader.next());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (dataset->reads < 5 * 12 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // would be enough to run away
  EXPECT_EQ(dataset->reads, 5 * 12);
}

TEST(Loader, delivers_what_was_good_then_rethrows_the_first_error_of_the_batch) {
  Definition definition = small_definition();
  definition.train.batch = kPictures;
  definition.data.flip = false;
  const auto order = load(definition, {.last_step = 1});
  int64_t first = -1;  // the first in the batch of the images that fail
  for (int64_t i = kPictures - 1; i >= 0; --i) {
    const int64_t picture = picture_of(order[0].images[i]);
    if (picture >= 30) first = picture;
  }
  for (const int threads : {1, 5}) {
    Loader loader(std::make_shared<Failing>(30), definition, {.threads = threads, .last_step = 9});
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        static_cast<void>(loader.next());
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kBadInput);
        EXPECT_EQ(std::string(error.what()), "image " + std::to_string(first));
      }
    }
  }
}

/// Reads `good` images, then fails.
class Expiring final : public Counting {
 public:
  explicit Expiring(int64_t good) : good_(good) {}
  void read(Split split, int64_t index, std::span<float> out) const override {
    if (reads >= good_) throw Error(ExitCode::kBadInput, "expired");
    Counting::read(split, index, out);
  }

 private:
  int64_t good_;
};

TEST(Loader, batches_before_a_failing_one_arrive) {
  const auto good = load(small_definition(), {.last_step = 2});
  Loader loader(std::make_shared<Expiring>(2 * 12 + 5), small_definition(),
                {.prefetch = 3, .last_step = 4});
  expect_same(loader.next(), good[0]);
  expect_same(loader.next(), good[1]);
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
}

TEST(Loader, its_buffers_are_born_as_input) {
  const auto batch = load(small_definition(), {.threads = 2, .last_step = 1}).front();
  for (const at::Tensor& tensor : {batch.images, batch.timesteps, batch.noise}) {
    const auto block =
        memopt::cpu_allocation_source().find(*tensor.storage().unsafeGetStorageImpl());
    ASSERT_TRUE(block.has_value());
    EXPECT_EQ(block->born_as, memopt::Owner::kInput);
  }
}

TEST(Loader, holds_no_more_than_its_prefetched_batches) {
  const Batch batch = load(small_definition(), {.last_step = 1}).front();
  const auto batch_bytes =
      static_cast<int64_t>(batch.images.nbytes() + batch.noise.nbytes() + batch.timesteps.nbytes());
  memopt::HighMark high(memopt::cpu_allocation_source());
  const int64_t before = memopt::cpu_allocation_source().live_bytes();
  {
    Loader loader(std::make_shared<Counting>(), small_definition(),
                  {.threads = 3, .prefetch = 2, .last_step = 50});
    for (int step = 0; step < 50; ++step) static_cast<void>(loader.next());
  }
  // The consumer's batch besides the two that are ready or in the making.
  EXPECT_LE(high.take() - before, 3 * batch_bytes);
  EXPECT_EQ(memopt::cpu_allocation_source().live_bytes(), before);
}

TEST(Loader, can_be_destroyed_at_any_time) {
  for (int taken = 0; taken < 4; ++taken) {
    for (const int threads : {1, 4}) {
      Loader loader(std::make_shared<Counting>(), small_definition(),
                    {.threads = threads, .prefetch = 3, .last_step = 1000});
      for (int i = 0; i < taken; ++i) static_cast<void>(loader.next());
    }
  }
  Loader failing(std::make_shared<Failing>(0), small_definition(), {.threads = 2, .last_step = 5});
}

TEST(Loader, refuses_to_go_past_its_last_step) {
  Loader loader(std::make_shared<Counting>(), small_definition(), {.last_step = 2});
  static_cast<void>(loader.next());
  static_cast<void>(loader.next());
  EXPECT_THROW(static_cast<void>(loader.next()), c10::Error);
}

TEST(Loader, refuses_no_threads_and_no_slots) {
  const auto make = [](const LoaderOptions& options) {
    Loader loader(std::make_shared<Counting>(), small_definition(), options);
  };
  EXPECT_THROW(make({.threads = 0, .last_step = 1}), c10::Error);
  EXPECT_THROW(make({.prefetch = 0, .last_step = 1}), c10::Error);
}

}  // namespace
}  // namespace noisemark::suite
