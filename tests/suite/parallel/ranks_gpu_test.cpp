#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "suite/environment/environment.h"
#include "suite/io/safetensors.h"
#include "suite/train/trainer.h"
#include "tests/run_tests.h"
#include "tests/suite/parallel/ranks.h"
#include "tests/suite/train/tiny.h"

// Trains by ranks whose gradients NCCL sums.
namespace noisemark::suite {
namespace {

using test::kLimit;

/// The main() of ranks does not look for a GPU, nor for NCCL.
class GpuIsHere final : public testing::Environment {
 public:
  void SetUp() override {
    if (at::hasCUDA() && has_nccl()) return;
    const int code = noisemark::test::exit_code_without_gpu();
    (void)std::fflush(stdout);
    std::_Exit(code);
  }
};
const auto* const kGpuIsHere = testing::AddGlobalTestEnvironment(new GpuIsHere);

constexpr int64_t kSteps = 6;

c10::Device gpu(int64_t number) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)};
}

struct Trained {
  NamedTensors gradients;  ///< gradients of the last step, on the CPU
  double loss = 0;         ///< the loss of the last step
  int64_t bytes = 0;       ///< bytes of the gradients of all steps
};

/// Weights stay where they are, so that the order of sums is all that ranks may change.
Trained trained(const std::shared_ptr<Group>& group, c10::Device device) {
  Definition definition = test::tiny_definition();
  definition.train.batch = 8;
  definition.optimizer.lr = 1e-30;
  TrainerOptions options = test::TinySession::options_of(parse_precision("fp32", device), device);
  options.group = group;
  const test::TinySession session(definition, options);
  test::LastGradients last(*session.trainer);
  Trained found;
  for (int64_t step = 0; step < kSteps; ++step) found.loss = session.trainer->step({&last}).loss;
  for (const auto& [name, gradient] : last.gradients()) {
    found.gradients.emplace_back(name, gradient.cpu().contiguous());
    found.bytes += kSteps * static_cast<int64_t>(gradient.nbytes());
  }
  return found;
}

const test::NamedJob kOnGpu{
    "on_gpu", [](const Rank& rank, const test::Words& /*words*/, const std::string& out) {
      const c10::Device device = gpu(rank.local_rank);
      write_safetensors(out + "/gradients",
                        trained(Group::join(rank, kLimit, device), device).gradients);
    }};

TEST(GpuRanks, of_one_train_with_the_bits_of_a_training_without_ranks) {
  const auto group =
      Group::join({.address = "127.0.0.1", .port = test::free_port()}, kLimit, gpu(0));
  EXPECT_EQ(group->backend(), "nccl");
  EXPECT_FALSE(group->times_traffic());
  const Trained alone = trained(nullptr, gpu(0));
  const Trained by_one = trained(group, gpu(0));
  EXPECT_EQ(alone.loss, by_one.loss);
  EXPECT_EQ(tensors_sha256(alone.gradients), tensors_sha256(by_one.gradients));
  EXPECT_GE(group->traffic().bytes, by_one.bytes) << "gradients were not reduced";
}

TEST(GpuRanks, of_two_have_the_gradients_of_one_but_for_the_order_of_sums) {
  if (usable_gpus() < 2) GTEST_SKIP() << "one GPU";
  test::Ranks ranks(2, "on_gpu");
  for (int64_t rank = 0; rank < 2; ++rank) ranks.start(rank);
  const std::vector<int> codes = ranks.wait();
  ASSERT_EQ(codes, (std::vector<int>{0, 0})) << ranks.words_of(0) << ranks.words_of(1);
  const auto first = read_safetensors(ranks.out(0) + "/gradients").tensors;
  const auto second = read_safetensors(ranks.out(1) + "/gradients").tensors;
  const Trained alone = trained(nullptr, gpu(0));
  ASSERT_EQ(first.size(), alone.gradients.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const auto& [name, gradient] = first[i];
    EXPECT_TRUE(gradient.equal(second[i].second)) << name;
    const at::Tensor& one = alone.gradients[i].second;
    // The bound of the CPU's ranks.
    EXPECT_LE((gradient - one).norm().item<double>(), 1e-6 * one.norm().item<double>()) << name;
  }
}

}  // namespace
}  // namespace noisemark::suite
