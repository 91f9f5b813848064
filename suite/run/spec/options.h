#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// The mechanism behind the tables of options: a row binds an option of the command line to a
/// member of a struct. Reading, help, files of options and the arguments of child processes all
/// walk these rows.
namespace noisemark::suite {

/// The commands, as bits: a row names all that take its option.
namespace command {
inline constexpr uint32_t kList = 1U << 0;
inline constexpr uint32_t kRun = 1U << 1;
inline constexpr uint32_t kSweep = 1U << 2;
inline constexpr uint32_t kPlan = 1U << 3;
inline constexpr uint32_t kFit = 1U << 4;
inline constexpr uint32_t kSample = 1U << 5;
inline constexpr uint32_t kCheck = 1U << 6;
inline constexpr uint32_t kReport = 1U << 7;
inline constexpr uint32_t kCompare = 1U << 8;
inline constexpr uint32_t kQuality = 1U << 9;
inline constexpr uint32_t kAb = 1U << 10;
inline constexpr uint32_t kCalibrate = 1U << 11;
inline constexpr uint32_t kTable = 1U << 12;
inline constexpr uint32_t kHistory = 1U << 13;
inline constexpr uint32_t kBaseline = 1U << 14;
inline constexpr uint32_t kSelftest = 1U << 15;
inline constexpr uint32_t kFid = 1U << 16;
inline constexpr uint32_t kEnv = 1U << 17;
inline constexpr uint32_t kDoctor = 1U << 18;
inline constexpr uint32_t kPace = 1U << 19;
inline constexpr uint32_t kHelp = 1U << 20;
inline constexpr uint32_t kTrace = 1U << 21;
inline constexpr uint32_t kPredict = 1U << 22;
inline constexpr uint32_t kProfile = 1U << 23;
}  // namespace command

/// A size in bytes, typed as "2GiB".
struct SizeMember {
  std::optional<int64_t>* bytes = nullptr;
};

/// The member that an option's value goes to. A switch turns its bool over.
using OptionMember = std::variant<bool*, std::string*, std::vector<std::string>*, int64_t*, double*,
                                  std::optional<int64_t>*, std::optional<uint64_t>*,
                                  std::optional<double>*, SizeMember>;

struct Option {
  uint32_t commands = 0;           ///< bits of those that take it
  std::string_view name;           ///< name without the dashes
  std::string_view value;          ///< its value in the help, "DIR"; empty: a switch
  std::string_view help;           ///< a noun phrase or a sentence, without the default
  std::string_view fallback = {};  ///< the default in words, where the member does not say it
  double min = 0;                  ///< the least number that is accepted
  bool repeatable = false;         ///< may be given more than once
  std::vector<std::string> (*choices)() = nullptr;  ///< accepted words; null: any
};

/// A row of a table over the members of `Options`.
template <class Options>
struct OptionRow {
  Option option;
  OptionMember (*member)(Options&);
};

template <auto kMember, class Options>
OptionMember option_member(Options& options) {
  return &(options.*kMember);
}

struct BoundOption {
  const Option* option = nullptr;  ///< lives as long as its table
  OptionMember member;             ///< lives as long as the struct that it was bound to
};

/// Appends the rows that `command` (one bit) takes, bound to `options`.
template <class Options>
void bind_options(std::span<const OptionRow<Options>> rows, uint32_t command, Options& options,
                  std::vector<BoundOption>& bound) {
  for (const OptionRow<Options>& row : rows) {
    if ((row.option.commands & command) != 0) bound.push_back({&row.option, row.member(options)});
  }
}

/// Stores the values of an option that was given. Throws Error (exit code 2) for a text that is no
/// number, size or fraction as the row wants it.
void assign_option(const BoundOption& bound, const std::vector<std::string>& values);

/// The values that a member holds, as they would be typed: empty where it holds none.
[[nodiscard]] std::vector<std::string> option_values(const OptionMember& member);

/// An option that departs from its default, as it would be typed; a switch has an empty value.
struct SpelledOption {
  std::string flag;  ///< with its dashes: "--mode"
  std::string value;
};

/// Spells every option of `given` that differs from `defaults`, which has the same rows.
[[nodiscard]] std::vector<SpelledOption> spell_options(const std::vector<BoundOption>& given,
                                                       const std::vector<BoundOption>& defaults);

/// Variables of a process's environment, by name.
using Variables = std::map<std::string, std::string>;

/// The user's wishes as typed; checked by plan_runs(). Empty or unset stands for the default named
/// beside it.
struct RunOptions {
  std::string id;                      ///< benchmark, benchmark@scale, suite, or a definition file
  std::vector<std::string> modes;      ///< {"none"}; for a suite: what the suite says
  std::vector<std::string> baselines;  ///< {"plain"}
  std::string precision;               ///< "fp32"
  std::string device;                  ///< "cuda" where there is one, else "cpu"
  std::optional<uint64_t> seed;        ///< the definition's
  int64_t seeds = 1;                   ///< number of runs, with `seed` and the numbers after it
  std::optional<int64_t> looks;        ///< looks at the quality over seeds: reports' default
  std::optional<int64_t> threads;      ///< LibTorch's own choice, divided among the ranks
  int64_t ranks = 1;                   ///< processes that train together
  std::string reduce;                  ///< gradient exchange among ranks: "exact"
  bool shard_optimizer = false;        ///< each keeps a share of optimizer and average
  std::string pipeline = "none";       ///< schedule by which ranks are stages of the network
  std::optional<int64_t> micro_batches;     ///< number in a pipeline: at most four for each stage
  double timeout_s = 30;                    ///< time until all ranks end after one is lost
  int64_t loader_threads = 1;               ///< threads that make batches ahead of time
  std::string data;                         ///< folder of the images
  std::string out;                          ///< a new folder in out_parent
  std::string shard;                        ///< "K/N": only that part of several runs
  bool force = false;                       ///< replace another run's files in `out`
  std::vector<std::string> sets;            ///< "key=value"
  std::string init_weights;                 ///< safetensors under the peers' names
  int64_t checkpoint_every = 0;             ///< steps; 0: never
  bool resume = false;                      ///< continue the run in `out` from its checkpoint
  bool deterministic = false;               ///< deterministic algorithms
  bool memory = true;                       ///< make the memory pass
  bool memory_snapshot = false;             ///< and keep what it saw for PyTorch's memory viewer
  bool profile = true;                      ///< make the profile pass
  bool certificate = true;                  ///< train a memory mode beside "none"
  std::optional<int64_t> fit_memory_bytes;  ///< look for the largest batch within so much
  std::optional<double> slow_down_frac;     ///< pace only: a control, put into every step
  bool verdict = true;            ///< print the run's verdict, and notes about what it reads
  std::vector<std::string> argv;  ///< the whole command line, for the result
  /// The folder that gets the new one when `out` is empty.
  std::string out_parent = "noisemark-out";
};

/// The options that go to members of RunOptions, in the order that help shows them.
[[nodiscard]] std::span<const OptionRow<RunOptions>> run_option_rows();

/// Spells the options that a command (one bit) takes and that depart from their defaults, so that
/// another process can be given them.
[[nodiscard]] std::vector<SpelledOption> spell_run_options(const RunOptions& options,
                                                           uint32_t command);

}  // namespace noisemark::suite
