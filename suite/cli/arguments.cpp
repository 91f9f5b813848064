#include "suite/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>
#include <type_traits>
#include <variant>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "suite/config/toml_reader.h"

namespace noisemark::suite {
namespace {

namespace po = boost::program_options;
using Texts = std::vector<std::string>;
/// The values of each option that was given, by its name; a switch has none.
using Given = std::map<std::string, Texts, std::less<>>;

constexpr const char* kPositional = "arguments";
constexpr std::string_view kFlags = "flags";

po::options_description describe(const std::vector<BoundOption>& options) {
  po::options_description description;
  description.add_options()("help,h", "");
  for (const BoundOption& bound : options) {
    const std::string name(bound.option->name);
    if (bound.option->value.empty()) {
      description.add_options()(name.c_str(), "");
    } else {
      description.add_options()(name.c_str(), po::value<Texts>());
    }
  }
  description.add_options()(kPositional, po::value<Texts>());
  return description;
}

/// Names the other commands that have it: "an option of run, sweep".
std::string found_elsewhere(const std::string& typed) {
  Texts others;
  for (const Command& command : commands()) {
    Options unused;
    for (const BoundOption& bound : options_of(command.bit, unused)) {
      if (typed == fmt::format("--{}", bound.option->name)) others.emplace_back(command.name);
    }
  }
  return others.empty() ? "unknown option"
                        : fmt::format("an option of {}", fmt::join(others, ", "));
}

Error unknown_option(std::string_view command, const std::vector<BoundOption>& options,
                     const std::string& typed) {
  Texts valid;
  for (const BoundOption& bound : options) valid.push_back(fmt::format("--{}", bound.option->name));
  valid.emplace_back("--help");
  return bad_input(std::string(command), typed, found_elsewhere(typed),
                   reports::accepted_names(typed, valid));
}

po::variables_map parse(std::string_view command, const std::vector<BoundOption>& options,
                        const Texts& words) {
  const auto description = describe(options);
  po::positional_options_description positional;
  positional.add(kPositional, -1);
  // No guessing: a prefix that works today would become ambiguous with the next option.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(words)
                  .options(description)
                  .positional(positional)
                  .style(style)
                  .run(),
              values);
  } catch (const po::unknown_option& error) {
    throw unknown_option(command, options, error.get_option_name());
  } catch (const po::error& error) {
    throw bad_input(std::string(command), error.what(), "",
                    fmt::format("see noisemark help {}", command));
  }
  return values;
}

/// Collects what was given, not yet checked; words that are no option go to `positional`.
Given given_of(const po::variables_map& values, Texts& positional) {
  Given given;
  for (const auto& [name, value] : values) {
    const auto* texts = boost::any_cast<Texts>(&value.value());
    if (name == kPositional) {
      positional = *texts;
    } else {
      given[name] = texts == nullptr ? Texts{} : *texts;
    }
  }
  return given;
}

std::string accepted_count(int arguments) {
  if (arguments == 0) return "no argument";
  return arguments == 1 ? "one argument" : std::to_string(arguments) + " arguments";
}

void check_counts(const Command& command, const Texts& positional) {
  const auto given = static_cast<int>(positional.size());
  if (given < command.min_arguments) {
    throw bad_input(std::string(command.name), "",
                    given == 0 ? "nothing given" : "too few arguments",
                    std::string(command.arguments));
  }
  if (command.max_arguments >= 0 && given > command.max_arguments) {
    throw bad_input(std::string(command.name), "",
                    positional[static_cast<size_t>(command.max_arguments)],
                    accepted_count(command.max_arguments));
  }
  if (std::find(positional.begin(), positional.end(), "") != positional.end()) {
    throw bad_input(std::string(command.name), "", "an empty argument",
                    std::string(command.arguments));
  }
}

void check_values(std::string_view command, const Option& option, const Texts& values) {
  const std::string where(command);
  const std::string flag = fmt::format("--{}", option.name);
  if (!option.repeatable && values.size() > 1) {
    throw bad_input(where, flag, "given more than once", "once");
  }
  for (const std::string& value : values) {
    if (value.empty()) throw bad_input(where, flag, "empty", std::string(option.value));
  }
}

/// Checks the whole line before it reads any value.
void assign(const Command& command, const Given& given, CommandLine& line) {
  const std::vector<BoundOption> options = options_of(command.bit, line.options);
  for (const BoundOption& bound : options) {
    const auto found = given.find(bound.option->name);
    if (found != given.end()) check_values(command.name, *bound.option, found->second);
  }
  check_counts(command, line.positional);
  for (const BoundOption& bound : options) {
    const auto found = given.find(bound.option->name);
    if (found == given.end()) continue;
    for (const std::string& value : found->second) {
      require_choice(command.name, *bound.option, value);
    }
    assign_option(bound, found->second);
    line.given.emplace_back(bound.option->name);
  }
}

CommandLine read(const Command& command, const Texts& words) {
  CommandLine line;
  line.command = command.name;
  const Given given =
      given_of(parse(command.name, options_of(command.bit, line.options), words), line.positional);
  line.help = given.contains("help");
  if (!line.help) assign(command, given, line);
  return line;
}

const Option& option_named(const std::vector<BoundOption>& options, const TomlEntry& entry) {
  Texts valid;
  for (const BoundOption& bound : options) {
    if (bound.option->name == kFlags) continue;
    if (bound.option->name == entry.name) return *bound.option;
    valid.emplace_back(bound.option->name);
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

std::string accepted_by(const Option& option) {
  if (option.value.empty()) return "true or false";
  return fmt::format("{}{}", option.value, option.repeatable ? ", or a list of them" : "");
}

/// The words that would have been typed for an entry of the file.
Texts words_of(const Option& option, const TomlEntry& entry) {
  const auto refuse = [&] {
    return bad_input(entry.place, entry.name, value_text(entry.value), accepted_by(option));
  };
  const auto with_value = [&](const auto& value) {
    return fmt::format("--{}={}", option.name, text_of(value));
  };
  return std::visit(
      [&](const auto& value) -> Texts {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          if (!option.value.empty()) throw refuse();
          return value ? Texts{fmt::format("--{}", option.name)} : Texts{};
        } else if constexpr (std::is_same_v<T, Texts> || std::is_same_v<T, std::vector<int64_t>>) {
          if (!option.repeatable) throw refuse();
          Texts words;
          for (const auto& item : value) words.push_back(with_value(item));
          return words;
        } else {
          if (option.value.empty()) throw refuse();
          return {with_value(value)};
        }
      },
      entry.value);
}

/// Names the line of the file where nobody typed what is wrong.
void require_readable(const Command& command, Texts words, const Texts& more,
                      const std::string& place) {
  words.insert(words.end(), more.begin(), more.end());
  try {
    (void)read(command, words);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", place, error.what()));
  }
}

Texts without_the_file(const Texts& words) {
  const std::string option = fmt::format("--{}", kFlags);
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

bool CommandLine::has(std::string_view option) const {
  return std::find(given.begin(), given.end(), option) != given.end();
}

CommandLine read_command_line(const Command& command, const Texts& words, const Texts& argv) {
  CommandLine line = read(command, words);
  line.argv = argv;
  if (line.options.flags.empty()) return line;
  std::map<std::string, std::string> places;
  Texts said = with_flag_file(command, words, places);
  const std::string file = line.options.flags;
  line = read(command, said);
  line.options.flags = file;
  line.places = std::move(places);
  said.insert(said.begin(), {argv.empty() ? "noisemark" : argv.front(), std::string(command.name)});
  line.argv = std::move(said);
  return line;
}

std::string place_of_option(const CommandLine& line, std::string_view refusal) {
  for (const auto& [option, place] : line.places) {
    const std::string flag = "--" + option;
    if (refusal.starts_with(flag + ":") || refusal.starts_with(flag + " ")) return place;
  }
  return "";
}

Texts with_flag_file(const Command& command, const Texts& words,
                     std::map<std::string, std::string>& places) {
  const CommandLine typed = read(command, words);
  const std::string& file = typed.options.flags;
  if (file.empty()) return words;
  Options unused;
  const std::vector<BoundOption> options = options_of(command.bit, unused);
  Texts all = without_the_file(words);
  for (const TomlEntry& entry : read_flat_toml(reports::read_file(file), file)) {
    const Texts more = words_of(option_named(options, entry), entry);
    if (typed.has(entry.name)) continue;
    require_readable(command, typed.positional, more, entry.place);
    all.insert(all.end(), more.begin(), more.end());
    places[entry.name] = entry.place;
  }
  return all;
}

}  // namespace noisemark::suite
