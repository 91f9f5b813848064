#include "reports/base/sealed_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/json.h"
#include "reports/base/sha256.h"

namespace noisemark::reports {
namespace {

constexpr size_t kShownCharacters = 60;

std::string shown(const OrderedJson& json) {
  std::string text = json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + "...";
  return text;
}

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

std::string below(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

}  // namespace

JsonFields::JsonFields(const OrderedJson& json, std::string where, std::string path)
    : json_(&json), where_(std::move(where)), path_(std::move(path)) {
  if (!json.is_object()) throw bad_input(where_, path_, shown(json), "an object");
}

std::string JsonFields::path_of(const std::string& key) const {
  return below(path_, key);
}

Error JsonFields::refusal(const std::string& key, const std::string& accepted) const {
  const auto found = json_->find(key);
  return bad_input(where_, path_of(key), found == json_->end() ? "missing" : shown(*found),
                   accepted);
}

const OrderedJson& JsonFields::at(const std::string& key, const std::string& accepted) const {
  const auto found = json_->find(key);
  if (found == json_->end()) throw refusal(key, accepted);
  return *found;
}

double JsonFields::number(const std::string& key) const {
  const OrderedJson& value = at(key, "a number");
  if (!value.is_number() || !std::isfinite(value.get<double>())) throw refusal(key, "a number");
  return value.get<double>();
}

int64_t JsonFields::count(const std::string& key) const {
  constexpr const char* kAccepted = "an integer of at least 0";
  const OrderedJson& value = at(key, kAccepted);
  if (!value.is_number_integer() || value.get<int64_t>() < 0) throw refusal(key, kAccepted);
  return value.get<int64_t>();
}

bool JsonFields::flag(const std::string& key) const {
  const OrderedJson& value = at(key, "true or false");
  if (!value.is_boolean()) throw refusal(key, "true or false");
  return value.get<bool>();
}

std::string JsonFields::text(const std::string& key) const {
  const OrderedJson& value = at(key, "a text");
  if (!value.is_string()) throw refusal(key, "a text");
  return value.get<std::string>();
}

std::map<std::string, std::string> JsonFields::strings(const std::string& key) const {
  const JsonFields fields = object(key);
  std::map<std::string, std::string> all;
  for (const auto& item : fields.json_->items()) all[item.key()] = fields.text(item.key());
  return all;
}

std::vector<double> JsonFields::numbers(const std::string& key) const {
  constexpr const char* kAccepted = "a list of finite numbers";
  const OrderedJson& list = at(key, kAccepted);
  if (!list.is_array()) throw refusal(key, kAccepted);
  std::vector<double> all;
  for (const OrderedJson& value : list) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) throw refusal(key, kAccepted);
    all.push_back(value.get<double>());
  }
  return all;
}

JsonFields JsonFields::object(const std::string& key) const {
  return {at(key, "an object"), where_, path_of(key)};
}

OrderedJson parse_json(std::string_view text, const std::string& where) {
  require_shallow(text, where);
  try {
    return OrderedJson::parse(text, RefuseDoubles<OrderedJson>(where));
  } catch (const nlohmann::json::exception&) {
    throw bad_input(where, "not JSON", json_fault(text), "");
  }
}

std::string sealed_json(const json::Document& document, const OrderedJson& body) {
  const std::string zeros(64, '0');
  OrderedJson json = {{"schema", {{"name", document.name}, {"version", document.version}}},
                      {"checksum", zeros}};
  json.update(body);
  std::string text;
  print(json, 0, text);
  text += '\n';
  // The first: a schema's name and version come before it and hold no zeros.
  text.replace(text.find(zeros), zeros.size(), sha256_of(text));
  return text;
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

OrderedJson unseal_json(std::string_view text, const json::Document& document,
                        const std::string& where) {
  OrderedJson json = parse_json(text, where);
  const JsonFields fields(json, where);
  const JsonFields found = fields.object("schema");
  if (found.text("name") != document.name) {
    throw found.refusal("name", std::string(document.name));
  }
  if (found.text("version") != document.version) {
    throw found.refusal("version", std::string(document.version));
  }
  const std::string stated = fields.text("checksum");
  if (!is_sha256(stated) || expected_checksum(text, stated) != stated) {
    throw bad_input(where, "checksum", "does not hold: the file was changed or cut off", "");
  }
  return json;
}

}  // namespace noisemark::reports
