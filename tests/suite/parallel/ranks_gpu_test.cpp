#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "suite/io/safetensors.h"
#include "suite/train/trainer.h"
#include "tests/run_tests.h"
#include "tests/suite/parallel/ranks.h"
#include "tests/suite/train/tiny.h"

// Trains by ranks whose gradients NCCL sums.
namespace noisemark::suite {
namespace {

using test::kLimit;

/// Ranks have a main() of their own, which does not look for a GPU.
class GpuIsHere final : public testing::Environment {
 public:
  void SetUp() override {
    if (at::hasCUDA()) return;
    const int code = noisemark::test::exit_code_without_gpu();
    (void)std::fflush(stdout);
    std::_Exit(code);
  }
};
const auto* const kGpuIsHere = testing::AddGlobalTestEnvironment(new GpuIsHere);

constexpr int64_t kSteps = 6;

Definition definition_for(int64_t batch) {
  Definition definition = test::tiny_definition();
  definition.train.batch = batch;
  return definition;
}

c10::Device gpu(int64_t number) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)};
}

/// The weights after some steps, on the CPU, and the loss of the last one.
struct Trained {
  NamedTensors weights;
  double loss = 0;
};

Trained trained(const std::shared_ptr<Group>& group, c10::Device device) {
  TrainerOptions options = test::TinySession::options_of(parse_precision("fp32", device), device);
  options.group = group;
  const test::TinySession session(definition_for(8), options);
  Trained found;
  for (int64_t step = 0; step < kSteps; ++step) found.loss = session.trainer->step().loss;
  for (const auto& [name, weight] : session.trainer->weights()) {
    found.weights.emplace_back(name, weight.detach().cpu().contiguous());
  }
  return found;
}

const test::NamedJob kOnGpu{
    "on_gpu", [](const Rank& rank, const test::Words& /*words*/, const std::string& out) {
      const c10::Device device = gpu(rank.local_rank);
      c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
      write_safetensors(out + "/weights",
                        trained(Group::join(rank, kLimit, device), device).weights);
    }};

TEST(GpuRanks, of_one_train_with_the_bits_of_a_training_without_ranks) {
  const auto group =
      Group::join({.address = "127.0.0.1", .port = test::free_port()}, kLimit, gpu(0));
  EXPECT_EQ(group->backend(), "nccl");
  EXPECT_FALSE(group->times_traffic());
  const Trained alone = trained(nullptr, gpu(0));
  const Trained by_one = trained(group, gpu(0));
  EXPECT_EQ(alone.loss, by_one.loss);
  EXPECT_EQ(tensors_sha256(alone.weights), tensors_sha256(by_one.weights));
  EXPECT_GE(group->traffic().operations, kSteps) << "gradients were not reduced";
}

TEST(GpuRanks, of_two_end_with_equal_weights_near_those_of_one) {
  if (at::detail::getCUDAHooks().getNumGPUs() < 2) GTEST_SKIP() << "one GPU";
  test::Ranks ranks(2, "on_gpu");
  for (int64_t rank = 0; rank < 2; ++rank) ranks.start(rank);
  const std::vector<int> codes = ranks.wait();
  ASSERT_EQ(codes, (std::vector<int>{0, 0})) << ranks.words_of(0) << ranks.words_of(1);
  const auto first = read_safetensors(ranks.out(0) + "/weights").tensors;
  const auto second = read_safetensors(ranks.out(1) + "/weights").tensors;
  const Trained alone = trained(nullptr, gpu(0));
  ASSERT_EQ(first.size(), alone.weights.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const auto& [name, weight] = first[i];
    EXPECT_TRUE(weight.equal(second[i].second)) << name;
    // The order of sums alone differs, and Adam's first steps are of the size of the rate whatever
    // the gradient's: six of them, at a rate of 1e-3.
    EXPECT_LE((weight - alone.weights[i].second).abs().max().item<double>(), kSteps * 1e-3) << name;
  }
}

}  // namespace
}  // namespace noisemark::suite
