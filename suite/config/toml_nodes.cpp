#include "suite/config/toml_nodes.h"

#include <sstream>
#include <utility>
#include <vector>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

template <class Element>
std::optional<Value> to_list(const toml::array& array) {
  std::vector<Element> values;
  for (const toml::node& node : array) {
    const auto value = node.value_exact<Element>();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return Value(std::move(values));
}

}  // namespace

std::string place_of(const std::string& file, const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
}

std::string found_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list of mixed or nested values";
  if (const auto string = node.value_exact<std::string>()) return value_text(Value(*string));
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) text << value;
  });
  return text.str();
}

std::optional<Value> to_value(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return Value(*text);
  if (const auto integer = node.value_exact<int64_t>()) return Value(*integer);
  if (const auto real = node.value_exact<double>()) return Value(*real);
  if (const auto flag = node.value_exact<bool>()) return Value(*flag);
  if (const toml::array* array = node.as_array()) {
    if (auto integers = to_list<int64_t>(*array)) return integers;
    return to_list<std::string>(*array);
  }
  return std::nullopt;
}

toml::table parse_toml(std::string_view text, const std::string& file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    throw bad_input(place_of(file, parsed.error().source()), "",
                    std::string(parsed.error().description()), "");
  }
  return std::move(parsed).table();
}

}  // namespace noisemark::suite
