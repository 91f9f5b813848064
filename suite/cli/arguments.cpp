#include "suite/cli/arguments.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>

#include "reports/error.h"
#include "reports/nearest.h"

namespace noisemark::suite {
namespace {

namespace po = boost::program_options;
using Texts = std::vector<std::string>;

constexpr const char* kPositional = "arguments";

std::string place_of(const Command& command) {
  return std::string(command.name);
}

po::options_description describe(const Command& command) {
  po::options_description description;
  description.add_options()("help,h", "");
  for (const Flag& flag : command.flags) {
    const std::string name(flag.name);
    if (flag.value.empty()) {
      description.add_options()(name.c_str(), "");
    } else {
      description.add_options()(name.c_str(), po::value<Texts>());
    }
  }
  description.add_options()(kPositional, po::value<Texts>());
  return description;
}

Error unknown_flag(const Command& command, const std::string& flag) {
  Texts valid;
  for (const Flag& known : command.flags) valid.push_back(fmt::format("--{}", known.name));
  valid.emplace_back("--help");
  return bad_input(place_of(command), flag, "unknown option", reports::accepted_names(flag, valid));
}

po::variables_map parse(const Command& command, const Texts& words) {
  const auto description = describe(command);
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
    throw unknown_flag(command, error.get_option_name());
  } catch (const po::error& error) {
    throw bad_input(place_of(command), error.what(), "",
                    "see noisemark help " + std::string(command.name));
  }
  return values;
}

std::string accepted_count(int arguments) {
  if (arguments == 0) return "no argument";
  return arguments == 1 ? "one argument" : std::to_string(arguments) + " arguments";
}

void check_counts(const Command& command, const Texts& positional) {
  const auto given = static_cast<int>(positional.size());
  if (given < command.min_arguments) {
    throw bad_input(place_of(command), "", given == 0 ? "nothing given" : "too few arguments",
                    std::string(command.arguments));
  }
  if (command.max_arguments >= 0 && given > command.max_arguments) {
    throw bad_input(place_of(command), "", positional[static_cast<size_t>(command.max_arguments)],
                    accepted_count(command.max_arguments));
  }
}

}  // namespace

Arguments::Arguments(const Command& command, const Texts& words) {
  const po::variables_map values = parse(command, words);
  for (const auto& [name, value] : values) {
    const auto* texts = boost::any_cast<Texts>(&value.value());
    if (name == kPositional) {
      positional_ = *texts;
    } else {
      flags_[name] = texts == nullptr ? Texts{} : *texts;
    }
  }
  if (wants_help()) return;
  for (const Flag& flag : command.flags) {
    const Texts given = this->texts(std::string(flag.name));
    if (!flag.repeatable && given.size() > 1) {
      throw bad_input(place_of(command), fmt::format("--{}", flag.name), "given more than once",
                      "once");
    }
    for (const std::string& text : given) {
      if (text.empty()) {
        throw bad_input(place_of(command), fmt::format("--{}", flag.name), "empty",
                        std::string(flag.value));
      }
    }
  }
  check_counts(command, positional_);
}

bool Arguments::has(const std::string& flag) const {
  return flags_.contains(flag);
}

std::string Arguments::text(const std::string& flag) const {
  const Texts all = texts(flag);
  return all.empty() ? "" : all.front();
}

Texts Arguments::texts(const std::string& flag) const {
  const auto found = flags_.find(flag);
  return found == flags_.end() ? Texts{} : found->second;
}

std::optional<int64_t> Arguments::integer(const std::string& flag, int64_t minimum) const {
  if (!has(flag)) return std::nullopt;
  const std::string given = text(flag);
  int64_t value = 0;
  const char* end = given.data() + given.size();
  const auto [stop, error] = std::from_chars(given.data(), end, value);
  if (error != std::errc{} || stop != end || value < minimum) {
    throw bad_input(fmt::format("--{}", flag), "", given,
                    fmt::format("an integer of at least {}", minimum));
  }
  return value;
}

std::optional<double> Arguments::number(const std::string& flag, double minimum) const {
  if (!has(flag)) return std::nullopt;
  const std::string given = text(flag);
  double value = 0;
  const char* end = given.data() + given.size();
  const auto [stop, error] = std::from_chars(given.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value) || value < minimum) {
    throw bad_input(fmt::format("--{}", flag), "", given,
                    fmt::format("a number of at least {}", minimum));
  }
  return value;
}

}  // namespace noisemark::suite
