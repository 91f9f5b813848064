#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/json.h"
#include "reports/base/quantity.h"

namespace noisemark::reports::json {

/// Says whether a reader also refuses numbers beyond the bounds of their rules.
enum class Bounds { kIgnored, kRequired };

/// Says what a reader does with keys that no field has. What another build wrote may have more.
enum class UnknownKeys { kRefused, kIgnored };

/// Fills structs that have Fields from parsed JSON, strictly: every key must be there, unless its
/// rule allows it to be left out, and no other one; a value that must be one of some names is one.
/// Throws Error (bad input), «where: path: found (accepted)».
class Reader {
 public:
  using Json = nlohmann::json;

  explicit Reader(std::string where, Bounds bounds = Bounds::kIgnored,
                  UnknownKeys unknown = UnknownKeys::kRefused)
      : where_(std::move(where)), bounds_(bounds), unknown_(unknown) {}

  void value(const Json& from, bool& to, const Path& path) const {
    if (!from.is_boolean()) throw wrong(from, path, "true or false");
    to = from.get<bool>();
  }

  template <std::integral Integer>
  void value(const Json& from, Integer& to, const Path& path) const {
    constexpr const char* kWhat = std::is_signed_v<Integer> ? "an integer" : "an integer from 0";
    if (!from.is_number_integer()) throw wrong(from, path, kWhat);
    const bool fits = from.is_number_unsigned() ? std::in_range<Integer>(from.get<uint64_t>())
                                                : std::in_range<Integer>(from.get<int64_t>());
    if (!fits) throw wrong(from, path, kWhat);
    to = from.get<Integer>();
  }

  void value(const Json& from, double& to, const Path& path) const {
    if (!from.is_number()) throw wrong(from, path, "a number");
    to = from.get<double>();
  }

  void value(const Json& from, std::string& to, const Path& path) const {
    if (!from.is_string()) throw wrong(from, path, "a string");
    to = from.get<std::string>();
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void value(const Json& from, Enum& to, const Path& path) const {
    std::vector<std::string> names;
    for (const auto& [constant, name] : kNames<Enum>) {
      if (from.is_string() && from.get<std::string>() == name) {
        to = constant;
        return;
      }
      names.emplace_back(name);
    }
    throw wrong(from, path, accepted_names(from.is_string() ? from.get<std::string>() : "", names));
  }

  template <class T>
  void value(const Json& from, std::optional<T>& to, const Path& path) const {
    to.reset();
    if (from.is_null()) return;
    value(from, to.emplace(), path);
  }

  template <class T>
  void value(const Json& from, std::vector<T>& to, const Path& path) const {
    if (!from.is_array()) throw wrong(from, path, "a list");
    to.assign(from.size(), T{});
    for (size_t i = 0; i < from.size(); ++i) {
      value(from[i], to[i], Path{&path, "", static_cast<std::ptrdiff_t>(i)});
    }
  }

  template <class T>
  void value(const Json& from, std::map<std::string, T>& to, const Path& path) const {
    if (!from.is_object()) throw wrong(from, path, "an object");
    to.clear();
    for (const auto& [key, entry] : from.items()) value(entry, to[key], Path{&path, key});
  }

  template <Described Struct>
  void value(const Json& from, Struct& to, const Path& path) const {
    members(from, to, path, {});
  }

  /// Reads the members of `to`. No key may be there but theirs and `extra`.
  template <Described Struct>
  void members(const Json& from, Struct& to, const Path& path,
               const std::vector<std::string>& extra) const {
    if (!from.is_object()) throw wrong(from, path, "an object");
    std::vector<std::string> keys = extra;
    std::apply([&](const auto&... fields) { (keys.emplace_back(fields.key), ...); },
               Fields<Struct>::kAll);
    for (const auto& [key, entry] : from.items()) {
      if (unknown_ == UnknownKeys::kIgnored) break;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        throw bad_input(where_, Path{&path, key}.text(), "unknown key", accepted_names(key, keys));
      }
    }
    std::apply([&](const auto&... fields) { (member(from, to, fields, path), ...); },
               Fields<Struct>::kAll);
  }

  [[nodiscard]] Error wrong(const Json& found, const Path& path,
                            const std::string& accepted) const {
    return bad_input(where_, path.text(), shortened(found), accepted);
  }

  [[nodiscard]] const Json& at(const Json& from, const std::string& key, const Path& path) const {
    const auto entry = from.find(key);
    if (entry == from.end()) {
      throw bad_input(where_, Path{&path, key}.text(), "missing", "every key must be there");
    }
    return *entry;
  }

  /// The value as an error shows it.
  [[nodiscard]] static std::string shortened(const Json& value) {
    constexpr size_t kLongest = 60;
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
  }

 private:
  std::string where_;
  Bounds bounds_;
  UnknownKeys unknown_;

  template <class Struct, class Value>
  void member(const Json& from, Struct& to, const Field<Struct, Value>& field,
              const Path& path) const {
    if (field.rule.left_out_if_empty && !from.contains(std::string(field.key))) return;
    const Json& found = at(from, std::string(field.key), path);
    const Path here{&path, field.key};
    if constexpr (std::is_same_v<Value, std::vector<double>>) {
      if (field.rule.gaps) return with_gaps(found, to.*field.member, here);
    }
    value(found, to.*field.member, here);
    if (!field.rule.one_of.empty()) require_one_of(found, to.*field.member, field.rule, here);
    if constexpr (std::is_same_v<Value, std::string>) {
      if (field.rule.time && !is_utc(to.*field.member)) throw wrong(found, here, kTimeForm);
    }
    if (bounds_ == Bounds::kRequired) require_bounds(found, to.*field.member, field.rule, here);
  }

  template <class T>
  void require_one_of(const Json& from, const T& value, const Rule& rule, const Path& path) const {
    if constexpr (IsOptional<T>::value) {
      if (value) require_one_of(from, *value, rule, path);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_integral_v<T>) {
      std::string found;
      if constexpr (std::is_integral_v<T>) found = std::to_string(value);
      if constexpr (std::is_same_v<T, std::string>) found = value;
      const std::vector<std::string> accepted = accepted_texts(rule);
      if (std::find(accepted.begin(), accepted.end(), found) == accepted.end()) {
        throw wrong(from, path, accepted_names(found, accepted));
      }
    }
  }

  template <class T>
  void require_bounds(const Json& from, const T& value, const Rule& rule, const Path& path) const {
    if constexpr (IsOptional<T>::value) {
      if (value) require_bounds(from, *value, rule, path);
    } else if constexpr (IsList<T>::value) {
      for (size_t i = 0; i < value.size(); ++i) {
        const Path here{&path, "", static_cast<std::ptrdiff_t>(i)};
        require_bounds(from[i], static_cast<const typename T::value_type&>(value[i]), rule, here);
      }
    } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const std::string what = std::is_integral_v<T> ? "an integer" : "a number";
      const auto number = static_cast<double>(value);
      if (rule.at_least && number < *rule.at_least) {
        throw wrong(from, path, fmt::format("{} of at least {}", what, *rule.at_least));
      }
      if (rule.above && !(number > *rule.above)) {
        throw wrong(from, path, fmt::format("{} above {}", what, *rule.above));
      }
    }
  }

  void with_gaps(const Json& from, std::vector<double>& to, const Path& path) const {
    std::vector<std::optional<double>> list;
    value(from, list, path);
    to.clear();
    for (const auto& number : list) {
      to.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
    }
  }
};

}  // namespace noisemark::reports::json
