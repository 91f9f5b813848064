#include "suite/parallel/launch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <system_error>
#include <vector>

#include "reports/base/system_error.h"

namespace noisemark::suite {

bool is_started_here() {
  return std::getenv(kStartedHere) != nullptr;
}

bool serves_store(const Rank& rank) {
  return rank.rank == 0 && !rank.agent_store;
}

void require_descriptors(const Rank& rank) {
  // As counted for 2 and for 4 ranks: sockets to the store and to each rank, and what waits on
  // them.
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
