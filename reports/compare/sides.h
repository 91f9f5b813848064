#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/render/table.h"
#include "reports/result/result.h"

/// This file makes pairs of runs from two paths.
namespace noisemark::reports {

// The runs that a folder holds, and those that it should hold and does not.

/// A run that was planned or begun and left no result of its own.
struct LostRun {
  std::string name;                 ///< its folder, below the one that was given
  std::string why;                  ///< "it left no result"
  bool skipped = false;             ///< it cannot run here, which is no failure
  ExitCode code = ExitCode::kPass;  ///< other than kPass: a result is there and cannot be read
};

/// Returns the runs, but for those that more than three are lost of for one reason: "12 runs (a, b,
/// c and 9 more)" stands for them.
[[nodiscard]] std::vector<LostRun> by_reason(const std::vector<LostRun>& runs);

struct FoundRuns {
  std::vector<std::filesystem::path> folders;  ///< folders with a result.json, in the order of
                                               ///< their names
  std::vector<LostRun> lost;                   ///< runs in the order of their names
  std::vector<std::string> left_out;           ///< stray results, and unreadable folders in runs
};

/// Finds the run in `folder` itself or, where it holds no result.json, in all folders below it.
/// A suite.json there says which results are of its runs: one that lay there before is
/// none. A run that was begun is known by its events.mlog, or by an empty folder. A folder below
/// that cannot be read is lost. Throws Error (bad input) when `folder` itself cannot be read.
[[nodiscard]] FoundRuns find_runs(const std::filesystem::path& folder);

/// The page of a stored baseline, and how the name of its folder ends while it is being written.
inline constexpr const char* kBaselinePage = "baseline.md";
inline constexpr const char* kStagedBaseline = ".new";

/// Says whether a promotion that was killed left `folder`. The baseline beside it may then be of
/// its runs in part.
[[nodiscard]] bool is_staged_baseline(const std::filesystem::path& folder);
inline constexpr const char* kStagedWords =
    "a promotion was ended before the stored baseline beside it was whole; promote again, with "
    "--force";

/// The place where `noisemark baseline promote` keeps runs:
/// ROOT/HARDWARE/BENCHMARK@SCALE/VARIANT/RUN, with a page baseline.md beside them.
struct BaselinePlace {
  std::string root;
  std::string hardware;
  bool operator==(const BaselinePlace&) const = default;
};

/// One side of a comparison.
struct Side {
  std::string name;  ///< name as the user spelled it
  std::vector<NamedResult> runs;
  std::vector<LostRun> lost = {};              ///< runs that should be here and are missing
  std::vector<std::string> left_out = {};      ///< results that are of no run of their suite
  std::optional<BaselinePlace> baseline = {};  ///< place that holds all its runs, if one does
};

/// The treatment of a result that was changed or is not whole: a comparison of what is left would
/// mislead, and a record of many runs is none the worse.
enum class Broken { kIsRefused, kIsLost };

/// `path` is a result.json, a report.md that lies beside its result.json, or a folder of results.
/// In a suite's folder only the results of its runs count. Throws Error (bad input): nothing there,
/// a folder that cannot be read, a changed result, a report of another result, a run twice, a time
/// of creation that is none. Of several results that cannot be taken it names every one, and
/// beside them the runs that are lost.
[[nodiscard]] Side read_side(const std::string& path, Broken broken = Broken::kIsRefused);

/// The runs of several such paths. Throws Error (bad input) likewise, where no run of them left a
/// result, and when one was made in the future, by this machine's clock.
[[nodiscard]] Side read_runs(const std::vector<std::string>& paths,
                             Broken broken = Broken::kIsRefused);

/// BASE and NEW. Throws Error: bad input as above, when both are the same place, and when a run was
/// made in the future, by this machine's clock; «baseline needed» (exit code 5) when there is no
/// result at `base`.
[[nodiscard]] std::pair<Side, Side> read_sides(const std::string& base,
                                               const std::string& candidate);

/// Returns what tells cells apart: "gmm16-ho@cpu, mode none, baseline plain, fp32, cpu", and the
/// framework unless it is noisemark. A definition that was changed by --set is other work and never
/// a point of the same curve: ", custom train.steps=60".
[[nodiscard]] std::string cell_name(const Identity& identity);

using RunPair = std::pair<const NamedResult*, const NamedResult*>;  ///< base, candidate

/// Sorts runs by seed, then by their creation.
void sort_by_seed(std::vector<const NamedResult*>& runs);

/// Pairs sorted runs within equal seeds, and does `alone` with those that have no partner.
[[nodiscard]] std::vector<RunPair> pair_by_seed(
    const std::vector<const NamedResult*>& base, const std::vector<const NamedResult*>& candidate,
    const std::function<void(const NamedResult& run, bool is_base)>& alone);

struct Cell {
  std::string name;
  std::vector<RunPair> pairs;  ///< pairs in the order of seed, then of creation
};

/// A cell on both sides that has no seed in common.
struct CellWithoutPairs {
  std::string name;
  std::string base_seeds;  ///< "1, 2, 3": each once, rising
  std::string candidate_seeds;
};

struct Cells {
  std::vector<Cell> both;  ///< cells with at least one pair
  std::vector<CellWithoutPairs> without_pairs;
  std::vector<std::string> only_base;       ///< cells that BASE alone has
  std::vector<std::string> only_candidate;  ///< cells that NEW alone has
  std::vector<std::string> unpaired;        ///< runs without a partner
};

/// Runs of a cell are paired within equal seeds in the order of their creation, as rounds were
/// made. The sides must outlive the pairs. Throws Error (bad input) when a run is on both sides.
[[nodiscard]] Cells pair_runs(const Side& base, const Side& candidate);

/// Every field in which two identities differ, by name, with both values: the one place that knows
/// what a difference is. A field that only one of them has differs too, and shows as an empty value
/// on the other side; so a clocks policy that one side does not know is not taken for the other's.
[[nodiscard]] std::vector<FieldDifference> differing_fields(const Strings& a, const Strings& b,
                                                            const std::string& cell = "");

/// "identity.threads and 2 more"; empty where nothing differs.
[[nodiscard]] std::string first_of(const std::vector<FieldDifference>& differences);

/// Every field in which runs of a cell differ though they must not: those of identity_fields(), and
/// the initial weights of equal seeds. Each field once, with the first two values that differ.
/// Empty means comparable.
[[nodiscard]] std::vector<FieldDifference> identity_differences(const Cell& cell);

/// Settings of the machine in which the paired runs of the two sides differ and which no identity
/// holds: they forbid no comparison, and a reader should know them. With all values of each side,
/// of no cell.
[[nodiscard]] std::vector<FieldDifference> environment_differences(const std::vector<Cell>& cells);

/// Returns the fields in which runs of a cell must agree, by path in result.json, but for what
/// belongs to their seed: the definition and what was changed of it, data and its bytes, threads,
/// hardware with the clocks policy, software, whether `--deterministic` was asked for.
[[nodiscard]] Strings identity_fields(const Result& result);

/// Returns the fields in which two runs are different cells, "identity.mode" and the like. It
/// serves where nothing else explains why two sides have no cell in common.
[[nodiscard]] std::vector<FieldDifference> cell_differences(const Identity& base,
                                                            const Identity& candidate);

/// Returns the fields in which two builds must agree to do the same work on the same machine, by
/// path in result.json: cell, definition, data, settings, hardware and initial weights. Software is
/// left out, for it may be what is compared.
[[nodiscard]] Strings same_work(const Result& result);

/// Returns what tells builds apart: commit, digest of the program, software.
[[nodiscard]] Strings about_build(const Result& result);

}  // namespace noisemark::reports
