#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "suite/config/lock.h"

/// The table of commands and the functions behind it. Each group of functions has a source of its
/// own: {run,ab,result,fid,machine}_commands.cpp.
namespace noisemark::suite {

struct CommandLine;

/// A command's text and exit code.
struct Answer {
  std::string text;
  ExitCode code = ExitCode::kPass;
  std::string warning = {};  ///< text for standard error, whatever the format; empty: none
};

struct Command {
  std::string_view name;
  uint32_t bit = 0;            ///< bit by which rows of the option table name it
  std::string_view arguments;  ///< arguments that are not options: "ID", "DIR..."
  int min_arguments = 0;
  int max_arguments = 0;     ///< -1: any number
  std::string_view summary;  ///< one line
  std::string_view details;  ///< a paragraph of the command's help
  Answer (*act)(const CommandLine& line);
  std::string (*more)() = nullptr;  ///< text after the details, made from a table; null: none
};

/// Every command, in the order that help shows them. With the option table (options.h) it is the
/// only text about the command line: `--help`, the parser and suite/cli/README.md are made from it.
[[nodiscard]] std::span<const Command> commands();

/// Throws Error (exit code 2) with the nearest command.
[[nodiscard]] const Command& find_command(std::string_view name);

[[nodiscard]] std::string overview_text();
[[nodiscard]] std::string help_text(const Command& command);
/// The generated part of suite/cli/README.md: the commands, each option once, the exit codes.
[[nodiscard]] std::string help_markdown();

/// Runs one command line without the program's name (`argv` as typed goes into results). Throws
/// Error; writes what was asked for to stdout.
[[nodiscard]] ExitCode run_command_line(const std::vector<std::string>& words,
                                        const std::vector<std::string>& argv);

// Commands that train or sample a benchmark (run_commands.cpp).

/// `noisemark run`: the result goes to files, and run() prints the verdict itself.
[[nodiscard]] Answer train(const CommandLine& line);

/// `noisemark sweep`: one benchmark at every combination of --axis. run_sweep() prints the table
/// itself.
[[nodiscard]] Answer sweep_settings(const CommandLine& line);

/// `noisemark plan`. Throws Error, exit code 2, for a budget that is no size or cannot be met; the
/// message then names the smallest that can.
[[nodiscard]] Answer plan_memory(const CommandLine& line);

/// `noisemark fit`: a table of modes with the largest batch that each trains within --memory. Ends
/// with exit code 1 when a mode does not even train the smallest.
[[nodiscard]] Answer fit_batches(const CommandLine& line);
[[nodiscard]] Answer predict_batches(const CommandLine& line);
[[nodiscard]] Answer profile_steps(const CommandLine& line);

/// `noisemark sample`. Throws Error as sampling_pass() does, and exit code 130 when it is
/// interrupted.
[[nodiscard]] Answer sample_images(const CommandLine& line);

/// `noisemark pace`: obeys lines on standard input, as pace() of suite/run says.
[[nodiscard]] Answer serve_steps(const CommandLine& line);

// Commands that compare builds, or this build with itself (ab_commands.cpp).

/// `noisemark ab`: two builds in turns, or a recorded comparison judged again (--from). Throws
/// Error for bad input, for a build that fails (suite/ab/build.h), and when an interrupt left too
/// little to judge.
[[nodiscard]] Answer compare_builds(const CommandLine& line);

/// `noisemark calibrate`: this program beside itself, unit by unit; goes on with what --out holds.
/// --from takes comparisons that were recorded earlier as the units. Ends with exit code 5 when
/// what it found allows no gate.
[[nodiscard]] Answer calibrate(const CommandLine& line);

// Commands that read results and train nothing (result_commands.cpp).

/// `noisemark check`: lists what is wrong with results. Ends with exit code 1 when anything is.
[[nodiscard]] Answer check_results(const CommandLine& line);

/// `noisemark table`: results side by side, as Markdown.
[[nodiscard]] Answer tabulate_results(const CommandLine& line);

/// `noisemark report`: renders the files of a folder again, or with --format says what is in the
/// results in that format. Throws Error (bad input, cannot write).
[[nodiscard]] Answer report_results(const CommandLine& line);

/// `noisemark compare`: the comparison in the format asked for, and the exit code of its verdict.
/// Throws Error (exit code 2) for bad input or an unknown word behind an option.
[[nodiscard]] Answer compare_results(const CommandLine& line);

/// `noisemark quality`: judges over seeds whether a mode costs quality, and has the verdict's exit
/// code. Throws Error (bad input, cannot write).
[[nodiscard]] Answer judge_seeds(const CommandLine& line);

/// `noisemark history`: results over time, and where they changed. Throws Error (bad input, cannot
/// write).
[[nodiscard]] Answer show_history(const CommandLine& line);

/// `noisemark trace`: where the time of a trace of kineto went. Throws Error (bad input, cannot
/// write).
[[nodiscard]] Answer show_trace(const CommandLine& line);

/// `noisemark baseline promote PATH...` and `baseline show PATH`. Throws Error (bad input, baseline
/// needed, cannot write).
[[nodiscard]] Answer keep_baseline(const CommandLine& line);

// The command that compares sets of images (fid_commands.cpp).

/// `noisemark fid`: the distance of the two sets as Markdown, or JSON; with --out the moments of
/// the first go to a file. The gate behind --min and --max is judged by the interval of features
/// drawn again (--bootstrap): its exit code is 0 where that lies within, 1 where it lies outside, 4
/// across an end of the range; with --bootstrap 0 by the value alone. `data` is the folder of a
/// dataset's files. Throws Error: exit code 2 for bad input and for a gate that cannot be decided
/// (too few samples, one set of which nobody says what made it, an interval of moments alone), 3
/// for features of different extractors, 74 when a file cannot be written, 77 when data or weights
/// are needed and not given.
[[nodiscard]] Answer measure_sets(const CommandLine& line);

// Commands that look at this machine and this build (machine_commands.cpp).

/// `noisemark env`: the hardware and software that a result would name.
[[nodiscard]] Answer show_environment(const CommandLine& line);

/// `noisemark doctor`: what a result cannot name here and why.
[[nodiscard]] Answer examine_machine(const CommandLine& line);

/// `noisemark selftest`: the table of trials and kPass, or kFailed when one is not as expected.
/// Throws Error (exit code 2) for bad input, and what run_self_test() throws.
[[nodiscard]] Answer test_itself(const CommandLine& line);

/// Lists what can be run, for people, and names what `lock` does not hold.
[[nodiscard]] std::string list_text(const Lock& lock = shipped_lock());
/// Lists the same for programs, with the resolved canonical definitions, their hashes and whether
/// `lock` holds them.
[[nodiscard]] std::string list_json(const Lock& lock = shipped_lock());
/// The documents that `list`, `env` and `doctor` print for programs.
[[nodiscard]] std::vector<reports::json::Published> printed_documents();

}  // namespace noisemark::suite
