#include "tests/gpu_emulator/emulator.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu_emulator/cuda_words.h"
#include "tests/gpu_emulator/guarded_memory.h"

// The emulator does what a kernel may rely on, and finds what a GPU would hang or err at in
// silence.
namespace noisemark::test::gpu {
namespace {

constexpr uint32_t kAllLanes = 0xffffffff;

void launch_simply(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  launch(blocks, threads, 0, nullptr, kernel);
}

/// Returns what is said of a kernel that cannot go on; empty where it ends.
std::string complaint(unsigned threads, const std::function<void()>& kernel) {
  try {
    launch_simply(1, threads, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// Every thread of a block of 64 writes its number, and reads its neighbour's from the other warp.
std::vector<unsigned> read_neighbours(bool wait, Order order) {
  const WithSettings with(Settings{order});
  std::vector<unsigned> shared(64, 999), read(64);
  launch_simply(1, 64, [&] {
    const unsigned own = threadIdx.x;
    shared[own] = own;
    if (wait) __syncthreads();
    read[own] = shared[(own + 32) % 64];
  });
  return read;
}

TEST(GpuEmulator, runs_every_thread_of_every_block_once) {
  for (const Order order : kOrders) {
    const WithSettings with(Settings{order});
    std::vector<int> runs(5 * 96, 0);
    launch_simply(5, 96, [&] {
      EXPECT_EQ(blockDim.x, 96U);
      EXPECT_EQ(gridDim.x, 5U);
      ++runs.at(blockIdx.x * 96 + threadIdx.x);
    });
    EXPECT_EQ(runs, std::vector<int>(5 * 96, 1));
  }
}

TEST(GpuEmulator, lets_all_threads_arrive_at_a_barrier_before_any_goes_on) {
  for (const Order order : kOrders) {
    const std::vector<unsigned> read = read_neighbours(true, order);
    for (unsigned own = 0; own < 64; ++own) EXPECT_EQ(read[own], (own + 32) % 64);
  }
}

TEST(GpuEmulator, shows_a_missing_barrier_by_the_order_of_turns) {
  EXPECT_NE(read_neighbours(false, Order::kForward), read_neighbours(false, Order::kBackward));
}

/// Makes a sum over 8 warps by way of shared memory twice; the second may overwrite the first too
/// early.
std::vector<uint32_t> sum_twice(bool wait, Order order) {
  const WithSettings with(Settings{order});
  std::vector<uint32_t> shared(8), found(512);
  launch_simply(1, 256, [&] {
    for (uint32_t round = 0; round < 2; ++round) {
      const uint32_t own = __reduce_add_sync(kAllLanes, round + 1);
      if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
      __syncthreads();
      uint32_t sum = 0;
      for (const uint32_t of_warp : shared) sum += of_warp;
      found[round * 256 + threadIdx.x] = sum;
      if (wait) __syncthreads();
    }
  });
  return found;
}

TEST(GpuEmulator, shows_a_warp_that_runs_ahead_of_others) {
  std::vector<uint32_t> right(256, 256);
  right.resize(512, 512);
  for (const Order order : kOrders) EXPECT_EQ(sum_twice(true, order), right);
  EXPECT_NE(sum_twice(false, Order::kForward), right);
  EXPECT_NE(sum_twice(false, Order::kBackward), right);
}

TEST(GpuEmulator, does_not_wait_for_threads_that_have_ended) {
  int after = 0;
  launch_simply(1, 64, [&] {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    ++after;
  });
  EXPECT_EQ(after, 40);
}

TEST(GpuEmulator, exchanges_what_the_lanes_of_a_warp_hold) {
  for (const Order order : kOrders) {
    const WithSettings with(Settings{order});
    launch_simply(1, 64, [&] {
      const auto own = static_cast<int>(threadIdx.x % 32);
      const auto base = static_cast<int>(threadIdx.x / 32 * 100);
      EXPECT_EQ(__shfl_xor_sync(kAllLanes, static_cast<double>(base + own), 5), base + (own ^ 5));
      EXPECT_EQ(__ballot_sync(kAllLanes, own % 2), 0xaaaaaaaaU);
      EXPECT_EQ(__reduce_min_sync(kAllLanes, own - 7), -7);
      EXPECT_EQ(__reduce_max_sync(kAllLanes, static_cast<uint32_t>(own)), 31U);
      EXPECT_EQ(__reduce_add_sync(kAllLanes, static_cast<uint32_t>(own)), 496U);
      EXPECT_EQ(__reduce_or_sync(kAllLanes, 1U << own), kAllLanes);
      if (own >= 8) return;
      EXPECT_EQ(__ballot_sync(0xff, own == 3), 8U) << "by a part of the warp";
    });
  }
}

TEST(GpuEmulator, finds_lanes_that_wait_for_one_that_has_ended) {
  EXPECT_NE(complaint(32,
                      [] {
                        if (threadIdx.x != 9) (void)__ballot_sync(kAllLanes, 1);
                      })
                .find("names a lane that has ended"),
            std::string::npos);
}

TEST(GpuEmulator, finds_lanes_that_wait_in_different_operations) {
  EXPECT_NE(complaint(32,
                      [] {
                        if (threadIdx.x < 16) {
                          (void)__ballot_sync(kAllLanes, 1);
                        } else {
                          (void)__reduce_add_sync(kAllLanes, 1);
                        }
                      })
                .find("in different operations"),
            std::string::npos);
}

TEST(GpuEmulator, finds_lanes_that_wait_in_the_same_operation_at_different_places) {
  // The lambda stands outside of the macro, whose text is one place.
  const std::string said = complaint(32, [] {
    if (threadIdx.x < 16) {
      (void)__shfl_xor_sync(kAllLanes, 1, 1);
    } else {
      (void)__shfl_xor_sync(kAllLanes, 2.0, 1);
    }
  });
  EXPECT_NE(said.find("in different operations"), std::string::npos) << said;
}

TEST(GpuEmulator, finds_threads_that_wait_at_different_barriers) {
  // The lambda stands outside of the macro, whose text is one place.
  const std::string said = complaint(64, [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  EXPECT_NE(said.find("at different barriers"), std::string::npos) << said;
}

TEST(GpuEmulator, finds_a_warp_that_waits_for_lanes_at_a_barrier) {
  EXPECT_NE(complaint(32,
                      [] {
                        if (threadIdx.x < 16) {
                          (void)__ballot_sync(kAllLanes, 1);
                        } else {
                          __syncthreads();
                        }
                      })
                .find("others at a barrier"),
            std::string::npos);
}

TEST(GpuEmulator, finds_a_mask_that_names_too_many_or_not_oneself) {
  EXPECT_NE(complaint(16, [] { (void)__ballot_sync(kAllLanes, 1); }).find("does not have"),
            std::string::npos);
  EXPECT_NE(complaint(32, [] { (void)__ballot_sync(1, 1); }).find("not in the mask"),
            std::string::npos);
}

TEST(GpuEmulator, refuses_what_cuda_refuses_to_launch) {
  const auto nothing = [] {};
  EXPECT_THROW(launch_simply(0, 32, nothing), std::runtime_error);
  EXPECT_THROW(launch_simply(1, 0, nothing), std::runtime_error);
  EXPECT_THROW(launch_simply(1, 1025, nothing), std::runtime_error);
}

TEST(GpuEmulator, begins_shared_memory_anew_in_every_block) {
  static float shared[3];
  std::set<bool> seen;
  launch_simply(3, 32, [&] {
    begin_shared(&shared, sizeof shared);
    if (threadIdx.x == 0) seen.insert(std::isnan(shared[1]));
    __syncthreads();
    shared[1] = 5;
  });
  EXPECT_EQ(seen, std::set<bool>{true});
}

TEST(GpuEmulator, starts_no_more_blocks_than_the_settings_allow) {
  const WithSettings with(Settings{Order::kForward, 2});
  std::set<unsigned> blocks;
  launch_simply(7, 1, [&] {
    blocks.insert(blockIdx.x);
    EXPECT_EQ(gridDim.x, 2U);
  });
  EXPECT_EQ(blocks, (std::set<unsigned>{0, 1}));
}

TEST(GpuEmulator, passes_on_what_a_kernel_throws_and_can_be_used_again) {
  EXPECT_THROW(launch_simply(1, 64,
                             [] {
                               if (threadIdx.x == 3) throw std::logic_error("of the kernel");
                               __syncthreads();
                             }),
               std::logic_error);
  int runs = 0;
  launch_simply(1, 8, [&] { ++runs; });
  EXPECT_EQ(runs, 8);
}

TEST(GpuEmulatorDeathTest, guarded_memory_ends_the_process_that_reads_behind_it) {
  const Guarded<float> memory(std::vector<float>{1, 2, 3});
  EXPECT_EQ(memory.values().back(), 3);
  EXPECT_DEATH(
      {
        const volatile float behind = memory.data()[3];
        (void)behind;
      },
      "");
}

}  // namespace
}  // namespace noisemark::test::gpu
