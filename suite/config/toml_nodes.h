#pragma once

// The only way in which toml++ is included, in .cpp files alone: it costs seconds.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>

#include "suite/config/keys.h"

namespace noisemark::suite {

/// "FILE:LINE:COLUMN"
[[nodiscard]] std::string place_of(const std::string& file, const toml::source_region& source);

/// What a node is, as its file wrote it, on one line.
[[nodiscard]] std::string found_text(const toml::node& node);

/// Empty for tables, dates, and lists that are mixed or nested.
[[nodiscard]] std::optional<Value> to_value(const toml::node& node);

/// Throws Error, exit code 2, with the place and what toml++ says, when the text is no TOML.
[[nodiscard]] toml::table parse_toml(std::string_view text, const std::string& file);

}  // namespace noisemark::suite
