#include "suite/quality/feature_set.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "reports/base/sha256.h"
#include "suite/io/numpy.h"
#include "tests/suite/data/image_writer.h"
#include "tests/suite/quality/distance/gaussians.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

const at::Tensor& features() {
  static const at::Tensor kFeatures = at::arange(30).to(at::kFloat).view({10, 3});
  return kFeatures;
}

TEST(FeatureCache, gives_back_what_was_stored_of_that_range_and_key) {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  const FeatureCache cache(folder.path("cache"), reports::sha256_of("a"));
  const FeatureCache other(folder.path("cache"), reports::sha256_of("b"));
  cache.store(0, 10, features());
  std::filesystem::copy(cache.file(0, 10), cache.file(10, 20));
  std::filesystem::copy(cache.file(0, 10), other.file(0, 10));
  EXPECT_FALSE(cache.load(10, 20).has_value());
  EXPECT_FALSE(other.load(0, 10).has_value());
}

TEST(FeatureCache, that_cannot_be_made_says_so) {
  const TemporaryFolder folder;
  put_bytes(folder.path("file"), "x");
  const auto [code, message] =
      outcome([&] { (void)FeatureCache(folder.path("file"), reports::sha256_of("a")); });
  EXPECT_EQ(code, ExitCode::kCannotWrite) << message;
}

Gaussian gaussian(int64_t samples) {
  return {at::arange(4).to(at::kDouble) / 3, at::eye(4, at::kDouble) * 0.3, samples};
}

StatisticsFile read_archive(const std::string& path) {
  return read_statistics(NpzFile(path));
}

TEST(StatisticsFile, comes_back_bit_for_bit) {
  const TemporaryFolder folder;
  const ExtractorInfo info{"net", "FID", "0123", "tf1-bilinear", "a file"};
  write_statistics(folder.path("a.npz"), {gaussian(77), info});
  const StatisticsFile file = read_archive(folder.path("a.npz"));
  EXPECT_TRUE(file.gaussian.mean.equal(gaussian(0).mean));
  EXPECT_TRUE(file.gaussian.covariance.equal(gaussian(0).covariance));
  EXPECT_EQ(file.gaussian.samples, 77);
  ASSERT_TRUE(file.extractor.has_value());
  EXPECT_TRUE(same_extractor(*file.extractor, info));
}

TEST(StatisticsFile, of_the_peers_says_neither_n_nor_extractor) {
  const TemporaryFolder folder;
  write_npz(folder.path("a.npz"),
            {{"mu", gaussian(0).mean.to(at::kFloat)}, {"sigma", gaussian(0).covariance}});
  const StatisticsFile file = read_archive(folder.path("a.npz"));
  EXPECT_EQ(file.gaussian.samples, 0);
  EXPECT_FALSE(file.extractor.has_value());
  EXPECT_EQ(file.gaussian.mean.scalar_type(), at::kDouble);
}

TEST(StatisticsFile, of_other_dimensions_or_a_wrong_n_is_refused) {
  const TemporaryFolder folder;
  const at::Tensor mu = gaussian(0).mean;
  const at::Tensor sigma = gaussian(0).covariance;
  const at::Tensor one = at::scalar_tensor(int64_t{1}, at::kLong);
  for (const NamedTensors& arrays :
       {NamedTensors{{"mu", mu.slice(0, 0, 3)}, {"sigma", sigma}},
        NamedTensors{{"mu", sigma}, {"sigma", sigma}},
        NamedTensors{{"mu", mu}, {"sigma", sigma.slice(0, 0, 3)}},
        NamedTensors{{"mu", mu}, {"sigma", sigma}, {"n", one}},
        NamedTensors{{"mu", mu}, {"sigma", sigma}, {"n", mu}},
        NamedTensors{{"mu", mu}, {"sigma", sigma}, {"extractor", mu}}}) {
    write_npz(folder.path("a.npz"), arrays);
    const auto [code, message] = outcome([&] { (void)read_archive(folder.path("a.npz")); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find(folder.path("a.npz")), std::string::npos) << message;
  }
}

TEST(StatisticsFile, of_integers_is_refused_by_the_name_of_their_type) {
  const TemporaryFolder folder;
  const auto [mu, sigma, n] = gaussian(0);
  for (const auto& [dtype, name] : {std::pair(at::kLong, "int64"), std::pair(at::kByte, "uint8")}) {
    for (const bool of_mean : {true, false}) {
      write_npz(folder.path("a.npz"), {{"mu", of_mean ? mu.to(dtype) : mu},
                                       {"sigma", of_mean ? sigma : sigma.to(dtype)}});
      const auto [code, message] = outcome([&] { (void)read_archive(folder.path("a.npz")); });
      EXPECT_EQ(code, ExitCode::kBadInput);
      EXPECT_EQ(message, fmt::format("{}: {}: {} (float64 or float32)", folder.path("a.npz"),
                                     of_mean ? "mu" : "sigma", name));
    }
  }
}

FeatureSet read(const std::string& given, const FeatureSetOptions& options = {}) {
  return FeatureSetReader(options).read(given);
}

/// n images of 2 x 2, no two alike: d = 12.
at::Tensor pictures(int64_t n) {
  return (at::arange(n * 12) * 37 % 251).to(at::kByte).view({n, 3, 2, 2});
}

void expect_bad_input(const std::string& given, const std::string& words) {
  const auto [code, message] = outcome([&] { (void)read(given); });
  EXPECT_EQ(code, ExitCode::kBadInput) << given;
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(FeatureSet, of_pictures_has_the_moments_of_their_features) {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), pictures(40));
  const FeatureSet set = read(folder.path("a.npy"));
  EXPECT_EQ(set.samples, 40);
  EXPECT_EQ(set.dimension, 12);
  ASSERT_TRUE(set.gaussian && set.extractor);
  EXPECT_FALSE(set.features.defined());
  Moments moments(12);
  moments.add(make_pixels({})->extract(pictures(40)));
  EXPECT_TRUE(set.gaussian->covariance.allclose(moments.gaussian().covariance, 1e-12));
  EXPECT_EQ(set.extractor->name, "pixels");
}

TEST(FeatureSet, keeps_features_where_they_are_few_or_asked_for) {
  const TemporaryFolder folder;
  write_npy(folder.path("few.npy"), pictures(12));
  write_npy(folder.path("many.npy"), pictures(13));
  EXPECT_TRUE(read(folder.path("few.npy")).features.defined());
  EXPECT_FALSE(read(folder.path("few.npy")).gaussian.has_value());
  EXPECT_FALSE(read(folder.path("many.npy")).features.defined());
  FeatureSetOptions options;
  options.keep_features = true;
  const FeatureSet kept = read(folder.path("many.npy"), options);
  EXPECT_TRUE(kept.features.equal(make_pixels({})->extract(pictures(13))));
  EXPECT_TRUE(gaussian_of(read(folder.path("few.npy")))
                  .mean.allclose(make_pixels({})->extract(pictures(12)).mean(0).to(at::kDouble)));
}

TEST(FeatureSet, of_a_folder_is_that_of_its_pictures) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) {
    folder.write(std::to_string(i) + ".png", encode_png(test_picture(5, 4, 3)));
  }
  const FeatureSet set = read(folder.path());
  EXPECT_EQ(set.samples, 3);
  EXPECT_EQ(set.dimension, 60);
  EXPECT_EQ(set.contents_sha256, open_image_set(folder.path())->checksum());
}

TEST(FeatureSet, of_a_limit_takes_the_first) {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), pictures(40));
  write_npy(folder.path("f.npy"), normals(1, 40, 3));
  FeatureSetOptions options;
  options.limit = 5;
  EXPECT_TRUE(read(folder.path("a.npy"), options)
                  .features.equal(make_pixels({})->extract(pictures(40).slice(0, 0, 5))));
  EXPECT_EQ(read(folder.path("f.npy"), options).samples, 5);
}

TEST(FeatureSet, does_not_depend_on_the_batch) {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), pictures(1500));
  FeatureSetOptions options;
  options.batch = 7;
  const FeatureSet odd = read(folder.path("a.npy"), options);
  EXPECT_TRUE(odd.gaussian->covariance.equal(read(folder.path("a.npy")).gaussian->covariance));
}

TEST(FeatureSet, reads_statistics_features_and_the_exact_mixture) {
  const TemporaryFolder folder;
  write_statistics(folder.path("s.npz"),
                   {{at::zeros({3}, doubles()), at::eye(3, doubles()), 9}, std::nullopt});
  const FeatureSet statistics = read(folder.path("s.npz"));
  EXPECT_EQ(statistics.samples, 9);
  EXPECT_EQ(statistics.dimension, 3);
  EXPECT_FALSE(statistics.extractor.has_value());
  write_npz(folder.path("f.npz"), {{"other", at::ones({2})}, {"features", normals(1, 8, 3)}});
  EXPECT_EQ(read(folder.path("f.npz")).samples, 8);
  write_npy(folder.path("F.NPY"), normals(1, 8, 3));
  EXPECT_EQ(read(folder.path("F.NPY")).samples, 8);
  write_npz(folder.path("one.npz"), {{"arr_0", normals(1, 8, 6).view({8, 1, 2, 3})}});
  EXPECT_EQ(read(folder.path("one.npz")).dimension, 6);
  const FeatureSet exact = read("gmm16:exact");
  EXPECT_TRUE(exact.exact);
  EXPECT_EQ(exact.dimension, 256);
  EXPECT_EQ(exact.samples, 0);
}

TEST(FeatureSet, has_classes_only_where_its_extractor_tells_some) {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), pictures(40));
  write_npy(folder.path("f.npy"), normals(1, 8, 12));
  FeatureSetReader reader((FeatureSetOptions()));
  EXPECT_FALSE(reader.read(folder.path("a.npy")).features.defined());
  const FeatureSet kept = reader.read(folder.path("a.npy"), /*keep_features=*/true);
  ASSERT_TRUE(kept.features.defined());
  EXPECT_EQ(outcome([&] { (void)reader.logits_of(kept); }).second,
            "--extractor: pixels (inception, which tells classes)");
  const FeatureSet features = reader.read(folder.path("f.npy"));
  EXPECT_EQ(outcome([&] { (void)reader.logits_of(features); }).first, ExitCode::kBadInput);
}

TEST(FeatureSet, reads_a_split_of_a_benchmarks_data) {
  FeatureSetOptions options;
  options.limit = 4;
  const FeatureSet test = read("gmm16:test", options);
  EXPECT_EQ(test.samples, 4);
  EXPECT_EQ(test.dimension, 768);
  EXPECT_FALSE(test.features.equal(read("gmm16:train", options).features));
}

TEST(FeatureSet, names_what_it_cannot_read) {
  const TemporaryFolder folder;
  put_bytes(folder.path("a.txt"), "x");
  write_npz(folder.path("two.npz"), {{"a", at::ones({2})}, {"b", at::ones({2})}});
  write_npy(folder.path("flat.npy"), at::ones({5}));
  write_npy(folder.path("whole.npy"), at::ones({5, 2}, at::kLong));
  at::Tensor nan = normals(1, 5, 2);
  nan[3][0] = std::numeric_limits<double>::quiet_NaN();
  write_npy(folder.path("nan.npy"), nan);
  write_npz(folder.path("half.npz"), {{"mu", at::ones({2})}});
  expect_bad_input(folder.path("half.npz"), "sigma: missing");
  expect_bad_input(folder.path("absent"), "no such file or folder");
  expect_bad_input(folder.path("a.txt"), "neither .npz nor .npy");
  expect_bad_input(folder.path("two.npz"),
                   "arrays: a, b (mu and sigma, or features, or one array)");
  write_npz(folder.path("none.npz"), {});
  expect_bad_input(folder.path("none.npz"),
                   "arrays: none (mu and sigma, or features, or one array)");
  expect_bad_input(folder.path("flat.npy"), "float [N, ...]");
  expect_bad_input(folder.path("whole.npy"), "float [N, ...]");
  expect_bad_input(folder.path("nan.npy"), "the first is row 3");
  expect_bad_input("gmm61:test", "gmm16");
  expect_bad_input("ho-cifar10:exact", "the distribution of cifar10 is not known (gmm16:exact)");
}

TEST(FeatureSet, of_a_dataset_without_its_files_cannot_be_read_here) {
  EXPECT_EQ(outcome([] { (void)read("ho-cifar10:test"); }).first, ExitCode::kCannotRunHere);
}

TEST(FeatureSet, takes_from_the_cache_what_is_whole_and_computes_the_rest_again) {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), pictures(3000));
  FeatureSetOptions options;
  options.cache = folder.path("cache");
  const FeatureSet first = read(folder.path("a.npy"), options);
  EXPECT_TRUE(first.notes.empty());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path("cache"))) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  ASSERT_EQ(files.size(), 3);
  std::sort(files.begin(), files.end());
  std::filesystem::remove(files[2]);
  put_bytes(files[0], file_bytes(files[0]).substr(0, 5000));
  const FeatureSet second = read(folder.path("a.npy"), options);
  ASSERT_EQ(second.notes.size(), 1);
  EXPECT_NE(second.notes[0].find("1024 of 3000 images from the cache"), std::string::npos)
      << second.notes[0];
  EXPECT_TRUE(second.gaussian->covariance.equal(first.gaussian->covariance));
  EXPECT_TRUE(second.gaussian->mean.equal(first.gaussian->mean));
  // Another device rounds otherwise.
  FeatureSetOptions elsewhere = options;
  elsewhere.extractor_options.device = at::Device(at::kCUDA, 0);  // pixels need no device
  EXPECT_TRUE(read(folder.path("a.npy"), elsewhere).notes.empty());
  // Another batch and another number of threads may round otherwise too.
  FeatureSetOptions in_other_batches = options;
  in_other_batches.batch = 63;
  EXPECT_TRUE(read(folder.path("a.npy"), in_other_batches).notes.empty());
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  const FeatureSet by_other_threads = read(folder.path("a.npy"), options);
  at::set_num_threads(threads);
  EXPECT_TRUE(by_other_threads.notes.empty());
  // Other images under the same name are other features.
  write_npy(folder.path("a.npy"), 255 - pictures(3000));
  const FeatureSet other = read(folder.path("a.npy"), options);
  EXPECT_TRUE(other.notes.empty());
  EXPECT_FALSE(other.gaussian->mean.equal(first.gaussian->mean));
}

}  // namespace

}  // namespace noisemark::suite::test
