#include "reports/base/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reports/base/json.h"
#include "reports/base/sha256.h"

namespace noisemark::reports {
namespace {

void print(const OrderedJson& json, size_t depth, std::string& text) {
  const auto nested = [](const OrderedJson& value) { return value.is_structured(); };
  const bool flat = json.is_array() && std::none_of(json.begin(), json.end(), nested);
  if (flat || !json.is_structured() || json.empty()) {
    text += json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    return;
  }
  const std::string indent(depth + 1, ' ');
  text += json.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& item : json.items()) {
    text += first ? "\n" : ",\n";
    first = false;
    text += indent;
    if (json.is_object()) text += OrderedJson(item.key()).dump() + ": ";
    print(item.value(), depth + 1, text);
  }
  text += '\n' + std::string(depth, ' ') + (json.is_object() ? "}" : "]");
}

const std::string kZeros(64, '0');

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  require_shallow(text, where);
  try {
    return nlohmann::json::parse(text, RefuseDoubles<nlohmann::json>(where));
  } catch (const nlohmann::json::exception&) {
    throw bad_input(where, "not JSON", json_fault(text), "");
  }
}

OrderedJson beginning_of(const json::Document& document) {
  OrderedJson json = {{"schema", {{"name", document.name}, {"version", document.version}}}};
  if (document.sealed) json["checksum"] = kZeros;
  return json;
}

std::string with_checksum(std::string text) {
  // The first: only a schema's name and version come before it.
  return text.replace(text.find(kZeros), kZeros.size(), sha256_of(text));
}

std::string document_text(const json::Document& document, const OrderedJson& body) {
  OrderedJson json = beginning_of(document);
  json.update(body);
  std::string text;
  print(json, 0, text);
  text += '\n';
  return document.sealed ? with_checksum(std::move(text)) : text;
}

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

void require_schema(const nlohmann::json& file, const json::Document& document,
                    const std::string& where) {
  const json::Reader reader(where);
  const json::Path top;
  const json::Path path{&top, "schema"};
  if (!file.is_object()) throw reader.wrong(file, top, "an object");
  const nlohmann::json& schema = reader.at(file, "schema", top);
  for (const auto& [key, value] :
       {std::pair{"name", document.name}, {"version", document.version}}) {
    const nlohmann::json& found = reader.at(schema, key, path);
    if (found != value) throw reader.wrong(found, json::Path{&path, key}, std::string(value));
  }
}

void require_checksum(std::string_view text, const nlohmann::json& file,
                      const json::Document& document, const std::string& where) {
  if (!document.sealed) return;
  std::string stated;
  const json::Reader reader(where);
  reader.value(reader.at(file, "checksum", {}), stated, json::Path{nullptr, "checksum"});
  if (is_sha256(stated) && expected_checksum(text, stated) == stated) return;
  throw bad_input(where, "checksum", "does not hold: the file was changed or cut off", "");
}

}  // namespace noisemark::reports
