#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "suite/config/definition.h"

/// The locked part of a definition: its canonical form and hash, and the file LOCK.
namespace noisemark::suite {

/// The resolved definition as one line of JSON: fixed key order, only keys that apply, numbers in
/// their shortest exact form. What is only shown (title, why) or chosen per run (modes) is left
/// out, so that rewording does not change the hash; so is a key that came later (Key::later) while
/// it has its default.
[[nodiscard]] std::string canonical_json(const Definition& definition);

/// SHA-256 of canonical_json(): two runs with the same hash did the same work.
[[nodiscard]] std::string definition_sha256(const Definition& definition);

/// The identity of a benchmark at one scale, beyond its definition file: if the code comes to
/// compute something else under the same definition, one of these changes.
struct LockEntry {
  std::string definition_sha256;  ///< hash of canonical_json()
  std::string data_sha256;        ///< hash of the first training images; CIFAR-10: of all its files
  std::string test_data_sha256;   ///< hash of the first test images; CIFAR-10: of its test file
  std::string parameters_sha256;  ///< hash of parameter names and shapes
  std::string schedule_sha256;    ///< hash of the 13 schedule buffers
  std::string order_sha256;       ///< hash of the order of the training images
  std::string judging_sha256;  ///< hash of the warm-up rule, the margins and alpha; equal for all
  std::vector<double> losses;  ///< losses of 10 training steps in double precision
  /// The figures of kEvaluated, as far as they are known, of one evaluation in double precision.
  std::vector<double> evaluation;
};

/// "gmm16@cpu" -> entry.
using Lock = std::map<std::string, LockEntry>;

inline constexpr std::array<const char*, 3> kEvaluated = {"loss", "weighted_loss", "excess_frac"};

/// Two loss traces agree when every loss does to this relative error, and so do two evaluations:
/// rounding differs between instruction sets, and nothing else may.
inline constexpr double kLossTolerance = 1e-9;

/// Throws Error (exit code 2) naming the entry that is malformed. `file` is for messages.
[[nodiscard]] Lock parse_lock(std::string_view text, const std::string& file);
/// JSON, one entry a paragraph, sorted: what parse_lock() reads.
[[nodiscard]] std::string lock_json(const Lock& lock);

/// One sentence for each part in which `found` is not `locked`; empty: equal. The loss trace and
/// the evaluation are compared to kLossTolerance.
[[nodiscard]] std::vector<std::string> lock_differences(const LockEntry& locked,
                                                        const LockEntry& found);

/// The shipped LOCK.
[[nodiscard]] const Lock& shipped_lock();

/// Returns whether `lock` holds the definition's hash under its name and scale.
[[nodiscard]] bool is_locked(const Lock& lock, const Definition& definition);

/// Returns the name of the shipped benchmark with that definition, "gmm16@cpu"; empty: of none.
[[nodiscard]] std::string locked_name_of(const std::string& definition_sha256);

/// Makes a definition custom (`unlocked`) when it is not locked: whatever name it bears, a program
/// that was built from changed files does another work.
void hold_to_lock(const Lock& lock, Definition& definition);

/// "not the locked definition of gmm16@cpu": why an `unlocked` one is custom.
[[nodiscard]] std::string unlocked_words(const Definition& definition);

}  // namespace noisemark::suite
