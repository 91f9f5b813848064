#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::memopt {

/// What a mode is composed of, in the order in which its spelling names it: what is made again,
/// then how the rest is held. Each part is applied to what the ones before it keep.
struct ModeParts {
  enum class Replay : uint8_t {
    kNothing,
    kMirror,
    kMirrorSqrt,
    kMirrorEcho,
    kMirrorSqrtEcho,
    kEcho,
    kEchoAttention,
  };
  enum class Rounding : uint8_t { kNothing, kDpr16, kDpr10, kDpr8, kQ4, kQ2 };
  enum class Offload : uint8_t { kNothing, kConvolutionInputs, kEverything };

  Replay replay = Replay::kNothing;
  bool gist = false;
  Rounding rounding = Rounding::kNothing;
  Offload offload = Offload::kNothing;
  /// The most host memory that offloading may take; empty: as much as the recorded step needs.
  std::optional<int64_t> host_bytes = {};

  bool operator==(const ModeParts&) const = default;
  /// Every gradient is bitwise what mode "none" gives.
  [[nodiscard]] bool lossless() const { return rounding == Rounding::kNothing; }
};

/// The one canonical spelling: "echo+attn+gist+dpr8+offload", "offload:all,host=512MiB"; of nothing
/// "none".
[[nodiscard]] std::string spelling_of(const ModeParts& parts);

/// How parts are put together, one alternative of each line or none: what may come first, then what
/// may be joined to it by "+", in this order.
[[nodiscard]] std::vector<std::vector<std::string_view>> mode_alternatives();

/// Every composition there is, "none" first; without limits of host memory.
[[nodiscard]] const std::vector<ModeParts>& all_mode_parts();

/// Throws std::invalid_argument for anything but a canonical spelling, where only the size of
/// ",host=SIZE" may be written in other ways (budget.h). It names the nearest: that of the same
/// parts in the right order, each once, or else the one that takes the fewest letters to change.
[[nodiscard]] ModeParts parse_mode(std::string_view spelling);

}  // namespace noisemark::memopt
