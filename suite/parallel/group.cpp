#include "suite/parallel/group.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "suite/parallel/backend.h"
#include "suite/parallel/rank.h"

namespace noisemark::suite {
namespace {

using std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// The time limit is divided so that all of it together ends within the limit: a rank waits
/// for the others, then asks the store, where it may have to wait too, who gives no sign of life.
struct Limits {
  explicit Limits(milliseconds whole) : whole(whole) {}
  milliseconds whole;
  milliseconds operation = whole / 2;
  milliseconds store = whole / 10;    ///< time limit of one question
  milliseconds silence = whole / 10;  ///< after it a rank counts as gone
  milliseconds sign = whole / 100;    ///< time between two signs of life
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string address_of(const Rank& rank) {
  return fmt::format("{}:{}", rank.address, rank.port);
}

/// "rank 2", "ranks 1, 3"
std::string named(const std::vector<int64_t>& ranks) {
  std::string names;
  for (const int64_t rank : ranks) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", names);
}

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Runs `function`, which may ask a store that never answers (rank 0 may be stopped), on a thread
/// that is left behind then: so it must own all that it uses.
template <typename Function>
auto within(milliseconds limit, Function function) {
  std::packaged_task<std::invoke_result_t<Function>()> task(std::move(function));
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(limit) != std::future_status::ready) {
    throw std::runtime_error(fmt::format("no answer within {} s", seconds(limit)));
  }
  return answer.get();
}

/// Somebody else may listen there, who says nothing.
StorePtr connect(const Rank& rank, milliseconds limit, bool serves) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rank.port);
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(rank.ranks);
  options.waitWorkers = false;
  options.timeout = limit;
  const std::string attempt = fmt::format("noisemark/{}", rank.attempt);
  return within(limit, [address = rank.address, attempt, options]() -> StorePtr {
    return c10::make_intrusive<c10d::PrefixStore>(
        attempt, c10::make_intrusive<c10d::TCPStore>(address, options));
  });
}

/// The exit code of a failure of which a library gives nothing but words.
ExitCode code_of(const std::string& words) {
  constexpr std::array kWants{EMFILE, ENFILE, ENOMEM};
  return std::any_of(kWants.begin(), kWants.end(),
                     [&](int want) {
                       return words.find(std::generic_category().message(want)) !=
                              std::string::npos;
                     })
             ? ExitCode::kOutOfMemory
             : ExitCode::kInternal;
}

/// Returns why the host has no address; empty where it has one, or where nobody says.
std::string why_unknown(const std::string& host, milliseconds limit) {
  try {
    return within(limit, [host]() -> std::string {
      addrinfo* found = nullptr;
      const int cause = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
      if (cause != 0) return gai_strerror(cause);
      freeaddrinfo(found);
      return "";
    });
  } catch (const std::exception&) {
    return "";
  }
}

/// The host is looked up last, because a name may become known while the rank tries.
StorePtr open_store(const Rank& rank, const Limits& limits) {
  const bool serves = serves_store(rank);
  require_descriptors(rank);
  try {
    return connect(rank, limits.operation, serves);
  } catch (const std::exception& error) {
    const std::string words = first_line(error.what());
    const ExitCode code = code_of(words);
    if (is_started_here() || code == ExitCode::kOutOfMemory) {
      throw Error(code, fmt::format("the ranks do not reach each other at {}: {}", address_of(rank),
                                    words));
    }
    if (const std::string why = why_unknown(rank.address, limits.store); !why.empty()) {
      throw bad_input("MASTER_ADDR", rank.address, why, "a host that is known on every machine");
    }
    throw bad_input("MASTER_ADDR and MASTER_PORT", address_of(rank), words,
                    serves ? "an address of this machine and a free port"
                           : "the address and port at which rank 0 listens; it may have ended");
  }
}

std::string key_of(const std::string& what, int64_t rank) {
  return fmt::format("{}/{}", what, rank);
}

void wait_for_all(c10d::Store& store, const std::string& what, int64_t ranks, milliseconds limit) {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < ranks; ++rank) keys.push_back(key_of(what, rank));
  store.wait(keys, limit);
}

/// The first value that was written down: this one, or that of another rank.
std::string agreed(c10d::Store& store, const std::string& key, const std::string& value) {
  return text_of(store.compareSet(key, {}, bytes_of(value)));
}

/// A rank that is stopped keeps its store's connections, and answers nothing.
GroupLost store_gone(const Rank& rank) {
  return {ExitCode::kInternal,
          fmt::format("the store at {} is gone, and with it {}", address_of(rank),
                      rank.agent_store ? "torchrun's agent" : "rank 0")};
}

/// Whoever waits in vain first says of each rank that is not here that it is absent, which ends the
/// waiting of the others.
std::vector<int64_t> absent_ranks(c10d::Store& store, const Rank& self, const Limits& limits) {
  (void)agreed(store, key_of("here", self.rank), "here");
  try {
    wait_for_all(store, "here", self.ranks, limits.operation);
  } catch (const std::exception&) {  // each rank is asked for below
  }
  std::vector<int64_t> absent;
  for (int64_t rank = 0; rank < self.ranks; ++rank) {
    if (agreed(store, key_of("here", rank), "absent") == "absent") absent.push_back(rank);
  }
  return absent;
}

/// Throws GroupLost with the ranks that did not come.
void meet(const StorePtr& store, const Rank& self, const Limits& limits) {
  std::vector<int64_t> absent;
  try {
    absent = within(limits.operation + limits.store,
                    [store, self, limits] { return absent_ranks(*store, self, limits); });
  } catch (const std::exception&) {
    throw store_gone(self);
  }
  if (absent.empty()) return;
  std::this_thread::sleep_for(limits.silence);  // the others ask rank 0
  throw GroupLost(ExitCode::kInternal,
                  fmt::format("{} did not come to {} within {} s", named(absent), address_of(self),
                              seconds(limits.operation)));
}

/// Counts in the store, on a connection and thread of its own, as long as the process lives. The
/// thread is left behind where the store does not answer any more.
class SignsOfLife {
 public:
  SignsOfLife(const StorePtr& store, int64_t rank, const Limits& limits)
      : patience_(limits.silence), state_(std::make_shared<State>()) {
    std::thread([state = state_, store, key = key_of("alive", rank), pause = limits.sign] {
      try {
        while (!state->told_to_stop(pause)) store->add(key, 1);
      } catch (const std::exception&) {  // the store is gone, which others notice too
      }
      state->ended.set_value();
    }).detach();
  }
  ~SignsOfLife() {
    state_->stop();
    state_->ended.get_future().wait_for(patience_);
  }
  SignsOfLife(const SignsOfLife&) = delete;
  SignsOfLife& operator=(const SignsOfLife&) = delete;

 private:
  struct State {
    /// Waits for it as long as a pause takes.
    bool told_to_stop(milliseconds pause) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, pause, [this] { return stopping; });
    }
    void stop() {
      const std::scoped_lock lock(mutex);
      stopping = true;
      changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable changed;
    bool stopping = false;
    std::promise<void> ended;
  };
  milliseconds patience_;
  std::shared_ptr<State> state_;
};

/// The first cause that was written down: this one, or that of another rank. Then says that `rank`
/// knows it.
GroupLost agree_on(c10d::Store& store, int64_t rank, ExitCode code, const std::string& cause) {
  const std::string own = fmt::format("{} {}", static_cast<int>(code), cause);
  const std::string first = agreed(store, "cause", own);
  store.set(key_of("left", rank), bytes_of("1"));
  return {static_cast<ExitCode>(std::stoi(first)), first.substr(first.find(' ') + 1)};
}

/// Those that gave no sign of life for as long as a living one never takes.
std::vector<int64_t> silent_ranks(c10d::Store& store, int64_t ranks, milliseconds silence) {
  const auto signs = [&](int64_t rank) { return store.add(key_of("alive", rank), 0); };
  std::vector<int64_t> before;
  for (int64_t rank = 0; rank < ranks; ++rank) before.push_back(signs(rank));
  std::this_thread::sleep_for(silence);
  std::vector<int64_t> silent;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (signs(rank) == before[static_cast<size_t>(rank)]) silent.push_back(rank);
  }
  return silent;
}

/// `words`: of the operation that failed.
GroupLost first_cause(c10d::Store& store, const Rank& self, milliseconds silence,
                      const std::string& words) {
  std::string cause = "the ranks lost each other: " + words;
  if (!store.check({std::string("cause")})) {
    const std::vector<int64_t> silent = silent_ranks(store, self.ranks, silence);
    if (!silent.empty()) cause = named(silent) + " was killed or stopped: no sign of life";
  }
  return agree_on(store, self.rank, code_of(words), cause);
}

/// The texts of all ranks under the same name.
std::vector<std::string> exchanged(c10d::Store& store, const Rank& self, const std::string& round,
                                   const std::string& text, milliseconds limit) {
  store.set(key_of(round, self.rank), bytes_of(text));
  wait_for_all(store, round, self.ranks, limit);
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < self.ranks; ++rank) {
    texts.push_back(text_of(store.get(key_of(round, rank))));
  }
  return texts;
}

at::Tensor one_number() {
  const memopt::OwnerScope owner(memopt::Owner::kCommunication);
  return at::zeros({1}, at::kDouble);
}

void make_current(at::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

/// Connects the ranks. Runs on any thread, each of which has a current device of its own.
c10::intrusive_ptr<c10d::ProcessGroup> group_by(const StorePtr& store, const Rank& rank,
                                                milliseconds limit,
                                                const std::shared_ptr<Seen>& seen,
                                                at::Device device) {
  auto group = make_process_group(store, rank, limit, seen);
  if (!device.is_cuda()) return group;
  make_current(device);
  add_nccl(*group, store, rank, limit, seen, device);
  return group;
}

class JoinedGroup final : public Group {
 public:
  JoinedGroup(const Rank& rank, const Limits& limits, at::Device device)
      : Group(rank), limits_(limits), device_(device), store_(open_store(rank, limits)) {
    meet(store_, rank, limits);
    try {
      signs_.emplace(connect(rank, limits.store, /*serves=*/false), rank.rank, limits);
      make_current(device);
      process_group_ = within(limits.operation + limits.store,
                              [store = store_, rank, limit = limits.operation, seen = seen_,
                               device] { return group_by(store, rank, limit, seen, device); });
    } catch (const std::exception& error) {
      throw lost(error);
    }
    store_->setTimeout(limits.store);
  }

  ~JoinedGroup() override {
    if (!store_answers_) return;
    try {
      if (!broken_) {
        say_goodbye();
      } else if (rank().rank == 0) {
        // The others ask its store for the cause.
        within(limits_.silence + limits_.store,
               [store = store_, ranks = rank().ranks, limit = limits_.silence] {
                 wait_for_all(*store, "left", ranks, limit);
               });
      }
    } catch (const std::exception&) {  // nobody is left to whom it matters
    }
  }

  [[nodiscard]] std::string backend() const override { return device_.is_cuda() ? "nccl" : "gloo"; }

  void broadcast(const std::vector<at::Tensor>& tensors) override {
    wait_in_group(*this, [&] {
      for (const at::Tensor& tensor : tensors) {
        std::vector<at::Tensor> one{tensor.detach()};
        process_group_->broadcast(one)->wait();
      }
    });
  }

  [[nodiscard]] double mean(double value) override {
    return in_group(*this, [&] {
      sum_.front().fill_(value);
      wait_in_group(*this, [&] { process_group_->allreduce(sum_)->wait(); });
      return sum_.front().item<double>() / static_cast<double>(rank().ranks);
    });
  }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& text) override {
    return in_group(*this, [&] {
      return within(limits_.operation + limits_.store,
                    [store = store_, self = rank(), text, limit = limits_.operation,
                     round = fmt::format("exchange{}", exchanges_++)] {
                      return exchanged(*store, self, round, text, limit);
                    });
    });
  }

  [[nodiscard]] Traffic traffic() const override { return seen_->traffic(); }
  [[nodiscard]] bool failed() const override { return seen_->failed(); }

  void leave(ExitCode code, const std::string& cause) noexcept override {
    broken_ = true;
    try {
      (void)within(limits_.store, [store = store_, self = rank().rank, code,
                                   words = fmt::format("rank {}: {}", rank().rank, cause)] {
        return agree_on(*store, self, code, words);
      });
    } catch (const std::exception&) {  // the others miss this rank's signs of life
    }
  }

  [[nodiscard]] GroupLost lost(const std::exception& failure) noexcept override {
    if (const auto* known = dynamic_cast<const GroupLost*>(&failure)) return *known;
    broken_ = true;
    try {
      return within(limits_.store + limits_.silence,
                    [store = store_, self = rank(), silence = limits_.silence,
                     words = first_line(failure.what())] {
                      return first_cause(*store, self, silence, words);
                    });
    } catch (const std::exception&) {
      store_answers_ = false;
      return store_gone(rank());
    }
  }

  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const {
    return process_group_;
  }
  [[nodiscard]] Seen& seen() const { return *seen_; }

 private:
  void say_goodbye() {
    within(limits_.operation + limits_.store,
           [store = store_, self = rank(), limit = limits_.operation] {
             store->set(key_of("done", self.rank), bytes_of("1"));
             if (self.rank == 0) wait_for_all(*store, "done", self.ranks, limit);
           });
  }

  Limits limits_;
  at::Device device_;
  StorePtr store_;
  std::optional<SignsOfLife> signs_;
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  /// The sum is kept, because Gloo's thread holds what it has summed for a moment longer than a
  /// rank waits.
  std::vector<at::Tensor> sum_{one_number()};
  int64_t exchanges_ = 0;
  bool broken_ = false;
  bool store_answers_ = true;
};

}  // namespace

std::shared_ptr<Group> Group::join(const Rank& rank, milliseconds limit, at::Device device) {
  return std::make_shared<JoinedGroup>(rank, Limits(limit), device);
}

void Group::require_equal(const std::string& what, const std::string& value) {
  const std::vector<std::string> values = exchange(value);
  for (size_t other = 1; other < values.size(); ++other) {
    if (values[other] == values.front()) continue;
    throw Error(ExitCode::kNotComparable, fmt::format("{}: {} on rank {}, {} on rank 0", what,
                                                      values[other], other, values.front()));
  }
}

Traffic& operator+=(Traffic& to, const Traffic& more) {
  to.operations += more.operations;
  to.bytes += more.bytes;
  to.busy_s += more.busy_s;
  to.exposed_s += more.exposed_s;
  return to;
}

Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.operations - b.operations, a.bytes - b.bytes, a.busy_s - b.busy_s,
          a.exposed_s - b.exposed_s};
}

Seen& seen_by(const Group& group) {
  return dynamic_cast<const JoinedGroup&>(group).seen();
}

c10::intrusive_ptr<c10d::ProcessGroup> process_group_of(const Group& group) {
  return dynamic_cast<const JoinedGroup&>(group).process_group();
}

}  // namespace noisemark::suite
