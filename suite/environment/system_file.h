#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::suite {

/// A small file of /proc, /sys or /etc, trailing white space removed; empty when it cannot be read.
[[nodiscard]] std::optional<std::string> read_system_file(const std::string& path);

/// The value of the first line «key<spaces>separator value», spaces trimmed.
[[nodiscard]] std::optional<std::string> field_of(std::string_view text, std::string_view key,
                                                  char separator);

[[nodiscard]] std::vector<std::string> split_words(std::string_view text);

/// The parts between separators; of an empty text none, of "a,,b" also the empty one.
[[nodiscard]] std::vector<std::string> split_at(std::string_view text, char separator);

}  // namespace noisemark::suite
