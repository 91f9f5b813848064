#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "reports/base/fields.h"
#include "reports/base/json.h"

namespace noisemark::reports::json {

/// Prints structs that have Fields. Objects are spread over lines, except inside a list, whose
/// elements take one line each (rows of a table) or share one (numbers, names, plot points).
/// Doubles read back bit for bit; bytes that are not UTF-8 become U+FFFD. Throws std::logic_error,
/// which begins with `where` and names the path, for a number that is not finite.
class Printer {
 public:
  explicit Printer(std::string where) : where_(std::move(where)) {}

  /// The text of a whole file, with the keys of `beginning` before those of `body`.
  template <Described Struct>
  std::string file(const nlohmann::ordered_json& beginning, const Struct& body) {
    open('{', true);
    for (const auto& [key, value] : beginning.items()) {
      separate(first_member_);
      first_member_ = false;
      text_ += quoted(key) + ": " + line_of(value);
    }
    members(body, Path{});
    close('}');
    return text_ + "\n";
  }

 private:
  void value(bool flag, const Path& /*path*/) { text_ += flag ? "true" : "false"; }

  template <std::integral Integer>
  void value(Integer number, const Path& /*path*/) {
    fmt::format_to(std::back_inserter(text_), "{}", number);
  }

  void value(double number, const Path& path) {
    if (!std::isfinite(number)) {
      throw std::logic_error(where_ + ": " + path.text() + " is not a finite number");
    }
    const std::string digits = fmt::format("{}", number);  // the shortest that reads back exactly
    text_ += digits;
    // Without a point many readers make an integer of it, and «-0» loses its sign.
    if (digits.find_first_of(".e") == std::string::npos) text_ += ".0";
  }

  void value(const std::string& string, const Path& /*path*/) { text_ += quoted(string); }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void value(Enum constant, const Path& path) {
    const std::string_view name = name_of(constant);
    if (name.empty()) {
      throw std::logic_error(where_ + ": " + path.text() + " is no constant of its enumeration");
    }
    value(std::string(name), path);
  }

  template <class T>
  void value(const std::optional<T>& maybe, const Path& path) {
    if (maybe) value(*maybe, path);
    if (!maybe) text_ += "null";
  }

  template <class T>
  void value(const std::vector<T>& list, const Path& path) {
    print_list(list, path, Described<T>);
  }

  template <class T>
  void value(const std::map<std::string, T>& map, const Path& path) {
    open('{', !map.empty());
    bool first = true;
    for (const auto& [key, entry] : map) {
      separate(first);
      first = false;
      text_ += quoted(key) + ": ";
      value(entry, Path{&path, key});
    }
    close('}');
  }

  template <Described Struct>
  void value(const Struct& object, const Path& path) {
    open('{', true);
    members(object, path);
    close('}');
  }

  template <Described Struct>
  void members(const Struct& object, const Path& path) {
    std::apply([&](const auto&... fields) { (member(object, fields, path), ...); },
               Fields<Struct>::kAll);
  }

  template <class Struct, class Value>
  void member(const Struct& object, const Field<Struct, Value>& field, const Path& path) {
    if (field.rule.left_out_if_empty && is_empty(object.*field.member)) return;
    separate(first_member_);
    first_member_ = false;
    text_ += '"';
    text_ += field.key;
    text_ += "\": ";
    const Value& found = object.*field.member;
    const Path here{&path, field.key};
    if constexpr (std::is_same_v<Value, std::vector<double>>) {
      field.rule.gaps ? value(with_gaps(found), here) : value(found, here);
    } else if constexpr (IsList<Value>::value) {
      print_list(found, here, Described<typename Value::value_type> && !field.rule.one_line);
    } else {
      value(found, here);
    }
    first_member_ = false;
  }

  template <class T>
  void print_list(const std::vector<T>& list, const Path& path, bool rows) {
    open('[', rows && !list.empty());
    const bool outer_in_row = in_row_;
    in_row_ = true;
    for (size_t i = 0; i < list.size(); ++i) {
      separate(i == 0);
      value(list[i], Path{&path, "", static_cast<std::ptrdiff_t>(i)});
    }
    in_row_ = outer_in_row;
    close(']');
  }

  void open(char bracket, bool spread) {
    text_ += bracket;
    spread_.push_back(spread && !in_row_);
    first_member_ = true;
  }

  void separate(bool first) {
    if (!first) text_ += ',';
    if (spread_.back()) {
      new_line();
    } else if (!first) {
      text_ += ' ';
    }
  }

  void close(char bracket) {
    const bool spread = spread_.back();
    spread_.pop_back();
    if (spread) new_line();
    text_ += bracket;
  }

  void new_line() {
    text_ += '\n';
    text_.append(2 * spread_.size(), ' ');
  }

  static std::string quoted(const std::string& string) {
    return nlohmann::json(string).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  static std::vector<std::optional<double>> with_gaps(const std::vector<double>& numbers) {
    std::vector<std::optional<double>> list(numbers.begin(), numbers.end());
    for (auto& number : list) {
      if (std::isnan(*number)) number.reset();
    }
    return list;
  }

  std::string where_;
  std::string text_;
  std::vector<bool> spread_;  // one for each open bracket
  bool in_row_ = false;
  bool first_member_ = true;
};

/// A value that has Fields, or a list, a map or an optional of such, as a tree of JSON with its
/// keys in the order of the fields. Throws std::logic_error for a constant without a name.
template <class T>
nlohmann::ordered_json tree_of(const T& value) {
  using Json = nlohmann::ordered_json;
  if constexpr (IsOptional<T>::value) {
    return value ? tree_of(*value) : Json(nullptr);
  } else if constexpr (IsList<T>::value) {
    Json list = Json::array();
    for (const auto& entry : value) list.push_back(tree_of(entry));
    return list;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, entry] : value) object[key] = tree_of(entry);
    return object;
  } else if constexpr (std::is_same_v<T, Tree>) {
    return Json::parse(value.text);
  } else if constexpr (Described<T>) {
    Json object = Json::object();
    const auto add = [&](const auto& field) {
      const auto& member = [&]() -> decltype(auto) {
        if constexpr (requires { field.member; }) {
          return (value.*field.member);
        } else {
          return field.of(value);
        }
      }();
      if (field.rule.left_out_if_empty && is_empty(member)) return;
      object[std::string(field.key)] = tree_of(member);
    };
    std::apply([&](const auto&... fields) { (add(fields), ...); }, Fields<T>::kAll);
    return object;
  } else if constexpr (std::is_enum_v<T>) {
    if (name_of(value).empty()) throw std::logic_error("tree_of: a constant has no name");
    return std::string(name_of(value));
  } else {
    return value;
  }
}

/// The text that a command prints for programs. Bytes that are no UTF-8 become U+FFFD.
template <class T>
std::string printed(const T& value) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return tree_of(value).dump(2, ' ', false, kReplace) + "\n";
}

}  // namespace noisemark::reports::json
