#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "suite/parallel/group.h"
#include "tests/suite/parallel/ports.h"
#include "tests/suite/scratch.h"

/// Ranks as processes of their own: the test's own program, started anew, does one job.
namespace noisemark::suite::test {

using Words = std::vector<std::string>;

/// The work of a rank. It writes what it found to `out`; what it throws, the rank ends with, as the
/// program does: with the exit code and the words on standard error.
using Job = std::function<void(const Rank& rank, const Words& words, const std::string& out)>;

/// The jobs by name; rows of the test files.
[[nodiscard]] std::map<std::string, Job>& jobs();

/// Names a job while the program starts.
struct NamedJob {
  NamedJob(const std::string& name, Job job) { jobs()[name] = std::move(job); }
};

/// Ranks of one job on this machine.
class Ranks {
 public:
  /// Starts none.
  Ranks(int64_t ranks, const std::string& job, const Words& words = {});
  ~Ranks();  ///< kills those that still run
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// `variables` replace what a rank is given otherwise.
  void start(int64_t rank, const std::map<std::string, std::string>& variables = {});
  void signal(int64_t rank, int number) const;
  /// Waits until the rank has written `name`.
  void await(int64_t rank, const std::string& name) const;
  /// Waits for one. Its exit code, 128 + signal when it was killed.
  int wait(int64_t rank);
  /// Waits for all.
  std::vector<int> wait();
  /// The file of a rank's findings, and what the rank wrote to standard error.
  [[nodiscard]] std::string out(int64_t rank) const;
  [[nodiscard]] std::string words_of(int64_t rank) const;

 private:
  TemporaryFolder folder_;
  int64_t ranks_;
  std::string job_;
  Words words_;
  int64_t port_;
  std::map<int64_t, pid_t> running_;
  std::map<int64_t, int> codes_;
};

/// Limits every wait of a job in tests; it is long enough for a slow machine.
inline constexpr std::chrono::seconds kLimit{20};

}  // namespace noisemark::suite::test
