#include "suite/config/lock.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/json.h"
#include "reports/base/sha256.h"
#include "suite/config/catalogue.h"
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

/// Returns no text when nothing of the section is part of the form.
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

namespace {

struct HashField {
  const char* key;
  std::string LockEntry::*member;
  const char* words;  ///< the part that a user changed
};

constexpr std::array<HashField, 7> kHashes{{
    {"definition_sha256", &LockEntry::definition_sha256, "the definition"},
    {"data_sha256", &LockEntry::data_sha256, "the data"},
    {"test_data_sha256", &LockEntry::test_data_sha256, "the data of the evaluation"},
    {"parameters_sha256", &LockEntry::parameters_sha256, "the model's parameter names or shapes"},
    {"schedule_sha256", &LockEntry::schedule_sha256, "the noise schedule"},
    {"order_sha256", &LockEntry::order_sha256, "the order of the data"},
    {"judging_sha256", &LockEntry::judging_sha256, "the warm-up rule or a margin"},
}};

struct NumbersField {
  const char* key;
  std::vector<double> LockEntry::*member;
  const char* words;      ///< name of the list
  const char* unit;       ///< unit of its length: "steps"
  const char* depend_on;  ///< parts that a user may have changed if a number differs
  std::string (*name)(size_t index);
};

constexpr std::array<NumbersField, 2> kNumbers{{
    {"losses", &LockEntry::losses, "the loss trace", "steps",
     "the model, the diffusion process or the optimizer",
     [](size_t step) { return fmt::format("loss of step {}", step); }},
    {"evaluation", &LockEntry::evaluation, "the evaluation", "figures",
     "the evaluation, its data, its noise or the model",
     [](size_t index) { return std::string(kEvaluated.at(index)); }},
}};

std::vector<double> parse_numbers(const nlohmann::json& json, const std::string& file,
                                  const std::string& name, const char* key) {
  const auto numbers = json.find(key);
  const auto is_number = [](const nlohmann::json& value) { return value.is_number(); };
  if (numbers == json.end() || !numbers->is_array() || numbers->empty() ||
      !std::all_of(numbers->begin(), numbers->end(), is_number)) {
    throw bad_input(file, fmt::format("{}.{}", name, key),
                    numbers == json.end() ? "missing" : numbers->dump(), "a list of numbers");
  }
  return numbers->get<std::vector<double>>();
}

LockEntry parse_entry(const nlohmann::json& json, const std::string& file,
                      const std::string& name) {
  if (!json.is_object() || json.size() != kHashes.size() + kNumbers.size()) {
    throw bad_input(file, name, json.dump(), "an object of seven hashes, losses and evaluation");
  }
  LockEntry entry;
  for (const HashField& field : kHashes) {
    const auto value = json.find(field.key);
    if (value == json.end() || !value->is_string() ||
        !reports::is_sha256(value->get<std::string>())) {
      throw bad_input(file, fmt::format("{}.{}", name, field.key),
                      value == json.end() ? "missing" : value->dump(), "a SHA-256");
    }
    entry.*field.member = value->get<std::string>();
  }
  for (const NumbersField& field : kNumbers) {
    entry.*field.member = parse_numbers(json, file, name, field.key);
  }
  return entry;
}

std::string name_of(const Definition& definition) {
  return definition.id + "@" + definition.scale;
}

bool agree(double a, double b) {
  return std::abs(a - b) <= kLossTolerance * std::max(std::abs(a), std::abs(b));
}

/// Describes what changed in a list of numbers; empty: nothing.
std::string numbers_difference(const NumbersField& field, const LockEntry& locked,
                               const LockEntry& found) {
  const std::vector<double>& before = locked.*field.member;
  const std::vector<double>& now = found.*field.member;
  if (before.size() != now.size()) {
    return fmt::format("{} changed: {} {}, locked are {}", field.words, now.size(), field.unit,
                       before.size());
  }
  for (size_t i = 0; i < now.size(); ++i) {
    if (agree(before[i], now[i])) continue;
    return fmt::format("{} changed: {} is {}, locked is {} (tolerance {} relative)",
                       field.depend_on, field.name(i), number_text(now[i]), number_text(before[i]),
                       kLossTolerance);
  }
  return "";
}

}  // namespace

Lock parse_lock(std::string_view text, const std::string& file) {
  const auto json =
      nlohmann::json::parse(text, reports::RefuseDoubles<nlohmann::json>(file), false);
  if (!json.is_object()) throw bad_input(file, "", "not a JSON object", "entries by benchmark");
  Lock lock;
  for (const auto& [name, entry] : json.items()) lock[name] = parse_entry(entry, file, name);
  return lock;
}

std::string lock_json(const Lock& lock) {
  std::vector<std::string> entries;
  for (const auto& [name, entry] : lock) {
    std::vector<std::string> fields;
    for (const HashField& field : kHashes) {
      fields.push_back(fmt::format("    \"{}\": \"{}\"", field.key, entry.*field.member));
    }
    for (const NumbersField& field : kNumbers) {
      std::vector<std::string> numbers;
      for (const double number : entry.*field.member) numbers.push_back(number_text(number));
      fields.push_back(fmt::format("    \"{}\": [{}]", field.key, fmt::join(numbers, ", ")));
    }
    entries.push_back(fmt::format("  \"{}\": {{\n{}\n  }}", name, fmt::join(fields, ",\n")));
  }
  return fmt::format("{{\n{}\n}}\n", fmt::join(entries, ",\n"));
}

std::vector<std::string> lock_differences(const LockEntry& locked, const LockEntry& found) {
  std::vector<std::string> words;
  for (const HashField& field : kHashes) {
    if (locked.*field.member == found.*field.member) continue;
    words.push_back(fmt::format("{} changed: {} is {}, locked is {}", field.words, field.key,
                                found.*field.member, locked.*field.member));
  }
  for (const NumbersField& field : kNumbers) {
    words.push_back(numbers_difference(field, locked, found));
  }
  std::erase(words, "");
  return words;
}

const Lock& shipped_lock() {
  static const Lock kLock = parse_lock(lock_text(), "suite/benchmarks/v1/LOCK");
  return kLock;
}

bool is_locked(const Lock& lock, const Definition& definition) {
  const auto locked = lock.find(name_of(definition));
  return locked != lock.end() && locked->second.definition_sha256 == definition_sha256(definition);
}

std::string locked_name_of(const std::string& definition_sha256) {
  for (const auto& [name, entry] : shipped_lock()) {
    if (entry.definition_sha256 == definition_sha256) return name;
  }
  return "";
}

void hold_to_lock(const Lock& lock, Definition& definition) {
  if (is_locked(lock, definition)) return;
  definition.unlocked = true;
  definition.custom = true;
}

std::string unlocked_words(const Definition& definition) {
  return "not the locked definition of " + name_of(definition);
}

}  // namespace noisemark::suite
