#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "memopt/accounting/allocation_source.h"
#include "suite/probes/convolutions.h"
#include "suite/probes/memory_probe.h"
#include "suite/probes/snapshot_file.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/owners.h"
#include "suite/run/passes/watch.h"
#include "tests/gpu.h"
#include "tests/suite/train/tiny.h"

// Tests who owns every byte of a GPU's allocator, and what lies around it.
namespace noisemark::suite {
namespace {

using test::tiny_definition;
using test::TinySession;

/// The third step of a small training, told to a probe.
struct MeasuredStep {
  explicit MeasuredStep(const std::string& precision)
      : session(tiny_definition(), precision, kGpu),
        probe(
            *session.mode, [this] { return owner_roots(*session.trainer); }, kGpu) {
    probe.arm(2);
    for (int step = 0; step < 3; ++step) session.trainer->step({&probe}, &probe.sink());
    section = probe.section();
  }

  TinySession session;
  MemoryProbe probe;
  reports::MemorySection section;
};

TEST(GpuMemory, closes_to_the_byte_at_every_boundary) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const MeasuredStep step(precision);
    ASSERT_TRUE(step.section.measured) << step.section.missing_reason;
    for (const auto& boundary : step.section.boundaries) {
      EXPECT_EQ(boundary.unattributed_bytes, 0) << precision << ": " << boundary.at;
    }
    EXPECT_LE(step.section.peak.unattributed_bytes, step.section.peak_bytes / 100) << precision;
    EXPECT_EQ(step.section.leaked_bytes, 0) << precision;
  }
}

TEST(GpuMemory, counts_what_cublas_keeps_between_calls_as_workspace) {
  const at::Tensor a = at::randn({256, 256}, at::device(kGpu));
  (void)a.matmul(a);
  const auto kept = memopt::library_workspaces(kGpu);
  ASSERT_FALSE(kept.empty()) << "a product makes cuBLAS's handle, and with it a workspace";
  int64_t bytes = 0;
  for (const at::Tensor& tensor : kept) {
    const auto block =
        memopt::find_allocation_source(kGpu)->find(*tensor.storage().unsafeGetStorageImpl());
    ASSERT_TRUE(block) << "a workspace comes from the caching allocator";
    bytes += block->bytes;
  }
  const MeasuredStep step("fp32");
  EXPECT_GE(step.section.boundaries.front().by_category.at("workspace"), bytes);
}

TEST(GpuMemory, knows_what_the_allocator_holds_and_what_lies_outside) {
  const MeasuredStep step("fp32");
  const reports::DeviceMemory& held = step.section.device_memory;
  ASSERT_TRUE(held.reserved_bytes) << held.missing_reason;
  EXPECT_GE(*held.allocated_bytes, step.section.boundaries.back().allocator_bytes);
  EXPECT_GE(*held.rounding_bytes, 0);
  EXPECT_GE(*held.peak_allocated_bytes, step.section.peak_bytes);
  EXPECT_GE(*held.fragmentation_bytes, 0);
  EXPECT_EQ(held.failures, 0);
  if (!step.section.outside_allocator_bytes) {
    GTEST_SKIP() << step.section.missing_reason;
  }
  EXPECT_GT(*step.section.outside_allocator_bytes, int64_t{64} << 20)
      << "CUDA's context alone takes hundreds of MiB";
}

TEST(GpuMemory, knows_what_a_convolution_takes_beside_the_limit) {
  setenv(kWorkspaceLimitVariable, "4096", 1);
  const MeasuredStep step("fp32");
  unsetenv(kWorkspaceLimitVariable);
  const reports::ConvolutionWorkspace& scratch = step.section.convolution_workspace;
  ASSERT_TRUE(scratch.largest_bytes && scratch.peak_bytes) << scratch.missing_reason;
  EXPECT_LE(*scratch.largest_bytes, *scratch.peak_bytes);
  EXPECT_LE(*scratch.peak_bytes, step.section.peak_bytes);
  EXPECT_EQ(scratch.limit_bytes, int64_t{4096} << 20);
}

/// All that is free but for `left_bytes`.
at::Tensor ballast(int64_t left_bytes) {
  const auto free_bytes =
      static_cast<int64_t>(c10::getDeviceAllocator(c10::kCUDA)->getMemoryInfo(0).first);
  return at::empty({std::max<int64_t>(1, free_bytes - left_bytes)},
                   at::device(kGpu).dtype(at::kByte));
}

constexpr int64_t kLeftBytes = int64_t{1} << 30;
/// An activation of 8 channels takes 128 MiB, and a step saves dozens of them.
constexpr int64_t kTooLargeABatch = 16384;

TEST(GpuMemory, that_is_used_up_is_told_by_owner_and_kept_for_the_viewer) {
  SessionOptions options;
  options.spec.definition = tiny_definition();
  options.spec.definition.data.train_samples = options.spec.definition.train.batch =
      kTooLargeABatch;
  options.spec.definition.measure.memory_steps = 2;
  options.spec.device = kGpu;
  options.spec.precision = parse_precision("fp32", kGpu);
  options.dataset = open_dataset(options.spec.definition, "");
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "gpu_out_of_memory.pickle";
  Progress line("test", 2, kTooLargeABatch);
  const InterruptGuard interrupt;
  // Libraries have then loaded their kernels: whatever is left is then the allocator's to refuse.
  (void)MeasuredStep("fp32");
  const at::Tensor taken = ballast(kLeftBytes);
  try {
    (void)memory_pass(options, {line, interrupt}, nullptr, file.string());
    FAIL() << "a step of this batch found room in 1 GiB";
  } catch (const OutOfMemory& error) {
    ASSERT_TRUE(error.section()) << error.what();
    EXPECT_GT(error.section()->peak.by_category.at("weights"), 0);
    EXPECT_GT(error.section()->peak.by_category.at("activations"), 0);
    EXPECT_NE(std::string(error.what()).find("held then: weights "), std::string::npos)
        << error.what();
    EXPECT_GT(error.section()->device_memory.failures, 0);
  }
  EXPECT_GT(std::filesystem::file_size(file), 1000U);
  std::filesystem::remove(file);
}

TEST(GpuMemory, is_written_as_a_snapshot) {
  const MeasuredStep step("fp32");
  const std::string pickle = snapshot_of(step.probe.record(), kGpu);
  EXPECT_EQ(pickle.substr(0, 2), "\x80\x02");
  EXPECT_EQ(pickle.back(), '.');
  EXPECT_GT(step.probe.record().events.size(), 100U);
}

}  // namespace
}  // namespace noisemark::suite
