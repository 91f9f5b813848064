#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

/// Runs CUDA kernels on the CPU, one thread at a time, each on a stack of its own, so that what a
/// kernel computes and which memory it touches can be tested where no GPU is. A thread goes on
/// until it needs others: at __syncthreads() and at what a warp does together. It models what a
/// kernel may rely on, not how long it takes; memory is the CPU's.
namespace noisemark::test::gpu {

inline constexpr int kWarpLanes = 32;

struct Index {
  unsigned x = 0;
};

/// The order in which blocks and the threads of a block have their turn. A kernel whose result
/// depends on it has a race.
enum class Order : uint8_t {
  kForward,   ///< one warp goes on to the next barrier before another begins, the first one first
  kBackward,  ///< the same, the last one first
  kShuffled,  ///< all threads go on to their next meeting, by no rule
};
inline constexpr std::array kOrders = {Order::kForward, Order::kBackward, Order::kShuffled};

struct Settings {
  Order order = Order::kForward;
  /// The number of blocks that are started at most, whatever is asked for. It is for kernels whose
  /// blocks go on in steps of the grid, and so must do the same work.
  unsigned most_blocks = 0xffffffff;
};

/// The settings of all launches of this thread for as long as it lives.
class WithSettings {
 public:
  explicit WithSettings(const Settings& settings);
  ~WithSettings();
  WithSettings(const WithSettings&) = delete;
  WithSettings& operator=(const WithSettings&) = delete;

 private:
  Settings before_;
};

/// Runs `kernel` in every thread of every block and returns when all have ended. Throws
/// std::runtime_error where the GPU would hang or the result would be undefined: threads that wait
/// for each other at different places or for one that has ended, a warp's operation that names
/// lanes which are elsewhere or not itself, threads at different barriers; and for a launch that
/// CUDA refuses (no blocks or too many, more than 1024 threads). `shared_bytes` must be
/// 0; there is one stream.
void launch(unsigned blocks, unsigned threads, size_t shared_bytes, void* stream,
            const std::function<void()>& kernel);

// A kernel asks these of the thread that it is, only inside launch().

[[nodiscard]] Index thread_index();
[[nodiscard]] Index block_index();
[[nodiscard]] Index block_size();
[[nodiscard]] Index grid_size();

using Place = std::source_location;

/// Returns when all threads of the block that have not ended are here, which is one place.
void synchronize_threads(const Place& place);

/// A warp does these together; lanes that wait for each other must be at the same one, in one
/// place.
enum class WarpWork : uint8_t { kNone, kShuffle, kBallot, kMinimum, kMaximum, kSum, kOr };

/// Returns what the lanes named by `mask` brought, by lane, when all of them are here.
[[nodiscard]] std::array<uint64_t, kWarpLanes> exchange(uint32_t mask, WarpWork work, uint64_t own,
                                                        const Place& place);

/// The first time in a block: fills the variable with ones, which is NaN where it is floating, so
/// that nothing is read before it is written without showing.
void begin_shared(void* variable, size_t bytes);

/// The warp's own.
[[nodiscard]] int lane();

}  // namespace noisemark::test::gpu
