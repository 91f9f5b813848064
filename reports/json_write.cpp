#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "reports/file.h"
#include "reports/json_fields.h"
#include "reports/json_io.h"
#include "reports/json_path.h"
#include "reports/sha256.h"

namespace noisemark::reports {
namespace {

using json::Described;
using json::kFields;
using json::kNames;
using json::Path;

std::string quoted(const std::string& string) {
  return nlohmann::json(string).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::optional<double>> with_gaps(const std::vector<double>& numbers) {
  std::vector<std::optional<double>> list(numbers.begin(), numbers.end());
  for (auto& number : list) {
    if (std::isnan(*number)) number.reset();
  }
  return list;
}

// Appends one value after another to a text. Objects are spread over lines, except inside a list,
// whose elements take one line each (rows of a table) or share one (numbers, names, plot points).
class Printer {
 public:
  void value(bool flag, const Path&) { text_ += flag ? "true" : "false"; }

  template <std::integral Integer>
  void value(Integer number, const Path&) {
    fmt::format_to(std::back_inserter(text_), "{}", number);
  }

  void value(double number, const Path& path) {
    if (!std::isfinite(number)) {
      throw std::logic_error("result: " + path.text() + " is not a finite number");
    }
    const std::string digits = fmt::format("{}", number);  // the shortest that reads back exactly
    text_ += digits;
    // Without a point many readers make an integer of it, and «-0» loses its sign.
    if (digits.find_first_of(".e") == std::string::npos) text_ += ".0";
  }

  void value(const std::string& string, const Path&) { text_ += quoted(string); }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void value(Enum constant, const Path& path) {
    for (const auto& [known, name] : kNames<Enum>) {
      if (known == constant) return value(std::string(name), path);
    }
    throw std::logic_error("result: " + path.text() + " is no constant of its enumeration");
  }

  template <class T>
  void value(const std::optional<T>& maybe, const Path& path) {
    if (maybe) value(*maybe, path);
    if (!maybe) text_ += "null";
  }

  template <class T>
  void value(const std::vector<T>& list, const Path& path) {
    constexpr bool kTable = Described<T> && !std::is_same_v<T, MemoryPoint>;
    open('[', kTable && !list.empty());
    const bool outer_in_row = in_row_;
    in_row_ = true;
    for (size_t i = 0; i < list.size(); ++i) {
      separate(i == 0);
      value(list[i], Path{&path, "", static_cast<std::ptrdiff_t>(i)});
    }
    in_row_ = outer_in_row;
    close(']');
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
    std::apply([&](const auto&... fields) { (member(object, fields, path), ...); },
               kFields<Struct>);
    close('}');
  }

  // The whole file. Schema and checksum come first; the checksum as zeros.
  std::string file(const Result& result) {
    open('{', true);
    separate(true);
    text_ +=
        fmt::format(R"("schema": {{"name": "{}", "version": "{}"}})", kSchemaName, kSchemaVersion);
    separate(false);
    text_ += fmt::format(R"("checksum": "{:064}")", 0);
    first_member_ = false;
    std::apply([&](const auto&... fields) { (member(result, fields, Path{}), ...); },
               kFields<Result>);
    close('}');
    return text_ + "\n";
  }

 private:
  std::string text_;
  std::vector<bool> spread_;  // of every open bracket
  bool in_row_ = false;
  bool first_member_ = true;

  template <class Struct, class Field>
  void member(const Struct& object, const Field& field, const Path& path) {
    separate(first_member_);
    first_member_ = false;
    text_ += '"';
    text_ += field.key;
    text_ += "\": ";
    const auto& found = object.*field.member;
    const Path here{&path, field.key};
    if constexpr (std::is_same_v<decltype(found), const std::vector<double>&>) {
      json::may_have_gaps<Struct>(field.key) ? value(with_gaps(found), here) : value(found, here);
    } else {
      value(found, here);
    }
    first_member_ = false;
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
};

}  // namespace

std::string to_json(const Result& result) {
  std::string text = Printer().file(result);
  const std::string zeros(64, '0');
  // The first such run of digits is the checksum's own: only the schema comes before it.
  return text.replace(text.find(zeros), zeros.size(), sha256_of(text));
}

void write_result(const std::filesystem::path& path, const Result& result) {
  write_file_atomically(path, to_json(result));
}

}  // namespace noisemark::reports
