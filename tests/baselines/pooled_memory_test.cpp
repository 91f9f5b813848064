
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "baselines/baseline.h"

namespace noisemark::baselines {
namespace {

constexpr int kBlocks = 16;
constexpr size_t kBlockBytes = size_t{8} << 20;
constexpr int64_t kPages = static_cast<int64_t>(kBlocks * kBlockBytes / 4096);

/// Page faults of one round that allocates, touches and frees 128 MiB.
int64_t faults_of_a_round() {
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  void* blocks[kBlocks];
  for (void*& block : blocks) {
    block = std::malloc(kBlockBytes);
    std::memset(block, 1, kBlockBytes);
  }
  for (void* block : blocks) std::free(block);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(PooledMemory, makes_later_rounds_of_the_same_allocations_free_of_page_faults) {
#if defined(__SANITIZE_ADDRESS__) || !defined(__GLIBC__)
  GTEST_SKIP() << "not glibc's allocator";
#endif
  const int64_t usual = (faults_of_a_round(), faults_of_a_round());
  EXPECT_GT(usual, kPages / 2);  // else the test shows nothing
  apply_process_settings(parse_baseline("plain"));
  EXPECT_GT(faults_of_a_round(), kPages / 2);
  apply_process_settings(parse_baseline("pooled"));
  (void)faults_of_a_round();
  EXPECT_LT(faults_of_a_round(), kPages / 100);
}

}  // namespace
}  // namespace noisemark::baselines
