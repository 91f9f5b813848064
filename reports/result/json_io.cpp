#include "reports/result/json_io.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/file.h"
#include "reports/base/json_reader.h"
#include "reports/base/json_writer.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {

std::string to_json(const Result& result) {
  return with_checksum(json::Printer("result").file(beginning_of(json::kResultDocument), result));
}

template <class Part>
std::string to_json(const Part& part) {
  return json::tree_of(part).dump();
}

template <class Part>
Part part_from_json(std::string_view text, const std::string& where) {
  Part part;
  json::Reader(where).value(parse_json(text, where), part, json::Path{});
  return part;
}

template std::string to_json(const RankRecord&);
template std::string to_json(const Certificate&);
template RankRecord part_from_json(std::string_view, const std::string&);
template Certificate part_from_json(std::string_view, const std::string&);

void write_result(const std::filesystem::path& path, const Result& result) {
  write_file_atomically(path, to_json(result));
}

Result from_json_unverified(std::string_view text, const std::string& where) {
  return read_document<Result>(text, json::kResultDocument, where, {.checksum = false});
}

Result from_json(std::string_view text, const std::string& where) {
  return read_document<Result>(text, json::kResultDocument, where);
}

Result read_result(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

/// Words what does not follow the schema as whoever reads a result words it. It knows the part of
/// JSON Schema that the schema of a result is made of; valijson knows all, and words it for those
/// who write schemas.
class Faults {
 public:
  explicit Faults(const Json& schema) : schema_(schema) {}

  [[nodiscard]] Texts of(const Json& value) {
    look_at(value, schema_, "");
    return std::move(all_);
  }

 private:
  /// The rule itself, in place of a reference to it.
  const Json& resolved(const Json& rule) const {
    if (rule.contains("allOf")) return resolved(rule["allOf"][0]);
    if (rule.contains("anyOf")) return resolved(rule["anyOf"][0]);  // the other one is null
    if (!rule.contains("$ref")) return rule;
    return schema_.at(Json::json_pointer(rule["$ref"].get<std::string>().substr(1)));
  }

  void look_at(const Json& value, const Json& given, const std::string& path) {
    if (given.contains("anyOf") && value.is_null()) return;
    const Json& rule = resolved(given);
    const std::string accepted = what_is_accepted(value, rule);
    if (!accepted.empty()) return add(path, json::Reader::shortened(value), accepted);
    if (value.is_array() && rule.contains("items")) {
      for (size_t i = 0; i < value.size(); ++i) {
        look_at(value[i], rule["items"], path + "[" + std::to_string(i) + "]");
      }
    }
    if (value.is_object()) look_at_members(value, rule, path);
  }

  void look_at_members(const Json& value, const Json& rule, const std::string& path) {
    const Json none = Json::object();
    const Json& known = rule.contains("properties") ? rule["properties"] : none;
    const auto member = [&](const std::string& key) {
      return path.empty() ? key : path + "." + key;
    };
    Texts names;
    for (const auto& [key, one] : known.items()) names.push_back(key);
    for (const auto& [key, one] : value.items()) {
      if (known.contains(key)) {
        look_at(one, known[key], member(key));
      } else if (rule.contains("additionalProperties") &&
                 rule["additionalProperties"].is_object()) {
        look_at(one, rule["additionalProperties"], member(key));
      } else {
        add(member(key), "unknown key", accepted_names(key, names));
      }
    }
    for (const Json& key : rule.value("required", Json::array())) {
      if (value.contains(key)) continue;
      add(member(key), "missing", "every key must be there");
    }
  }

  /// Returns no text where the value itself follows the rule.
  static std::string what_is_accepted(const Json& value, const Json& rule) {
    if (rule.contains("const") && value != rule["const"]) return rule["const"].dump();
    if (rule.contains("enum")) return of_names(value, rule["enum"]);
    if (!rule.contains("type")) return "";
    const Json& type = rule["type"];
    const bool nullable = type.is_array();
    const std::string kind = nullable ? type[0] : type;
    if (nullable && value.is_null()) return "";
    const std::string accepted = of_kind(value, kind, rule);
    return accepted.empty() || !nullable ? accepted : accepted + " or null";
  }

  static std::string of_names(const Json& value, const Json& accepted) {
    Texts names;
    for (const Json& one : accepted) {
      if (one == value) return "";
      names.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    }
    return accepted_names(value.is_string() ? value.get<std::string>() : "", names);
  }

  static std::string of_kind(const Json& value, const std::string& kind, const Json& rule) {
    if (kind == "object") return value.is_object() ? "" : "an object";
    if (kind == "array") return value.is_array() ? "" : "a list";
    if (kind == "boolean") return value.is_boolean() ? "" : "true or false";
    if (kind == "null") return value.is_null() ? "" : "null";
    if (kind == "string") return value.is_string() ? of_text(value, rule) : "a string";
    const bool whole = kind == "integer";
    const std::string what = whole ? "an integer" : "a number";
    if (!(whole ? value.is_number_integer() : value.is_number())) return what;
    return of_bounds(value.get<double>(), what, rule);
  }

  static std::string of_text(const std::string& text, const Json& rule) {
    if (text.size() < rule.value("minLength", size_t{0})) return "a string that is not empty";
    const std::string pattern = rule.value("pattern", "");
    if (pattern.empty() || std::regex_search(text, std::regex(pattern))) return "";
    return "a string of the form " + pattern;
  }

  static std::string of_bounds(double number, const std::string& what, const Json& rule) {
    const auto bound = [&](const char* key) {
      return rule.contains(key) ? std::optional(rule[key].get<double>()) : std::nullopt;
    };
    const auto least = bound("minimum");
    const auto above = bound("exclusiveMinimum");
    const auto most = bound("maximum");
    if (least && number < *least) return fmt::format("{} of at least {}", what, *least);
    if (above && number <= *above) return fmt::format("{} above {}", what, *above);
    if (most && number > *most) return fmt::format("{} of at most {}", what, *most);
    return "";
  }

  void add(const std::string& path, const std::string& found, const std::string& accepted) {
    all_.push_back(fmt::format("{}: {} ({})", path.empty() ? "the file" : path, found, accepted));
  }

  const Json& schema_;
  Texts all_;
};

}  // namespace

std::string result_schema() {
  return json::schema_text(json::kResultDocument, json::shape_of<Result>());
}

std::vector<std::string> schema_problems(std::string_view text) {
  const auto file = nlohmann::json::parse(text, nullptr, false);
  if (file.is_discarded()) return {"the file is not valid JSON"};
  const auto rules = nlohmann::json::parse(result_schema());
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(rules), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(file), nullptr)) return {};
  Texts problems = Faults(rules).of(file);
  if (problems.empty()) problems.emplace_back("the file does not follow the schema");
  return problems;
}

}  // namespace noisemark::reports
