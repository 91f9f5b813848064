#include "reports/base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

#include "reports/base/json.h"
#include "reports/base/markdown.h"

namespace noisemark::reports::json {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = Shape::Kind;

OrderedJson accepted(const Shape& shape, const Rule& rule) {
  OrderedJson list = OrderedJson::array();
  if (rule.one_of.empty()) return shape.names;
  for (const std::string& part : accepted_texts(rule)) {
    shape.kind == Kind::kInteger ? list.push_back(std::stoll(part)) : list.push_back(part);
  }
  return list;
}

OrderedJson number_of(double bound) {
  const auto whole = static_cast<int64_t>(bound);
  return static_cast<double>(whole) == bound ? OrderedJson(whole) : OrderedJson(bound);
}

/// The structs of a document that are not its own body, each once, in the order of their first use.
void collect(const Shape& shape, std::vector<const Shape*>& all) {
  if (shape.entry) collect(*shape.entry, all);
  for (const Shape::Member& member : shape.members) {
    const Shape* used = member.shape.get();
    while (used->entry) used = used->entry.get();
    const bool known = std::any_of(all.begin(), all.end(), [&](const Shape* one) {
      return one->about.name == used->about.name;
    });
    if (used->kind == Kind::kStruct && !known) all.push_back(used);
    collect(*used, all);
  }
}

OrderedJson reference_to(const Shape& shape) {
  return {{"$ref", fmt::format("#/definitions/{}", shape.about.name)}};
}

OrderedJson schema_of(const Shape& shape, const Rule& rule) {
  constexpr std::array kTypes{"boolean", "integer", "number", "string", "object"};
  switch (shape.kind) {
    case Kind::kStruct:
      if (!shape.nullable) return reference_to(shape);
      return {{"anyOf", {reference_to(shape), {{"type", "null"}}}}};
    case Kind::kList: {
      Shape entry = *shape.entry;
      entry.nullable = entry.nullable || rule.gaps;
      return {{"type", "array"}, {"items", schema_of(entry, rule)}};
    }
    case Kind::kMap:
      return {{"type", "object"}, {"additionalProperties", schema_of(*shape.entry, rule)}};
    default:
      break;
  }
  OrderedJson json;
  if (!shape.names.empty() || !rule.one_of.empty()) {
    json["enum"] = accepted(shape, rule);
    if (shape.nullable) json["enum"].push_back(nullptr);
    return json;
  }
  const char* type = kTypes.at(static_cast<size_t>(shape.kind));
  json["type"] = shape.nullable ? OrderedJson{type, "null"} : OrderedJson(type);
  if (rule.at_least) json["minimum"] = number_of(*rule.at_least);
  if (rule.above) json["exclusiveMinimum"] = number_of(*rule.above);
  if (rule.at_most) json["maximum"] = number_of(*rule.at_most);
  if (!rule.pattern.empty()) json["pattern"] = rule.pattern;
  if (rule.not_empty) json["minLength"] = 1;
  return json;
}

std::string property_line(const Shape::Member& member) {
  OrderedJson json = schema_of(*member.shape, member.rule);
  // Draft-07 ignores every other key beside a reference.
  if (json.contains("$ref")) json = {{"allOf", {json}}};
  json["description"] = member.text;
  return fmt::format("\"{}\": {}", member.key, line_of(json));
}

/// The members of an object, each on a line of its own; `extra` stand before those of the shape.
std::string object_text(const Shape& shape, const std::vector<std::string>& extra,
                        const std::vector<std::string>& extra_keys, int depth) {
  const std::string indent(static_cast<size_t>(depth), ' ');
  OrderedJson required(extra_keys);
  std::vector<std::string> lines = extra;
  for (const Shape::Member& member : shape.members) {
    if (!member.rule.left_out_if_empty) required.push_back(member.key);
    lines.push_back(property_line(member));
  }
  return fmt::format(
      "{0}\"type\": \"object\",\n{0}\"additionalProperties\": false,\n{0}\"required\": {1},\n"
      "{0}\"properties\": {{\n{0}  {2}\n{0}}}",
      indent, line_of(required), fmt::join(lines, ",\n" + indent + "  "));
}

/// Returns whether a value is a number, or numbers.
bool is_number(const Shape& shape) {
  if (shape.entry) return is_number(*shape.entry);
  return shape.kind == Kind::kInteger || shape.kind == Kind::kNumber;
}

/// "bytes" of `peak_bytes`: the unit of a number is in its key, alone or behind other words.
std::string_view unit_of(const Shape& shape, std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kUnits{
      {{"flop_per_s", "FLOP/s"},
       {"bytes_per_s", "bytes/s"},
       {"images_per_s", "images/s"},
       {"per_s", "1/s"},
       {"flop_per_image", "FLOP"},
       {"flop", "FLOP"},
       {"flops", "FLOP"},
       {"s", "s"},
       {"seconds", "s"},
       {"ms", "milliseconds"},
       {"us", "microseconds"},
       {"ns", "nanoseconds"},
       {"bytes", "bytes"},
       {"bytes_by_formula", "bytes"},
       {"by_category", "bytes"},
       {"frac", "share of 1"},
       {"ratio", "1"},
       {"mhz", "MHz"},
       {"w", "W"},
       {"c", "degrees Celsius"},
       {"images", "images"},
       {"batch", "images"},
       {"samples_seen", "images"},
       {"samples_to_quality", "images"},
       {"steps", "steps"}}};
  if (!is_number(shape)) return "";
  for (const auto& [words, unit] : kUnits) {
    if (key == words) return unit;
    if (key.ends_with(words) && key[key.size() - words.size() - 1] == '_') return unit;
  }
  return "";
}

std::string type_words(const Shape& shape, const Rule& rule) {
  constexpr std::array kTypes{"true or false", "integer", "number", "text", "object"};
  std::string words;
  if (shape.kind == Kind::kStruct) {
    words = fmt::format("[{}](#{})", shape.about.name, lower_case(shape.about.name));
  } else if (shape.kind == Kind::kList) {
    words = "list of " + type_words(*shape.entry, rule) + (rule.gaps ? " or null" : "");
  } else if (shape.kind == Kind::kMap) {
    words = "object of " + type_words(*shape.entry, rule);
  } else if (!shape.names.empty() || !rule.one_of.empty()) {
    for (const OrderedJson& name : accepted(shape, rule)) {
      words += (words.empty() ? "" : ", ") + code(name.dump());
    }
  } else {
    words = kTypes.at(static_cast<size_t>(shape.kind));
  }
  return shape.nullable ? words + " or null" : words;
}

std::string table_of(const Shape& shape) {
  MarkdownTable table({{"key"}, {"type"}, {"unit"}, {"meaning"}});
  for (const Shape::Member& member : shape.members) {
    const char* absent = member.rule.left_out_if_empty ? " (absent where empty)" : "";
    table.add_row({code(member.key), type_words(*member.shape, member.rule) + absent,
                   std::string(unit_of(*member.shape, member.key)), std::string(member.text)});
  }
  return table.text();
}

}  // namespace

std::vector<std::string> accepted_texts(const Rule& rule) {
  std::vector<std::string> texts;
  const std::string_view joined = rule.one_of;
  for (size_t begin = 0; !joined.empty() && begin <= joined.size();) {
    const size_t end = std::min(joined.find('|', begin), joined.size());
    texts.emplace_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

std::string schema_file(const Document& document) {
  return fmt::format("{}.schema.json", document.name.substr(document.name.rfind('.') + 1));
}

std::string schema_text(const Document& document, const Shape& body) {
  std::vector<std::string> lines;
  std::vector<std::string> keys;
  const auto add = [&](const char* key, const OrderedJson& rule) {
    keys.emplace_back(key);
    lines.push_back(fmt::format("\"{}\": {}", key, line_of(rule)));
  };
  if (document.printed_by.empty()) {
    add("schema",
        {{"type", "object"},
         {"additionalProperties", false},
         {"required", {"name", "version"}},
         {"properties",
          {{"name", {{"const", document.name}}}, {"version", {{"const", document.version}}}}}});
    if (document.sealed) {
      add("checksum",
          {{"type", "string"},
           {"pattern", kSha256},
           {"description",
            "SHA-256 of the bytes of this file with these 64 digits replaced by zeros"}});
    }
  }
  std::vector<const Shape*> structs;
  if (body.kind == Kind::kList) structs.push_back(body.entry.get());
  collect(body, structs);
  std::vector<std::string> definitions;
  for (const Shape* one : structs) {
    const std::string words =
        one->about.text.empty()
            ? ""
            : fmt::format("      \"description\": {},\n", OrderedJson(one->about.text).dump());
    definitions.push_back(fmt::format("    \"{}\": {{\n{}{}\n    }}", one->about.name, words,
                                      object_text(*one, {}, {}, 6)));
  }
  const std::string rules = body.kind == Kind::kList
                                ? fmt::format("  \"type\": \"array\",\n  \"items\": {}",
                                              line_of(reference_to(*body.entry)))
                                : object_text(body, lines, keys, 2);
  return fmt::format(
      "{{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
      "  \"title\": \"{} {}\",\n  \"description\": {},\n{},\n  \"definitions\": {{\n{}\n  }}\n}}\n",
      document.name, document.version, OrderedJson(document.text).dump(), rules,
      fmt::join(definitions, ",\n"));
}

std::string fields_markdown(const Document& document, const Shape& body) {
  const std::string heading = document.printed_by.empty()
                                  ? fmt::format("{} {}", document.name, document.version)
                                  : code(document.printed_by);
  std::string text = fmt::format(
      "# The fields of {}\n\n{} Every key is always there, but for those that are marked, and no "
      "other. Its JSON Schema is [{}]({}).\n\n",
      heading, document.text, schema_file(document), schema_file(document));
  std::vector<const Shape*> structs;
  if (body.kind == Kind::kList) structs.push_back(body.entry.get());
  if (body.kind != Kind::kList) text += table_of(body);
  collect(body, structs);
  for (const Shape* one : structs) {
    text += fmt::format("\n### {}\n\n", one->about.name);
    if (!one->about.text.empty()) text += fmt::format("{}\n\n", one->about.text);
    text += table_of(*one);
  }
  return text;
}

}  // namespace noisemark::reports::json
