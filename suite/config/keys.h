#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "suite/config/definition.h"

/// The one description of a definition's keys. The TOML reader, `--set`, the canonical writer and
/// the documentation all walk this table, so that a key is added in one line.
namespace noisemark::suite {

/// A pointer to the member of a Definition that holds a key's value.
using Member = std::variant<std::string*, int64_t*, uint64_t*, double*, bool*,
                            std::vector<int64_t>*, std::vector<std::string>*>;

/// A value as written, before it is known to be acceptable.
using Value = std::variant<std::string, int64_t, double, bool, std::vector<int64_t>,
                           std::vector<std::string>>;

/// The values that a key accepts. The range of a list is that of each element.
struct Accepted {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;                     ///< min itself is refused
  bool below_max = false;                     ///< max itself is refused
  std::array<std::string_view, 4> choices{};  ///< allowed strings; filled from the front
  int64_t min_items = 0;                      ///< minimum length of a list
};

/// The key applies only while another key has one of these values ("true" for a switch).
struct Condition {
  std::string_view key;  ///< path, empty: always
  std::array<std::string_view, 2> values{};
};

/// The rule for changing a key's value, and whether the value identifies the benchmark.
enum class Standing {
  kLocked,   ///< part of the canonical definition; --set makes the run custom
  kFixed,    ///< part of the canonical definition; --set refuses it
  kDisplay,  ///< outside the lock; --set refuses it
};

struct Key {
  std::string_view section;  ///< "model"
  std::string_view name;     ///< "dim"
  Member (*member)(Definition&);
  Accepted accepted;
  Condition condition;
  Standing standing = Standing::kLocked;
  bool required = false;  ///< a definition file must give it
  std::string_view help;  ///< half a sentence for the documentation
  /// The key came after the first definitions were locked: it is left out of the canonical form
  /// while it has its default, so that theirs stays what it was.
  bool later = false;
};

/// Every key but those of gates, in canonical order.
[[nodiscard]] std::span<const Key> keys();

/// "model.dim".
[[nodiscard]] std::string key_path(const Key& key);
/// Returns null when there is none.
[[nodiscard]] const Key* find_key(std::string_view path);
/// Section names in canonical order.
[[nodiscard]] std::vector<std::string> sections();

/// Returns whether the key means anything for this definition's model, data, EMA ...
[[nodiscard]] bool applies(const Key& key, const Definition& definition);
/// "only when ema.kind is \"power\"".
[[nodiscard]] std::string condition_text(const Key& key);
/// "an integer from 1 to 64", "one of: "silu", "relu"".
[[nodiscard]] std::string accepted_text(const Key& key);
/// "integer", "list of integers" ...
[[nodiscard]] std::string_view type_text(const Key& key);

/// The value as a definition file would write it.
[[nodiscard]] std::string value_text(const Key& key, const Definition& definition);
[[nodiscard]] std::string value_text(const Value& value);
/// Shortest decimal that reads back as the same double, always with a point or an exponent.
[[nodiscard]] std::string number_text(double value);

/// Stores a value of the right type and range. Throws Error (exit code 2) «where: key: found
/// (accepted)», where a word that is none of the choices is told the nearest.
void assign(const Key& key, const Value& value, const std::string& where, Definition& definition);

/// The keys as a Markdown table, one row each.
[[nodiscard]] std::string keys_markdown();

}  // namespace noisemark::suite
