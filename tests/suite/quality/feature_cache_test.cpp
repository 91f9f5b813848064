#include "suite/quality/feature_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "reports/sha256.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

const at::Tensor& features() {
  static const at::Tensor kFeatures = at::arange(30).to(at::kFloat).view({10, 3});
  return kFeatures;
}

TEST(FeatureCache, gives_back_what_was_stored_of_that_range_and_key) {
  const ScratchFolder folder;
  const FeatureCache cache(folder.path("cache"), reports::sha256_of("a"));
  EXPECT_FALSE(cache.load(0, 10).has_value());
  cache.store(0, 10, features());
  const auto loaded = FeatureCache(folder.path("cache"), reports::sha256_of("a")).load(0, 10);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(loaded->equal(features()));
  EXPECT_FALSE(cache.load(10, 20).has_value());
  EXPECT_FALSE(FeatureCache(folder.path("cache"), reports::sha256_of("b")).load(0, 10).has_value());
}

TEST(FeatureCache, never_trusts_a_file_that_is_cut_or_changed_at_any_byte) {
  const ScratchFolder folder;
  const FeatureCache cache(folder.path("cache"), reports::sha256_of("a"));
  cache.store(0, 10, features());
  const std::string file = cache.file(0, 10);
  const std::string whole = file_bytes(file);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    put_bytes(file, whole.substr(0, bytes));
    EXPECT_FALSE(cache.load(0, 10).has_value()) << bytes;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    put_bytes(file, changed);
    const auto loaded = cache.load(0, 10);
    // A changed blank or name in the header changes no value.
    if (loaded) {
      EXPECT_TRUE(loaded->equal(features())) << at;
    }
  }
  put_bytes(file, whole);
  EXPECT_TRUE(cache.load(0, 10).has_value());
}

TEST(FeatureCache, takes_no_file_for_another_range_or_key_by_its_place) {
  const ScratchFolder folder;
  const FeatureCache cache(folder.path("cache"), reports::sha256_of("a"));
  const FeatureCache other(folder.path("cache"), reports::sha256_of("b"));
  cache.store(0, 10, features());
  std::filesystem::copy(cache.file(0, 10), cache.file(10, 20));
  std::filesystem::copy(cache.file(0, 10), other.file(0, 10));
  EXPECT_FALSE(cache.load(10, 20).has_value());
  EXPECT_FALSE(other.load(0, 10).has_value());
}

TEST(FeatureCache, that_cannot_be_made_says_so) {
  const ScratchFolder folder;
  put_bytes(folder.path("file"), "x");
  const auto [code, message] =
      outcome([&] { (void)FeatureCache(folder.path("file"), reports::sha256_of("a")); });
  EXPECT_EQ(code, ExitCode::kCannotWrite) << message;
}

}  // namespace
}  // namespace noisemark::suite::test
