#include "suite/parallel/rank.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <system_error>
#include <vector>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

using Variables = std::map<std::string, std::string>;

/// The variables by which one way of starting ranks names them. It is recognised by the variable of
/// their number.
struct Launcher {
  const char* ranks;
  const char* rank;
  const char* local_rank;
};

// The script of a Slurm job has SLURM_PROCID too; only a step of it has a number of tasks.
constexpr std::array<Launcher, 3> kLaunchers{{
    {"WORLD_SIZE", "RANK", "LOCAL_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
}};

std::string value_of(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

int64_t number_of(const Variables& variables, const std::string& name, int64_t least,
                  int64_t most) {
  const std::string text = value_of(variables, name);
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end && number >= least && number <= most) return number;
  throw bad_input(name, "", text.empty() ? "not set" : text,
                  fmt::format("an integer from {} to {}", least, most));
}

const Launcher* launcher_of(const Variables& variables) {
  for (const Launcher& launcher : kLaunchers) {
    if (!value_of(variables, launcher.ranks).empty()) return &launcher;
  }
  return nullptr;
}

}  // namespace

std::optional<Rank> rank_from(const Variables& variables) {
  const Launcher* launcher = launcher_of(variables);
  if (launcher == nullptr) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  Rank rank;
  rank.ranks = number_of(variables, launcher->ranks, 1, kMost);
  if (rank.ranks == 1) return std::nullopt;
  rank.rank = number_of(variables, launcher->rank, 0, rank.ranks - 1);
  rank.local_rank = number_of(variables, launcher->local_rank, 0, rank.ranks - 1);
  rank.address = value_of(variables, "MASTER_ADDR");
  if (rank.address.empty()) {
    throw bad_input("MASTER_ADDR", "", "not set", "the address of the machine of rank 0");
  }
  rank.port = number_of(variables, "MASTER_PORT", 1, std::numeric_limits<uint16_t>::max());
  rank.agent_store = value_of(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (rank.agent_store) {
    rank.attempt = number_of(variables, "TORCHELASTIC_RESTART_COUNT", 0, kMost);
  }
  return rank;
}

void require_equal_shares(int64_t ranks, int64_t batch, int64_t accumulation) {
  const int64_t unit = accumulation * ranks;
  if (batch % unit == 0) return;
  const int64_t next = (batch / unit + 1) * unit;
  throw bad_input(
      "ranks", "", std::to_string(ranks),
      fmt::format("a divisor of the {} samples of a micro-batch; or --set train.batch={}",
                  batch / accumulation, next));
}

bool is_started_here() {
  return std::getenv(kStartedHere) != nullptr;
}

bool serves_store(const Rank& rank) {
  return rank.rank == 0 && !rank.agent_store;
}

void require_descriptors(const Rank& rank) {
  // The numbers were counted for 2 and for 4 ranks: sockets to the store and to each rank, and what
  // waits on them.
  const int64_t needed = serves_store(rank) ? 16 + 3 * rank.ranks : 10 + rank.ranks;
  std::vector<int> taken;
  int cause = 0;
  while (std::ssize(taken) < needed && cause == 0) {
    const int one = eventfd(0, EFD_CLOEXEC);
    if (one < 0) {
      cause = errno;
    } else {
      taken.push_back(one);
    }
  }
  for (const int one : taken) close(one);
  if (cause != 0) throw reports::error_of({cause, std::generic_category()});
}

}  // namespace noisemark::suite
