#include "suite/config/lock.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/config/canonical.h"
#include "suite/config/catalogue.h"
#include "suite/config/keys.h"

namespace noisemark::suite {
namespace {

struct HashField {
  const char* key;
  std::string LockEntry::*member;
  const char* words;  ///< what a user changed
};

constexpr std::array<HashField, 6> kHashes{{
    {"definition_sha256", &LockEntry::definition_sha256, "the definition"},
    {"data_sha256", &LockEntry::data_sha256, "the data"},
    {"parameters_sha256", &LockEntry::parameters_sha256, "the model's parameter names or shapes"},
    {"schedule_sha256", &LockEntry::schedule_sha256, "the noise schedule"},
    {"order_sha256", &LockEntry::order_sha256, "the order of the data"},
    {"judging_sha256", &LockEntry::judging_sha256, "the warm-up rule or a margin"},
}};
constexpr const char* kLosses = "losses";

LockEntry parse_entry(const nlohmann::json& json, const std::string& file,
                      const std::string& name) {
  if (!json.is_object() || json.size() != kHashes.size() + 1) {
    throw bad_input(file, name, json.dump(), "an object of six hashes and losses");
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
  const auto losses = json.find(kLosses);
  const auto is_number = [](const nlohmann::json& value) { return value.is_number(); };
  if (losses == json.end() || !losses->is_array() || losses->empty() ||
      !std::all_of(losses->begin(), losses->end(), is_number)) {
    throw bad_input(file, fmt::format("{}.{}", name, kLosses),
                    losses == json.end() ? "missing" : losses->dump(), "a list of numbers");
  }
  entry.losses = losses->get<std::vector<double>>();
  return entry;
}

std::string name_of(const Definition& definition) {
  return definition.id + "@" + definition.scale;
}

bool agree(double a, double b) {
  return std::abs(a - b) <= kLossTolerance * std::max(std::abs(a), std::abs(b));
}

}  // namespace

Lock parse_lock(std::string_view text, const std::string& file) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
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
    std::vector<std::string> losses;
    for (const double loss : entry.losses) losses.push_back(number_text(loss));
    fields.push_back(fmt::format("    \"{}\": [{}]", kLosses, fmt::join(losses, ", ")));
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
  if (locked.losses.size() != found.losses.size()) {
    words.push_back(fmt::format("the loss trace changed: {} steps, locked are {}",
                                found.losses.size(), locked.losses.size()));
    return words;
  }
  for (size_t step = 0; step < found.losses.size(); ++step) {
    if (agree(locked.losses[step], found.losses[step])) continue;
    words.push_back(fmt::format(
        "the model, the diffusion process or the optimizer changed: loss of step {} is {}, locked "
        "is {} (tolerance {} relative)",
        step, number_text(found.losses[step]), number_text(locked.losses[step]), kLossTolerance));
    break;
  }
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

void hold_to_lock(const Lock& lock, Definition& definition) {
  if (is_locked(lock, definition)) return;
  definition.unlocked = true;
  definition.custom = true;
}

std::string unlocked_words(const Definition& definition) {
  return "not the locked definition of " + name_of(definition);
}

}  // namespace noisemark::suite
