#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/result/result.h"

/// The record of two builds that ran in turns, as a value and as ab.json: raw samples, from which
/// everything else follows (judge.h).
namespace noisemark::reports {

/// A is the base, B the candidate.
enum class AbSide { kA, kB };

[[nodiscard]] std::string_view ab_side_name(AbSide side);  ///< "A", "B"
[[nodiscard]] AbSide other_side(AbSide side);

/// A build as it describes itself and what it is about to train, before its first step.
struct AbBuild {
  std::string name;  ///< a program or a revision, as the user spelled it
  std::string benchmark;
  std::string variant;  ///< "none-plain-fp32"
  Strings identity;     ///< must be equal on both sides
  Strings about;        ///< may differ: commit, digest of the program, software
  int64_t batch = 0;
  int64_t parameters = 0;
};

/// The first answer of `pace`, when it is ready.
struct PaceReady : AbBuild {
  bool ready = true;
  int64_t threads = 0;
};

/// Its answer to a turn: the samples of these steps.
struct PaceTurn : Samples {};

/// A block is ABBA or BAAB.
inline constexpr int64_t kTurnsOfBlock = 4;

/// A number of steps of one build, while the other waits.
struct AbTurn {
  AbSide side = AbSide::kA;
  std::vector<double> step_s;
  std::vector<double> loss;
};

/// Two live processes, one of each build: the unit of replication. Both make as many steps.
struct AbPair {
  AbSide first = AbSide::kA;   ///< was started first and began
  std::vector<AbTurn> warmup;  ///< left out of every figure of time
  std::vector<AbTurn> turns;   ///< blocks of four: ABBA or BAAB
  std::string clock_reasons;   ///< GPU's throttle reasons after the last turn; empty: not read
};

/// The plan of the turns, which is fixed before the first step that counts.
struct AbPlan {
  int64_t pairs = 0;         ///< pairs of the first look; as many again when it is inconclusive
  int64_t warmup_steps = 0;  ///< steps of the turn that does not count
  int64_t turn_steps = 0;
  int64_t blocks = 0;           ///< blocks of a pair
  double seconds = 0;           ///< planned time of the first look
  double slow_down_frac = 0;    ///< control, put into every step of B
  double noise_floor_frac = 0;  ///< floor that was calibrated; 0: none was
  double turn_s = 0.2;          ///< longest planned time of a turn
};

struct AbRecord {
  std::string created_utc;
  std::string ended;  ///< why it ended early; empty: as planned
  AbPlan plan;
  AbBuild a;
  AbBuild b;
  /// The figures of short runs of both builds, before the first pair (judge.h). A row lacks its
  /// cell, which is the record's. It is empty where none were made.
  std::vector<ExactRow> figures;
  std::vector<AbPair> pairs;
  Strings environment;  ///< environment of a Result, and the container
};

/// The text of ab.json. Doubles read back bit for bit; a list of numbers takes one line. Carries a
/// checksum over itself as result.json does.
[[nodiscard]] std::string ab_json(const AbRecord& record);

/// Throws Error (bad input), which begins with `where`: not JSON, a key that is missing, unknown,
/// there twice or of another type, a number that is not finite, another schema or version of it, a
/// checksum that does not hold.
[[nodiscard]] AbRecord ab_from_json(std::string_view text, const std::string& where);

/// `path` is the file, or the folder that holds an ab.json. Throws Error (bad input) likewise, and
/// when it cannot be read.
[[nodiscard]] AbRecord read_ab(const std::filesystem::path& path);

}  // namespace noisemark::reports
