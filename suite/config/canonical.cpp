#include "suite/config/canonical.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "reports/sha256.h"
#include "suite/config/keys.h"

namespace noisemark::suite {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string json_text(const std::string& value) {
  return json_string(value);
}
std::string json_text(int64_t value) {
  return std::to_string(value);
}
std::string json_text(uint64_t value) {
  return std::to_string(value);
}
std::string json_text(double value) {
  return number_text(value);
}
std::string json_text(bool value) {
  return value ? "true" : "false";
}
template <class T>
std::string json_text(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(json_text(value));
  return fmt::format("[{}]", fmt::join(items, ","));
}

bool is_left_out(const Key& key, const Definition& definition) {
  if (key.standing == Standing::kDisplay || !applies(key, definition)) return true;
  return key.later && value_text(key, definition) == value_text(key, Definition{});
}

/// Empty when nothing of the section is part of the form.
std::string section_json(const std::string& section, Definition& definition) {
  std::vector<std::string> items;
  for (const Key& key : keys()) {
    if (key.section != section || is_left_out(key, definition)) continue;
    const std::string value =
        std::visit([](const auto* member) { return json_text(*member); }, key.member(definition));
    items.push_back(fmt::format("\"{}\":{}", key.name, value));
  }
  if (section == "benchmark") items.push_back("\"scale\":" + json_string(definition.scale));
  if (items.empty()) return "";
  return fmt::format("\"{}\":{{{}}}", section, fmt::join(items, ","));
}

std::string gates_json(const Definition& definition) {
  std::vector<std::string> items;
  for (const GateConfig& gate : definition.gates) {
    const std::string precisions =
        gate.precisions.empty() ? "" : ",\"precisions\":" + json_text(gate.precisions);
    items.push_back(fmt::format(
        R"({}:{{"metric":{},"{}":{}{}}})", json_string(gate.name), json_string(gate.metric),
        gate.relation == "at most" ? "max" : "min", number_text(gate.bound), precisions));
  }
  return fmt::format("\"gate\":{{{}}}", fmt::join(items, ","));
}

}  // namespace

std::string canonical_json(const Definition& definition) {
  Definition copy = definition;
  std::vector<std::string> parts;
  for (const std::string& section : sections()) {
    std::string part = section_json(section, copy);
    if (!part.empty()) parts.push_back(std::move(part));
  }
  parts.push_back(gates_json(copy));
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

std::string definition_sha256(const Definition& definition) {
  return reports::sha256_of(canonical_json(definition));
}

}  // namespace noisemark::suite
