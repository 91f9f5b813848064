#include "suite/run/ranks.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "reports/base/streams.h"
#include "suite/environment/child.h"
#include "suite/environment/environment.h"
#include "suite/environment/processor.h"
#include "suite/parallel/group.h"
#include "suite/parallel/rank.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/watch.h"
#include "suite/run/run.h"
#include "suite/run/single_run.h"
#include "suite/train/pipeline.h"

namespace noisemark::suite {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause(10);
/// The part of --timeout after which those that have not followed a lost rank are killed. A rank
/// finds out by itself within the half of it and a little more (suite/parallel/group.cpp).
constexpr double kPatience = 0.7;

milliseconds limit_of(double timeout_s) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(timeout_s));
}

Variables variables_of_process() {
  Variables variables;
  for (const std::string& entry : own_variables()) {
    const size_t equals = entry.find('=');
    variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

/// A port of the loopback device that was free a moment ago.
int64_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      socket >= 0 && bind(socket, any, size) == 0 && getsockname(socket, any, &size) == 0;
  const int cause = errno;
  if (socket >= 0) close(socket);
  if (!found) throw std::system_error(cause, std::generic_category(), "a port for the ranks");
  return ntohs(address.sin_port);
}

Variables variables_of(int64_t rank, int64_t ranks, int64_t port) {
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_USE_AGENT_STORE", ""},
          {kStartedHere, "1"}};
}

bool is_stopped(pid_t process) {
  siginfo_t found{};
  const int flags = WSTOPPED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(process), &found, flags) == 0 && found.si_pid == process;
}

bool has_ended(pid_t process) {
  siginfo_t found{};
  const int flags = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(process), &found, flags) == 0 && found.si_pid == process;
}

/// The processes of the ranks, by number. Those that still run are killed at the end.
class LocalRanks {
 public:
  explicit LocalRanks(milliseconds patience) : patience_(patience) {}
  ~LocalRanks() {
    kill_where([](pid_t) { return true; });
    for (const Process& one : processes_) {
      if (one.running) waitpid(one.number, nullptr, 0);
    }
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  void start(const std::vector<std::string>& words, const Variables& variables) {
    const pid_t number = start_child({"/proc/self/exe", words, environment_with(variables)});
    processes_.push_back({number, true, {}});
  }

  ExitCode wait() {
    // An interrupt reaches the others through rank 0.
    std::optional<InterruptForwarding> forwarding(std::in_place, processes_.front().number);
    while (std::any_of(processes_.begin(), processes_.end(),
                       [](const Process& one) { return one.running; })) {
      for (Process& one : processes_) {
        if (!one.running || !has_ended(one.number)) continue;
        if (&one == &processes_.front()) forwarding.reset();
        take(one);
      }
      if (one_has_ended_) end_the_rest();
      std::this_thread::sleep_for(kPause);
    }
    // Rank 0 ends well with the figures of all, from which the loss of another one takes nothing.
    return processes_.front().code;
  }

 private:
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  struct Process {
    pid_t number = 0;
    bool running = true;
    ExitCode code = ExitCode::kPass;
  };

  void take(Process& one) {
    int status = 0;
    waitpid(one.number, &status, 0);
    one.running = false;
    const bool for_memory = ended_before_ && processes_ended_for_memory() > ended_before_;
    const ChildEnd end = end_of_child(status, for_memory);
    one.code = end.code;
    one_has_ended_ = true;
    const bool is_lost = end.code != ExitCode::kPass;
    if (deadline_ != kNever || (!is_lost && &one != &processes_.front())) return;
    deadline_ = Clock::now() + patience_;
    if (end.words.empty()) return;
    reports::say_on_stderr(fmt::format("rank {}: {}", &one - processes_.data(), end.words));
  }

  /// Rank 0 may have a lot to do when others have ended well. One that is stopped cannot end by
  /// itself.
  void end_the_rest() {
    const bool late = Clock::now() >= deadline_;
    kill_where([&](pid_t number) { return late || is_stopped(number); });
  }

  template <typename Condition>
  void kill_where(const Condition& condition) {
    for (const Process& one : processes_) {
      if (one.running && condition(one.number)) kill(one.number, SIGKILL);
    }
  }

  milliseconds patience_;
  std::vector<Process> processes_;
  std::optional<int64_t> ended_before_ = processes_ended_for_memory();
  bool one_has_ended_ = false;
  Clock::time_point deadline_ = kNever;  ///< for all, once one has failed or rank 0 has ended
};

void require_no_ranks_needed(const RunOptions& options, const RunSpec& spec) {
  const std::string accepted = "several --ranks";
  if (!spec.reduction.empty()) {
    throw bad_input("--reduce", "", options.reduce + " for one process", accepted);
  }
  if (spec.shard_optimizer) {
    throw bad_input("--shard-optimizer", "", "given for one process", accepted);
  }
  if (!spec.pipeline.empty()) {
    throw bad_input("--pipeline", "", options.pipeline + " for one process", accepted);
  }
}

/// Returns the GPU of a rank: that of its number among the ranks of its machine, or the only one
/// that a scheduler lets it see.
c10::DeviceIndex gpu_of(const Rank& rank) {
  const bool chosen = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr && usable_gpus() == 1;
  return chosen ? c10::DeviceIndex{0} : static_cast<c10::DeviceIndex>(rank.local_rank);
}

/// Each rank has a GPU of its own.
void require_gpus(const RunOptions& options, const RunSpec& spec, const std::optional<Rank>& rank) {
  if (!has_nccl()) {
    throw Error(ExitCode::kCannotRunHere,
                "--ranks: on a GPU: this build has no NCCL (--device cpu)");
  }
  if (spec.device.index() > 0) {
    throw bad_input("--device", "", fmt::format("{} for {} ranks", spec.device.str(), spec.ranks),
                    "cuda: each rank takes the GPU of its number");
  }
  if (spec.baseline.execution.cuda_graph) {
    throw bad_input("--baseline", "", spec.baseline.name + " for several ranks", "one rank");
  }
  if (!spec.pipeline.empty()) {
    throw bad_input("--pipeline", "", spec.pipeline + " on a GPU", "--device cpu");
  }
  if (rank && gpu_of(*rank) >= usable_gpus()) {
    throw bad_input("LOCAL_RANK", "", fmt::format("{} of {} GPUs", rank->local_rank, usable_gpus()),
                    "a GPU for each rank of this machine, or --device cpu");
  }
  if (!rank && options.ranks > usable_gpus()) {
    throw bad_input("--ranks", "", fmt::format("{} for {} GPUs", options.ranks, usable_gpus()),
                    "at most one for each GPU of this machine, or --device cpu");
  }
}

/// Refuses what ranks or stages cannot do together, before anything is touched.
void require_division(const RunSpec& spec) {
  const auto& train = spec.definition.train;
  if (spec.pipeline.empty()) {
    return require_equal_shares(spec.ranks, train.batch, train.accumulation);
  }
  require_pipeline(spec.micro_batches, spec.definition, spec.precision);
  // Rounding on one stage spoils the gradients of those before it, which no stage can measure.
  if (spec.mode.budget && spec.mode.budget->error) {
    throw bad_input("--pipeline", "--mode", spec.mode.name, "a budget without an error");
  }
  if (!spec.reduction.empty()) {
    throw bad_input("--pipeline", "--reduce", spec.reduction, "exact: stages reduce no gradients");
  }
  if (spec.shard_optimizer) {
    throw bad_input("--pipeline", "--shard-optimizer", "given",
                    "none: each stage keeps the state of its own weights alone");
  }
}

}  // namespace

std::optional<Rank> own_rank() {
  return rank_from(variables_of_process());
}

RunOptions options_of_rank(RunOptions options, const Rank& rank) {
  if (options.ranks != 1 && options.ranks != rank.ranks) {
    throw bad_input("--ranks", "", std::to_string(options.ranks),
                    fmt::format("{}, the ranks that were started", rank.ranks));
  }
  options.ranks = rank.ranks;
  return options;
}

void require_possible(const RunOptions& options, const std::vector<PlannedRun>& plans,
                      const std::optional<Rank>& rank) {
  if (options.ranks == 1) return require_no_ranks_needed(options, plans.front().spec);
  if (rank && (plans.size() > 1 || !options.shard.empty())) {
    throw bad_input("run", options.id,
                    fmt::format("{} runs by ranks that were started outside", plans.size()),
                    "one run, or --ranks");
  }
  if (options.fit_memory_bytes) {
    throw bad_input("--fit-memory", "", fmt::format("given for {} ranks", options.ranks),
                    "one process");
  }
  for (const PlannedRun& plan : plans) {
    require_division(plan.spec);
    if (plan.spec.device.is_cuda()) require_gpus(options, plan.spec, rank);
  }
}

ExitCode launch_ranks(const std::vector<std::string>& argv, int64_t ranks, double timeout_s) {
  Rank first;
  first.ranks = ranks;
  require_descriptors(first);
  const int64_t port = free_port();
  const InterruptGuard interrupt;
  LocalRanks processes(std::chrono::duration_cast<milliseconds>(kPatience * limit_of(timeout_s)));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    processes.start(argv, variables_of(rank, ranks, port));
  }
  return processes.wait();
}

ExitCode launch_ranks(const RunOptions& options, const PlannedRun& plan,
                      const std::filesystem::path& out) {
  std::vector<std::string> words = child_arguments(options, plan, out);
  words.insert(words.begin(), options.argv.empty() ? "noisemark" : options.argv.front());
  return launch_ranks(words, options.ranks, options.timeout_s);
}

ExitCode as_rank(const Rank& rank, c10::Device device, double timeout_s,
                 const std::function<ExitCode(const std::shared_ptr<Group>&)>& action) {
  // c10d says on standard error, and of every rank, what the group says in words of its own.
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  const std::shared_ptr<Group> group = Group::join(rank, limit_of(timeout_s), device);
  try {
    return action(group);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    if (dynamic_cast<const GroupLost*>(&error) == nullptr) {
      group->leave(failure.code, failure.reason);
    }
    if (rank.rank == 0) throw;
    return failure.code;
  }
}

ExitCode run_rank(const RunOptions& options, const PlannedRun& plan,
                  const std::filesystem::path& out, const Rank& rank) {
  PlannedRun own = plan;
  c10::Device& device = own.spec.device;
  if (device.is_cuda()) device.set_index(gpu_of(rank));
  return as_rank(rank, device, options.timeout_s, [&](const std::shared_ptr<Group>& group) {
    if (rank.rank == 0) return run_single(options, own, out, {}, group);
    run_other_rank(options, own, group);
    return ExitCode::kPass;
  });
}

}  // namespace noisemark::suite
