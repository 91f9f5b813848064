// Some systems check that longjmp() only goes up a stack; here it goes to others. Before any
// header.
#undef _FORTIFY_SOURCE
#include "tests/gpu_emulator/emulator.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace noisemark::test::gpu {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBlocks = 0x7fffffff;

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kEnded };

/// Grows towards a page that nobody may touch.
class Stack {
 public:
  Stack() : guard_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    pages_ = mmap(nullptr, guard_bytes_ + kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED || mprotect(pages_, guard_bytes_, PROT_NONE) != 0) {
      throw std::runtime_error("a thread's stack: no memory");
    }
  }
  ~Stack() { munmap(pages_, guard_bytes_ + kStackBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  [[nodiscard]] void* lowest() const { return static_cast<char*>(pages_) + guard_bytes_; }

 private:
  size_t guard_bytes_;
  void* pages_ = nullptr;
};

/// Stacks that no grid uses. Making one asks the system three times, which would take longer than
/// most kernels.
thread_local std::vector<std::unique_ptr<Stack>> free_stacks;

/// One of those, or a new one; given back.
class BorrowedStack {
 public:
  BorrowedStack() {
    if (free_stacks.empty()) free_stacks.push_back(std::make_unique<Stack>());
    stack_ = std::move(free_stacks.back());
    free_stacks.pop_back();
  }
  ~BorrowedStack() { free_stacks.push_back(std::move(stack_)); }
  BorrowedStack(const BorrowedStack&) = delete;
  BorrowedStack& operator=(const BorrowedStack&) = delete;

  [[nodiscard]] void* lowest() const { return stack_->lowest(); }

 private:
  std::unique_ptr<Stack> stack_;
};

struct Thread {
  BorrowedStack stack;
  bool has_begun = false;
  ucontext_t first_turn{};
  jmp_buf next_turn{};
  State state = State::kReady;
  uint32_t mask = 0;
  WarpWork work = WarpWork::kNone;
  Place place;  ///< the meeting that it waits at
  uint64_t brought = 0;
  std::array<uint64_t, kWarpLanes> received{};
};

std::vector<unsigned> turns(unsigned count, Order order, unsigned seed) {
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0U);
  if (order == Order::kBackward) std::reverse(all.begin(), all.end());
  if (order == Order::kShuffled) std::shuffle(all.begin(), all.end(), std::mt19937(seed));
  return all;
}

bool is_same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == b.file_name();
}

/// One block at a time of one launch.
class Grid {
 public:
  Grid(unsigned blocks, unsigned threads, Order order, const std::function<void()>& kernel)
      : blocks_(blocks), kernel_(kernel), threads_(threads), order_(order) {
    for (Thread& thread : threads_) prepare(thread);
  }

  void run_block(unsigned block) {
    block_ = block;
    turns_ = turns(static_cast<unsigned>(threads_.size()), order_, block);
    shared_.clear();
    for (Thread& thread : threads_) thread.state = State::kReady;
    while (take_turns()) release();
  }

  [[nodiscard]] Index thread_index() const { return {running_}; }
  [[nodiscard]] Index block_index() const { return {block_}; }
  [[nodiscard]] Index block_size() const { return {static_cast<unsigned>(threads_.size())}; }
  [[nodiscard]] Index grid_size() const { return {blocks_}; }

  void wait_at_barrier(const Place& place) {
    threads_[running_].place = place;
    threads_[running_].state = State::kAtBarrier;
    give_way();
  }

  [[nodiscard]] std::array<uint64_t, kWarpLanes> exchange(uint32_t mask, WarpWork work,
                                                          uint64_t own, const Place& place) {
    Thread& thread = threads_[running_];
    thread.mask = mask;
    thread.work = work;
    thread.place = place;
    thread.brought = own;
    thread.state = State::kInWarp;
    give_way();
    return thread.received;
  }

  void begin_shared(void* variable, size_t bytes) {
    if (shared_.insert(variable).second) std::memset(variable, 0xff, bytes);
  }

  /// The running thread's life: the kernel once for each block.
  void live() {
    for (;;) {
      try {
        kernel_();
      } catch (...) {
        thrown_ = std::current_exception();
      }
      threads_[running_].state = State::kEnded;
      give_way();
    }
  }

 private:
  static void prepare(Thread& thread);

  // Only a thread's first turn goes by its context: that asks the system for its signals each time.

  void give_way() {
    if (_setjmp(threads_[running_].next_turn) == 0) _longjmp(scheduler_, 1);
  }

  void take_turn(Thread& thread) {
    if (_setjmp(scheduler_) != 0) return;
    if (thread.has_begun) _longjmp(thread.next_turn, 1);
    thread.has_begun = true;
    setcontext(&thread.first_turn);
  }

  /// Lets every thread that can go on do so until it waits; whether some are left.
  bool take_turns() {
    for (const unsigned turn : turns_) {
      go_on(turn);
      // Turns of a warp lie together in these orders: at the end of its turns it goes on alone.
      const bool last =
          order_ == Order::kForward ? turn % kWarpLanes == kWarpLanes - 1 : turn % kWarpLanes == 0;
      if (order_ != Order::kShuffled && last) go_on_alone(turn / kWarpLanes * kWarpLanes);
    }
    return count(State::kEnded) < threads_.size();
  }

  void go_on(size_t turn) {
    if (threads_[turn].state != State::kReady) return;
    running_ = static_cast<unsigned>(turn);
    take_turn(threads_[turn]);
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

  /// The warp, for as long as its lanes need nobody else.
  void go_on_alone(size_t first) {
    while (release_in_warp(first)) {
      const size_t end = std::min<size_t>(first + kWarpLanes, threads_.size());
      for (size_t turn = first; turn < end; ++turn) go_on(turn);
    }
  }

  [[nodiscard]] size_t count(State state) const {
    return static_cast<size_t>(
        std::count_if(threads_.begin(), threads_.end(),
                      [&](const Thread& thread) { return thread.state == state; }));
  }

  /// Returns the threads whose companions are all here. Throws where nobody can ever go on.
  void release() {
    bool any = false;
    for (size_t first = 0; first < threads_.size(); first += kWarpLanes) {
      any = release_in_warp(first) || any;
    }
    if (any) return;
    if (count(State::kAtBarrier) + count(State::kEnded) < threads_.size()) {
      fail("some threads wait in a warp's operation, others at a barrier");
    }
    const Thread* other = nullptr;
    for (Thread& thread : threads_) {
      if (thread.state != State::kAtBarrier) continue;
      if (other != nullptr && !is_same(thread.place, other->place)) {
        fail("threads wait for each other at different barriers");
      }
      other = &thread;
      thread.state = State::kReady;
    }
  }

  bool release_in_warp(size_t first) {
    bool any = false;
    const size_t lanes = std::min<size_t>(kWarpLanes, threads_.size() - first);
    for (size_t lane = 0; lane < lanes; ++lane) {
      Thread& thread = threads_[first + lane];
      if (thread.state != State::kInWarp) continue;
      if (!companions_are_here(first, lane, lanes)) continue;
      any = true;
      hand_over(first, lanes, thread.mask);
    }
    return any;
  }

  [[nodiscard]] bool companions_are_here(size_t first, size_t own, size_t lanes) const {
    const Thread& thread = threads_[first + own];
    if ((thread.mask >> own & 1) == 0) fail("a lane is not in the mask that it gives");
    for (size_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((thread.mask >> lane & 1) == 0) continue;
      if (lane >= lanes) fail("a mask names a lane that the block does not have");
      const Thread& other = threads_[first + lane];
      if (other.state == State::kEnded) fail("a mask names a lane that has ended");
      if (other.state != State::kInWarp) return false;
      if (other.mask != thread.mask || other.work != thread.work ||
          !is_same(other.place, thread.place)) {
        fail("lanes of a warp wait for each other in different operations");
      }
    }
    return true;
  }

  void hand_over(size_t first, size_t lanes, uint32_t mask) {
    std::array<uint64_t, kWarpLanes> all{};
    for (size_t lane = 0; lane < lanes; ++lane) all[lane] = threads_[first + lane].brought;
    for (size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      threads_[first + lane].received = all;
      threads_[first + lane].state = State::kReady;
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("kernel, block " + std::to_string(block_) + ": " + what);
  }

  unsigned blocks_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  Order order_;
  std::vector<unsigned> turns_;
  unsigned block_ = 0;
  unsigned running_ = 0;
  jmp_buf scheduler_{};
  std::set<void*> shared_;
  std::exception_ptr thrown_;
};

// A kernel's words have no argument that says where they are said.
thread_local Grid* current = nullptr;
thread_local Settings settings;

Grid& here() {
  if (current == nullptr) throw std::runtime_error("a kernel's word outside a kernel");
  return *current;
}

void live_in_current_grid() {
  here().live();
}

void Grid::prepare(Thread& thread) {
  getcontext(&thread.first_turn);
  thread.first_turn.uc_stack.ss_sp = thread.stack.lowest();
  thread.first_turn.uc_stack.ss_size = kStackBytes;
  makecontext(&thread.first_turn, live_in_current_grid, 0);
}

/// The grid whose kernel runs.
class Running {
 public:
  explicit Running(Grid& grid) {
    if (current != nullptr) throw std::runtime_error("a launch inside a kernel");
    current = &grid;
  }
  ~Running() { current = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace

WithSettings::WithSettings(const Settings& wanted) : before_(settings) {
  settings = wanted;
}
WithSettings::~WithSettings() {
  settings = before_;
}

void launch(unsigned blocks, unsigned threads, size_t shared_bytes, void* /*stream*/,
            const std::function<void()>& kernel) {
  if (blocks == 0 || blocks > kMostBlocks || threads == 0 || threads > kMostThreads ||
      shared_bytes != 0) {
    throw std::runtime_error("launch: invalid configuration: " + std::to_string(blocks) +
                             " blocks of " + std::to_string(threads) + " threads, " +
                             std::to_string(shared_bytes) + " bytes of shared memory");
  }
  const unsigned started = std::min(blocks, settings.most_blocks);
  Grid grid(started, threads, settings.order, kernel);
  const Running running(grid);
  for (const unsigned block : turns(started, settings.order, started)) grid.run_block(block);
}

Index thread_index() {
  return here().thread_index();
}
Index block_index() {
  return here().block_index();
}
Index block_size() {
  return here().block_size();
}
Index grid_size() {
  return here().grid_size();
}

void synchronize_threads(const Place& place) {
  here().wait_at_barrier(place);
}

std::array<uint64_t, kWarpLanes> exchange(uint32_t mask, WarpWork work, uint64_t own,
                                          const Place& place) {
  return here().exchange(mask, work, own, place);
}

void begin_shared(void* variable, size_t bytes) {
  here().begin_shared(variable, bytes);
}

int lane() {
  return static_cast<int>(thread_index().x % kWarpLanes);
}

}  // namespace noisemark::test::gpu
