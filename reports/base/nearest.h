#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace noisemark::reports {

/// ASCII letters become small; all else stays.
[[nodiscard]] std::string lower_case(std::string_view text);

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours,
/// one each, letter case ignored. Stops early and returns `limit + 1` once it must exceed `limit`.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

/// The valid name that a user most likely meant: the one at the smallest distance, the first of
/// equals; empty when even that is farther than a third of the name's length (at least 2).
[[nodiscard]] std::optional<std::string> nearest(std::string_view name,
                                                 std::span<const std::string> valid);

/// The `accepted` part of an error: «nearest "gist"; one of: none, echo, gist», or without the
/// first half when nothing is near.
[[nodiscard]] std::string accepted_names(std::string_view name, std::span<const std::string> valid);

}  // namespace noisemark::reports
