#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "suite/config/definition.h"
#include "suite/config/keys.h"

/// Strict TOML: of a definition, and of a file of options. Every Error names "FILE:LINE:COLUMN".
namespace noisemark::suite {

/// A definition on its way from its file, with the place where each key was given.
struct Draft {
  Definition definition;
  /// Key path -> "file:line:column", or "--set".
  std::map<std::string, std::string, std::less<>> places;

  /// Returns the place where `path` was given; the file when it was left at its default.
  [[nodiscard]] std::string place(std::string_view path) const;
};

/// Throws Error (exit code 2) naming the nearest valid key.
[[noreturn]] void throw_unknown_key(const std::string& where, std::string_view path);

/// Throws Error (exit code 2) when `key` means nothing for the definition.
void require_applies(const Key& key, const std::string& where, const Definition& definition);

/// Checks what no single key can know: divisibility, shapes that fit the data, keys that contradict
/// each other. Throws Error (exit code 2) naming the key to change.
void check_together(const Draft& draft);

/// Applies one `--set key=value`. Throws Error (exit code 2). Whether the key applies is decided
/// once all of them are in: finish_overrides().
void apply_override(const std::string& assignment, Draft& draft);
void finish_overrides(const Draft& draft);

/// Reads a definition file at one scale ("cpu" or "gpu"). Both scales of the file are checked,
/// whichever is wanted. Throws Error (exit code 2) «file:line:column: key: found (accepted)».
[[nodiscard]] Draft read_toml(std::string_view text, const std::string& file,
                              const std::string& scale);

struct TomlEntry {
  std::string name;
  std::string name_place;  ///< "FILE:LINE:COLUMN" of the name
  std::string place;       ///< "FILE:LINE:COLUMN" of the value
  Value value;
};

/// Reads a TOML file of keys without sections, in the order of its lines. Throws Error (exit code
/// 2) with the place for text that is no TOML and for values that are tables, dates or mixed lists.
[[nodiscard]] std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& file);

}  // namespace noisemark::suite
