#include "suite/quality/statistics_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

Gaussian gaussian(int64_t samples) {
  return {at::arange(4).to(at::kDouble) / 3, at::eye(4, at::kDouble) * 0.3, samples};
}

StatisticsFile read(const std::string& path) {
  return read_statistics(NpzFile(path));
}

TEST(StatisticsFile, comes_back_bit_for_bit) {
  const ScratchFolder folder;
  const ExtractorInfo info{"net", "FID", "0123", "tf1-bilinear", "a file"};
  write_statistics(folder.path("a.npz"), {gaussian(77), info});
  const StatisticsFile file = read(folder.path("a.npz"));
  EXPECT_TRUE(file.gaussian.mean.equal(gaussian(0).mean));
  EXPECT_TRUE(file.gaussian.covariance.equal(gaussian(0).covariance));
  EXPECT_EQ(file.gaussian.samples, 77);
  ASSERT_TRUE(file.extractor.has_value());
  EXPECT_TRUE(same_extractor(*file.extractor, info));
}

TEST(StatisticsFile, of_the_peers_says_neither_n_nor_extractor) {
  const ScratchFolder folder;
  write_npz(folder.path("a.npz"),
            {{"mu", gaussian(0).mean.to(at::kFloat)}, {"sigma", gaussian(0).covariance}});
  const StatisticsFile file = read(folder.path("a.npz"));
  EXPECT_EQ(file.gaussian.samples, 0);
  EXPECT_FALSE(file.extractor.has_value());
  EXPECT_EQ(file.gaussian.mean.scalar_type(), at::kDouble);
}

TEST(StatisticsFile, of_other_dimensions_or_a_wrong_n_is_refused) {
  const ScratchFolder folder;
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
    const auto [code, message] = outcome([&] { (void)read(folder.path("a.npz")); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find(folder.path("a.npz")), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace noisemark::suite::test
