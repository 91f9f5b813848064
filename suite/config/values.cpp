// How the keys' values are written, described and checked.

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <type_traits>

#include "reports/error.h"
#include "reports/nearest.h"
#include "suite/config/keys.h"

namespace noisemark::suite {
namespace {

template <class T>
constexpr bool kIsList =
    std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<std::string>>;
template <class T>
constexpr bool kIsInteger = std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>;

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

// " from 1 to 64", " of at least 0", " above 0 and below 1" ...
std::string range_text(const Accepted& accepted, bool integral) {
  const auto text = [&](double bound) {
    return integral ? fmt::format("{}", static_cast<int64_t>(bound)) : number_text(bound);
  };
  const bool low = std::isfinite(accepted.min);
  const bool high = std::isfinite(accepted.max);
  if (low && high && !accepted.above_min && !accepted.below_max) {
    return fmt::format(" from {} to {}", text(accepted.min), text(accepted.max));
  }
  std::vector<std::string> parts;
  if (low) parts.push_back((accepted.above_min ? "above " : "of at least ") + text(accepted.min));
  if (high) parts.push_back((accepted.below_max ? "below " : "of at most ") + text(accepted.max));
  return fmt::format("{}{}", parts.empty() ? "" : " ", fmt::join(parts, " and "));
}

std::vector<std::string> choices_of(const Accepted& accepted) {
  std::vector<std::string> choices;
  for (const std::string_view choice : accepted.choices) {
    if (!choice.empty()) choices.emplace_back(choice);
  }
  return choices;
}

std::string choices_text(const Accepted& accepted) {
  std::vector<std::string> choices = choices_of(accepted);
  for (std::string& choice : choices) choice = in_quotes(choice);
  return fmt::format("{}", fmt::join(choices, ", "));
}

bool in_range(const Accepted& accepted, double value) {
  const bool low = accepted.above_min ? value > accepted.min : value >= accepted.min;
  const bool high = accepted.below_max ? value < accepted.max : value <= accepted.max;
  return low && high && std::isfinite(value);
}

bool acceptable(const Accepted& accepted, const std::string& value) {
  if (accepted.choices.front().empty()) return !value.empty();
  for (const std::string_view choice : accepted.choices) {
    if (!choice.empty() && choice == value) return true;
  }
  return false;
}

template <class T>
bool acceptable(const Accepted& accepted, const std::vector<T>& values) {
  if (static_cast<int64_t>(values.size()) < accepted.min_items) return false;
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!acceptable(accepted, value)) return false;
    } else if (!in_range(accepted, static_cast<double>(value))) {
      return false;
    }
  }
  return true;
}

// Stores `value` in `target` when it has the right type and is acceptable.
template <class T>
bool store(const Accepted& accepted, const Value& value, T& target) {
  if constexpr (std::is_same_v<T, double>) {
    const auto* integer = std::get_if<int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    if (integer == nullptr && real == nullptr) return false;
    const double number = real != nullptr ? *real : static_cast<double>(*integer);
    if (!in_range(accepted, number)) return false;
    target = number;
  } else if constexpr (kIsInteger<T>) {
    const auto* integer = std::get_if<int64_t>(&value);
    if (integer == nullptr || !in_range(accepted, static_cast<double>(*integer))) return false;
    target = static_cast<T>(*integer);
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return false;
    target = *flag;
  } else {
    const auto* given = std::get_if<T>(&value);
    // An empty list has no element type.
    const auto* empty = kIsList<T> ? std::get_if<std::vector<int64_t>>(&value) : nullptr;
    if (given == nullptr && (empty == nullptr || !empty->empty())) return false;
    const T wanted = given != nullptr ? *given : T{};
    if (!acceptable(accepted, wanted)) return false;
    target = wanted;
  }
  return true;
}

Member member_of(const Key& key, const Definition& definition) {
  return key.member(const_cast<Definition&>(definition));  // read only by the callers here
}

std::string text_of(const std::string& value) {
  return in_quotes(value);
}
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(double value) {
  return number_text(value);
}
std::string text_of(int64_t value) {
  return std::to_string(value);
}
std::string text_of(uint64_t value) {
  return std::to_string(value);
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(text_of(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// accepted_text(), after the choice that was most likely meant.
std::string accepted_instead_of(const Value& value, const Key& key) {
  const auto* given = std::get_if<std::string>(&value);
  const std::string accepted = accepted_text(key);
  if (given == nullptr) return accepted;
  const auto near = reports::nearest(*given, choices_of(key.accepted));
  return near ? "nearest " + in_quotes(*near) + "; " + accepted : accepted;
}

}  // namespace

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string value_text(const Value& value) {
  return std::visit([](const auto& v) { return text_of(v); }, value);
}

std::string value_text(const Key& key, const Definition& definition) {
  return std::visit([](const auto* v) { return text_of(*v); }, member_of(key, definition));
}

std::string_view type_text(const Key& key) {
  static constexpr std::string_view kNames[] = {
      "string", "integer", "integer", "number", "switch", "list of integers", "list of strings"};
  return kNames[member_of(key, Definition{}).index()];
}

std::string accepted_text(const Key& key) {
  const std::string_view type = type_text(key);
  const Accepted& accepted = key.accepted;
  const std::string some = accepted.min_items > 0 ? ", at least one" : "";
  if (type == "string") {
    return accepted.choices.front().empty() ? "a string that is not empty"
                                            : "one of: " + choices_text(accepted);
  }
  if (type == "integer") return "an integer" + range_text(accepted, true);
  if (type == "number") return "a number" + range_text(accepted, false);
  if (type == "switch") return "true or false";
  if (type == "list of strings") return "a list of strings" + some;
  return "a list of integers" + range_text(accepted, true) + some;
}

std::string condition_text(const Key& key) {
  if (key.condition.key.empty()) return "";
  std::vector<std::string> values;
  for (const std::string_view value : key.condition.values) {
    if (!value.empty()) values.push_back(value == "true" ? "true" : in_quotes(value));
  }
  return fmt::format("only when {} is {}", key.condition.key, fmt::join(values, " or "));
}

void assign(const Key& key, const Value& value, const std::string& where, Definition& definition) {
  const bool stored = std::visit([&](auto* target) { return store(key.accepted, value, *target); },
                                 key.member(definition));
  if (!stored) {
    throw bad_input(where, key_path(key), value_text(value), accepted_instead_of(value, key));
  }
}

std::string keys_markdown() {
  const Definition defaults;
  std::string text = "| key | accepted | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys()) {
    const std::string condition = condition_text(key);
    text += fmt::format("| `{}` | {} | {} | {}{}{} |\n", key_path(key), accepted_text(key),
                        key.required ? "required" : fmt::format("`{}`", value_text(key, defaults)),
                        key.help, condition.empty() ? "" : "; ", condition);
  }
  return text;
}

}  // namespace noisemark::suite
