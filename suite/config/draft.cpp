#include "suite/config/draft.h"

#include <charconv>
#include <optional>
#include <type_traits>

#include "reports/error.h"
#include "reports/nearest.h"

namespace noisemark::suite {
namespace {

const std::string kSet = "--set";

// Keys that are no part of a definition, and the flag that changes them.
struct Elsewhere {
  std::string_view key;
  std::string_view flag;
};
constexpr Elsewhere kElsewhere[] = {
    {"mode", "--mode"},
    {"baseline", "--baseline"},
    {"precision", "--precision"},
    {"device", "--device"},
    {"threads", "--threads"},
    {"seed", "--seed"},
    {"benchmark.seed", "--seed"},
    {"benchmark.modes", "--mode"},
    {"out", "--out"},
    {"output", "--out"},
    {"data", "--data"},
    {"data.dir", "--data"},
    {"data.folder", "--data"},
    {"deterministic", "--deterministic"},
};

std::vector<std::string> settable_paths(std::string_view section) {
  std::vector<std::string> paths;
  for (const Key& key : keys()) {
    if (section.empty() || key.section == section) paths.push_back(key_path(key));
  }
  return paths;
}

// "steps" -> "train.steps" when only one key ends so.
std::optional<std::string> with_section(std::string_view name) {
  std::optional<std::string> found;
  for (const Key& key : keys()) {
    if (key.name != name) continue;
    if (found) return std::nullopt;
    found = key_path(key);
  }
  return found;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

std::vector<std::string> split_list(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    items.emplace_back(item);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

std::optional<Value> parse_integers(std::string_view text) {
  std::vector<int64_t> values;
  for (const std::string& item : split_list(text)) {
    const auto value = parse_number<int64_t>(item);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// A command line has no types: the key decides how the text is read.
std::optional<Value> parse_value(const Key& key, std::string_view text) {
  const std::string_view type = type_text(key);
  if (type == "string") return Value(std::string(text));
  if (type == "integer") {
    const auto value = parse_number<int64_t>(text);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (type == "number") {
    const auto value = parse_number<double>(text);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (type == "switch") {
    if (text == "true") return Value(true);
    if (text == "false") return Value(false);
    return std::nullopt;
  }
  return parse_integers(text);
}

const Key& settable_key(const std::string& path) {
  for (const Elsewhere& elsewhere : kElsewhere) {
    if (elsewhere.key == path) {
      throw bad_input(kSet, path, "not part of a definition", "use " + std::string(elsewhere.flag));
    }
  }
  if (path.starts_with("gate.") || path.starts_with("scale.")) {
    throw bad_input(kSet, path, "locked", "gates and scales belong to the definition file");
  }
  const Key* key = find_key(path);
  if (key == nullptr) throw_unknown_key(kSet, path);
  if (key->standing != Standing::kLocked) {
    throw bad_input(kSet, path, "locked", "names a benchmark; write a definition file of your own");
  }
  return *key;
}

}  // namespace

std::string Draft::place(std::string_view path) const {
  const auto found = places.find(path);
  return found == places.end() ? definition.source : found->second;
}

void throw_unknown_key(const std::string& where, std::string_view path) {
  std::string accepted;
  if (const auto complete = with_section(path)) {
    accepted = "nearest: " + *complete;
  } else if (const auto near = reports::nearest(path, settable_paths(""))) {
    accepted = "nearest: " + *near;
  } else {
    const std::string_view section = path.substr(0, path.find('.'));
    for (const std::string& valid : settable_paths(section)) {
      accepted += (accepted.empty() ? "one of: " : ", ") + valid;
    }
    if (accepted.empty()) accepted = reports::accepted_names(section, sections());
  }
  throw bad_input(where, std::string(path), "unknown key", accepted);
}

void require_applies(const Key& key, const std::string& where, const Definition& definition) {
  if (applies(key, definition)) return;
  const Key* other = find_key(key.condition.key);
  throw bad_input(where, key_path(key), "does not apply",
                  condition_text(key) + ", here it is " + value_text(*other, definition));
}

void apply_override(const std::string& assignment, Draft& draft) {
  const size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  if (equals == std::string::npos) throw bad_input(kSet, path, "no value", "key=value");
  const Key& key = settable_key(path);
  const std::string text = assignment.substr(equals + 1);
  const std::optional<Value> value = parse_value(key, text);
  if (!value) throw bad_input(kSet, path, text.empty() ? "nothing" : text, accepted_text(key));
  assign(key, *value, kSet, draft.definition);
  draft.places[path] = kSet;
  draft.definition.overrides.push_back(assignment);
}

void finish_overrides(const Draft& draft) {
  for (const Key& key : keys()) {
    if (draft.place(key_path(key)) == kSet) require_applies(key, kSet, draft.definition);
  }
}

}  // namespace noisemark::suite
