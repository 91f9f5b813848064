#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace noisemark::suite {

/// One process of a training that several make together.
struct Rank {
  int64_t rank = 0;
  int64_t ranks = 1;
  int64_t local_rank = 0;  ///< number among those of its machine
  std::string address;     ///< host on which rank 0, or the store of an agent, listens
  int64_t port = 0;
  bool agent_store = false;  ///< torchrun's agent listens, rank 0 does not
  int64_t attempt = 0;       ///< counts how often an agent has begun anew
};

/// Reads who this process is from the variables that torchrun, srun (of a job step), mpirun or a
/// user set. It is empty where it was started alone, or as the only one. Throws Error, exit code 2,
/// for a variable that is missing or is no number in its range.
[[nodiscard]] std::optional<Rank> rank_from(const std::map<std::string, std::string>& variables);

/// The variable by which a rank knows that --ranks started it and chose its address. It begins like
/// none of those that a result lists.
inline constexpr const char* kStartedHere = "RANK_STARTED_BY_NOISEMARK";
[[nodiscard]] bool is_started_here();

/// Returns whether a rank listens for the others: torchrun's agent does so for all.
[[nodiscard]] bool serves_store(const Rank& rank);

/// Throws Error, exit code 71, where fewer files can be opened than joining the others takes: the
/// libraries below end the process then, or say anything at all.
void require_descriptors(const Rank& rank);

/// The part of each micro-batch that one rank trains on. All ranks together train on the batch of
/// the definition, in the order of their numbers.
struct BatchShare {
  int64_t rank = 0;
  int64_t ranks = 1;

  /// The number, in a batch of `batch` samples, of this rank's sample `mine`.
  [[nodiscard]] int64_t sample(int64_t mine, int64_t batch, int64_t accumulation) const {
    const int64_t part = batch / (accumulation * ranks);
    return mine / part * part * ranks + rank * part + mine % part;
  }
};

/// Throws Error, exit code 2, unless every rank gets as many samples of every micro-batch.
void require_equal_shares(int64_t ranks, int64_t batch, int64_t accumulation);

}  // namespace noisemark::suite
