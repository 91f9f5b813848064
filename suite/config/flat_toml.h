#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "suite/config/keys.h"

namespace noisemark::suite {

struct TomlEntry {
  std::string name;
  std::string name_place;  ///< "FILE:LINE:COLUMN" of the name
  std::string place;       ///< of the value
  Value value;
};

/// A TOML file of keys without sections, in the order of its lines. Throws Error, exit code 2, with
/// the place, for what is no TOML and for values that are tables, dates, or mixed lists.
[[nodiscard]] std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& file);

}  // namespace noisemark::suite
