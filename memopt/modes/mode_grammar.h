#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

class Codec;

/// A step's gradient may be off by so much; beyond it training is another one. At an angle of at
/// most 45 degrees to the exact step it still goes down.
inline constexpr double kLoosestGradientBound = 0.7;

/// A word of the grammar of modes, with all that is known of it.
struct ModeWord {
  /// The places of a spelling in their order: what is recomputed, then how the rest is held. Each
  /// part is applied to what the ones before it keep.
  enum class Place : uint8_t { kReplay, kGist, kRounding, kOffload };

  Place place = Place::kReplay;
  std::string_view word = {};        ///< "echo+attn"
  std::string_view summary = {};     ///< one line for `noisemark list`; empty: it is not listed
  std::string_view needs_host = {};  ///< why every step needs the host; empty: not by this word
  int budget_rank = 0;  ///< place among its place's words that a budget tries; 0 where no budget
                        ///< does

  // These are of kReplay.
  using OperatorRule = bool (*)(const StepGraph& graph, const RecordedOperator& op);
  OperatorRule may_replay = nullptr;
  OperatorRule light = nullptr;     ///< see Policy::light; null: no operator is
  bool keeps_what_crosses = false;  ///< see Policy::keep_what_crosses_segments
  bool equal_segments = false;      ///< see Policy::segments_of_equal_bytes

  // These are of kRounding.
  double bits = 0;            ///< number of bits that are held of each element
  double gradient_bound = 0;  ///< the most that a step's gradient may be off, as a share of it
  std::unique_ptr<Codec> (*make_codec)() = nullptr;
  bool compares_blocks = false;  ///< see BlockOption::compares_blocks; of one word

  // This is of kOffload.
  bool (*goes_to_host)(const StepGraph& graph, ValueId id) = nullptr;
};

/// The one table of the grammar's words, place by place. It is constant.
[[nodiscard]] std::span<const ModeWord> mode_words();

/// "2GiB", "512MiB", "20.05MiB", "96KiB" or a number of bytes; a part of a byte counts as a whole
/// one. It is empty for anything else.
[[nodiscard]] std::optional<int64_t> parse_bytes(std::string_view text);
/// The same in words, for errors.
inline constexpr std::string_view kSizeForms =
    "SIZE is a number with GiB, MiB or KiB behind it, such as 20.05MiB, or a whole number of bytes";
/// Spells it in the largest unit that leaves a whole number: "512MiB".
[[nodiscard]] std::string spell_bytes(int64_t bytes);
/// Spells the bytes in hundredths of the largest unit, never fewer than they are: "20.05MiB".
[[nodiscard]] std::string spell_at_least(int64_t bytes);

/// The composition of a mode: at most one word of each place.
struct ModeComposition {
  static constexpr size_t kPlaces = 4;
  std::array<const ModeWord*, kPlaces> words = {};  ///< word of each place, or null
  /// The most host memory that offloading may take; empty: as much as the recorded step needs.
  std::optional<int64_t> host_bytes = {};

  bool operator==(const ModeComposition&) const = default;
  [[nodiscard]] const ModeWord* at(ModeWord::Place place) const {
    return words[static_cast<size_t>(place)];
  }
  [[nodiscard]] const ModeWord* replay() const { return at(ModeWord::Place::kReplay); }
  [[nodiscard]] const ModeWord* gist() const { return at(ModeWord::Place::kGist); }
  [[nodiscard]] const ModeWord* rounding() const { return at(ModeWord::Place::kRounding); }
  [[nodiscard]] const ModeWord* offload() const { return at(ModeWord::Place::kOffload); }
  /// The same with this word at its place.
  [[nodiscard]] ModeComposition with(const ModeWord& part) const;
  [[nodiscard]] ModeComposition without(ModeWord::Place place) const;
  /// Every gradient is bitwise what mode "none" gives.
  [[nodiscard]] bool lossless() const { return rounding() == nullptr; }
};

/// The one canonical spelling: "echo+attn+gist+dpr8+offload", "offload:all,host=512MiB"; "none"
/// where there is no part.
[[nodiscard]] std::string spelling_of(const ModeComposition& parts);

/// Parts are put together by taking one alternative of each line or none: first what may begin,
/// then what may be joined to it by "+", in this order.
[[nodiscard]] std::vector<std::vector<std::string_view>> mode_alternatives();

/// The names with words of the table in the place of "every" (all), "lossless" and "lossy" (those
/// that do not round, and that do).
[[nodiscard]] std::vector<std::string> modes_meant_by(const std::vector<std::string>& names);

/// Every composition there is, "none" first; without limits of host memory.
[[nodiscard]] const std::vector<ModeComposition>& all_compositions();

/// The words of a place that budgets try, in their order.
[[nodiscard]] std::vector<const ModeWord*> budget_words(ModeWord::Place place);

/// Throws std::invalid_argument for anything but a canonical spelling, where only the size of
/// ",host=SIZE" may be written in other ways (parse_bytes()). It names the nearest: that of the
/// same parts in the right order, each once, or else the one that takes the fewest letters to
/// change.
[[nodiscard]] ModeComposition parse_mode(std::string_view spelling);

}  // namespace noisemark::memopt
