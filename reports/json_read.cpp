#include <algorithm>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_doubles.h"
#include "reports/json_fault.h"
#include "reports/json_fields.h"
#include "reports/json_io.h"
#include "reports/json_path.h"
#include "reports/nearest.h"
#include "reports/sha256.h"

namespace noisemark::reports {
namespace {

using json::Described;
using json::kAddedLater;
using json::kFields;
using json::kNames;
using json::Path;
using Json = nlohmann::json;

std::string shortened(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Fills values of result.h from a parsed file.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

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

  // Every key of Struct but those added later must be there, and no other but `extra`.
  template <Described Struct>
  void members(const Json& from, Struct& to, const Path& path,
               const std::vector<std::string>& extra) const {
    if (!from.is_object()) throw wrong(from, path, "an object");
    std::vector<std::string> keys = extra;
    std::apply([&](const auto&... fields) { (keys.emplace_back(fields.key), ...); },
               kFields<Struct>);
    for (const auto& [key, entry] : from.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        throw bad_input(where_, Path{&path, key}.text(), "unknown key", accepted_names(key, keys));
      }
    }
    std::apply([&](const auto&... fields) { (member(from, to, fields, path), ...); },
               kFields<Struct>);
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

 private:
  std::string where_;

  template <class Struct, class Field>
  void member(const Json& from, Struct& to, const Field& field, const Path& path) const {
    const auto& later = kAddedLater<Struct>;
    const bool may_be_absent = std::find(later.begin(), later.end(), field.key) != later.end();
    if (may_be_absent && !from.contains(std::string(field.key))) return;
    const Json& found = at(from, std::string(field.key), path);
    auto& member = to.*field.member;
    const Path here{&path, field.key};
    if constexpr (std::is_same_v<decltype(member), std::vector<double>&>) {
      if (json::may_have_gaps<Struct>(field.key)) return with_gaps(found, member, here);
    }
    value(found, member, here);
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

Json parse(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text, RefuseDoubles<Json>(where));
  } catch (const Json::exception&) {
    throw bad_input(where, "not valid JSON", json_fault(text), "");
  }
}

void require_schema(const Json& file, const Reader& reader) {
  const Path top;
  const Path path{&top, "schema"};
  if (!file.is_object()) throw reader.wrong(file, top, "an object");
  const Json& schema = reader.at(file, "schema", top);
  const std::string accepted =
      std::string(kSchemaName) + " " + std::string(kSchemaVersion) + " alone";
  if (!schema.is_object() || schema.size() != 2) throw reader.wrong(schema, path, accepted);
  const Json& name = reader.at(schema, "name", path);
  const Json& version = reader.at(schema, "version", path);
  if (name != kSchemaName) throw reader.wrong(name, Path{&path, "name"}, accepted);
  if (version != kSchemaVersion) throw reader.wrong(version, Path{&path, "version"}, accepted);
}

struct Parsed {
  Result result;
  std::string checksum;
};

Parsed parse_result(std::string_view text, const std::string& where) {
  const Json file = parse(text, where);
  const Reader reader(where);
  require_schema(file, reader);
  Parsed parsed;
  const Path top;
  reader.value(reader.at(file, "checksum", top), parsed.checksum, Path{&top, "checksum"});
  reader.members(file, parsed.result, top, {"schema", "checksum"});
  return parsed;
}

}  // namespace

std::string expected_checksum(std::string_view text, std::string_view stated) {
  const size_t place = text.find(stated);
  if (!is_sha256(stated) || place == std::string_view::npos ||
      text.find(stated, place + 1) != std::string_view::npos) {
    return "";
  }
  Sha256 hash;
  hash.update(text.substr(0, place));
  hash.update(std::string(stated.size(), '0'));
  hash.update(text.substr(place + stated.size()));
  return hash.hex();
}

Result from_json_unverified(std::string_view text, const std::string& where) {
  return parse_result(text, where).result;
}

Result from_json(std::string_view text, const std::string& where) {
  Parsed parsed = parse_result(text, where);
  const std::string expected = expected_checksum(text, parsed.checksum);
  if (expected != parsed.checksum || expected.empty()) {
    throw bad_input(where, "checksum", parsed.checksum,
                    "the file was changed after it was written, or not written whole");
  }
  return std::move(parsed.result);
}

Result read_result(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

}  // namespace noisemark::reports
