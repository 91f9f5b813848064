#include "suite/cli/flag_file.h"

#include <fmt/format.h>

#include <type_traits>
#include <variant>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/nearest.h"
#include "suite/config/flat_toml.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

constexpr std::string_view kFlag = "flags";

const Flag& flag_of(const Command& command, const TomlEntry& entry) {
  Texts valid;
  for (const Flag& flag : command.flags) {
    if (flag.name == kFlag) continue;
    if (flag.name == entry.name) return flag;
    valid.emplace_back(flag.name);
  }
  throw bad_input(entry.name_place, entry.name, "unknown option",
                  reports::accepted_names(entry.name, valid));
}

std::string text_of(const std::string& value) {
  return value;
}
std::string text_of(int64_t value) {
  return std::to_string(value);
}
std::string text_of(double value) {
  return number_text(value);
}

std::string accepted_by(const Flag& flag) {
  if (flag.value.empty()) return "true or false";
  return fmt::format("{}{}", flag.value, flag.repeatable ? ", or a list of them" : "");
}

/// What would have been typed.
Texts words_of(const Flag& flag, const TomlEntry& entry) {
  const auto refuse = [&] {
    return bad_input(entry.place, entry.name, value_text(entry.value), accepted_by(flag));
  };
  const auto with_value = [&](const auto& value) {
    return fmt::format("--{}={}", flag.name, text_of(value));
  };
  return std::visit(
      [&](const auto& value) -> Texts {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          if (!flag.value.empty()) throw refuse();
          return value ? Texts{fmt::format("--{}", flag.name)} : Texts{};
        } else if constexpr (std::is_same_v<T, Texts> || std::is_same_v<T, std::vector<int64_t>>) {
          if (!flag.repeatable) throw refuse();
          Texts words;
          for (const auto& item : value) words.push_back(with_value(item));
          return words;
        } else {
          if (flag.value.empty()) throw refuse();
          return {with_value(value)};
        }
      },
      entry.value);
}

Texts without_the_file(const Texts& words) {
  const std::string option = fmt::format("--{}", kFlag);
  Texts rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option) {
      ++i;
    } else if (!words[i].starts_with(option + "=")) {
      rest.push_back(words[i]);
    }
  }
  return rest;
}

}  // namespace

Texts with_flag_file(const Command& command, const Texts& words, const Arguments& typed) {
  if (!typed.has(std::string(kFlag))) return words;
  const std::string file = typed.text(std::string(kFlag));
  Texts all = without_the_file(words);
  for (const TomlEntry& entry : read_flat_toml(reports::read_file(file), file)) {
    const Flag& flag = flag_of(command, entry);
    const Texts more = words_of(flag, entry);
    if (!typed.has(entry.name)) all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace noisemark::suite
