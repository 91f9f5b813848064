// The real binary, as a user or a script meets it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "reports/base/sha256.h"
#include "suite/cli/arguments.h"
#include "suite/cli/commands.h"
#include "suite/config/catalogue.h"
#include "suite/environment/environment.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

using test::expect_bad_input;
using test::Finished;
using test::noisemark;

/// Returns what the same words print in this process: starting another takes longer than parsing.
std::string printed(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_command_line(words, words), ExitCode::kPass);
  return testing::internal::GetCapturedStdout();
}

/// The message of the error that the words are refused with, in this process.
std::string refusal(const std::vector<std::string>& words) {
  try {
    (void)run_command_line(words, words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(CommandLine, shows_an_overview) {
  for (const char* word : {"help", "--help", "-h"}) {
    const Finished result = noisemark({word});
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, overview_text());
    EXPECT_EQ(result.err, "");
  }
}

TEST(CommandLine, takes_the_command_that_the_sample_report_says_would_repeat_it) {
  std::istringstream text(reports::test::full_result().repeat_command);
  std::vector<std::string> words(std::istream_iterator<std::string>(text), {});
  ASSERT_EQ(words.front(), "noisemark");
  const Command& command = find_command(words.at(1));
  const CommandLine line = read_command_line(command, {words.begin() + 2, words.end()}, words);
  EXPECT_EQ(line.positional, std::vector<std::string>{"ho-cifar10@cpu"});
  EXPECT_EQ(line.options.run.seed, 7U);
  EXPECT_EQ(line.argv, words);
}

TEST(CommandLine, helps_with_every_command_in_both_ways) {
  for (const Command& command : commands()) {
    const std::string name(command.name);
    const std::string after = printed({name, "--help"});
    EXPECT_EQ(after, help_text(command));
    EXPECT_EQ(printed({"help", name}), help_text(command));
    Options defaults;
    for (const BoundOption& bound : options_of(command.bit, defaults)) {
      EXPECT_NE(after.find("--" + std::string(bound.option->name)), std::string::npos);
    }
  }
  const Finished run = noisemark({"run", "--help"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.out, help_text(find_command("run")));
  EXPECT_EQ(run.err, "");
}

TEST(CommandLine, no_line_of_help_is_wider_than_a_terminal_of_110_columns) {
  for (const Command& command : commands()) {
    std::istringstream text(help_text(command));
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 110U) << line;
  }
}

/// Lines of the overview that name a command.
std::vector<std::string> overview_rows() {
  std::vector<std::string> rows;
  std::istringstream text(overview_text());
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("  ") && !std::isdigit(static_cast<unsigned char>(line.at(2)))) {
      rows.push_back(line);
    }
  }
  return rows;
}

TEST(CommandLine, the_overview_has_two_columns) {
  const std::vector<std::string> rows = overview_rows();
  ASSERT_EQ(rows.size(), commands().size());
  const size_t column = rows.front().find(commands().front().summary);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].find("  " + std::string(commands()[i].summary)), column - 2) << rows[i];
    EXPECT_LE(rows[i].size(), 110U) << rows[i];
  }
}

TEST(CommandLine, says_what_an_id_may_be_wherever_one_is_asked_for) {
  for (const Command& command : commands()) {
    if (command.arguments.find("ID") == std::string_view::npos) continue;
    std::string text = help_text(command);
    std::replace(text.begin(), text.end(), '\n', ' ');
    EXPECT_NE(text.find("definition file (mine.toml)"), std::string::npos) << text;
  }
}

TEST(CommandLine, names_the_nearest_command_option_and_benchmark) {
  expect_bad_input(
      {"rnu", "gmm16"},
      "\"rnu\": unknown command (nearest \"run\"; one of: list, run, sweep, plan, fit, predict, "
      "profile, sample, check, report, compare, quality, ab, calibrate, table, history, trace, "
      "baseline, selftest, fid, env, doctor, pace, help)");
  const Finished option = noisemark({"run", "gmm16", "--mdoe", "none"});
  EXPECT_EQ(option.code, 2);
  EXPECT_EQ(option.err.find("noisemark: run: --mdoe: unknown option (nearest \"--mode\""), 0U)
      << option.err;
  const Finished benchmark = noisemark({"run", "gmm61", "--device", "cpu"});
  EXPECT_EQ(benchmark.code, 2);
  EXPECT_EQ(benchmark.err.find("noisemark: \"gmm61\": unknown benchmark or suite (nearest "
                               "\"gmm16\""),
            0U)
      << benchmark.err;
  const Finished mode = noisemark({"run", "gmm16", "--device", "cpu", "--mode", "nnoe"});
  EXPECT_EQ(mode.code, 2);
  EXPECT_NE(mode.err.find("none"), std::string::npos) << mode.err;
}

TEST(CommandLine, says_whose_option_it_is_where_another_command_has_it) {
  const Finished profile = noisemark({"profile", "gmm16@cpu", "--ranks", "2"});
  EXPECT_EQ(profile.code, 2);
  EXPECT_EQ(profile.err.find("noisemark: profile: --ranks: an option of run (one of: --steps"), 0U)
      << profile.err;
}

TEST(CommandLine, does_not_guess_abbreviated_options) {
  EXPECT_EQ(noisemark({"list", "--js"}).code, 2);
}

TEST(CommandLine, refuses_malformed_usage) {
  expect_bad_input({}, "no command (see noisemark help)");
  EXPECT_EQ(refusal({"run"}), "run: nothing given (ID)");
  EXPECT_EQ(refusal({"run", "gmm16", "ho-cifar10"}), "run: ho-cifar10 (one argument)");
  EXPECT_EQ(refusal({"list", "all"}), "list: all (no argument)");
  EXPECT_EQ(refusal({"run", "gmm16", "--seed", "1", "--seed", "2"}),
            "run: --seed: given more than once (once)");
  EXPECT_EQ(refusal({"run", "gmm16", "--seed", "-1"}), "--seed: -1 (an integer of at least 0)");
  EXPECT_EQ(refusal({"run", "gmm16", "--threads", "two"}),
            "--threads: two (an integer of at least 1)");
  EXPECT_EQ(refusal({"run", "gmm16", "--loader-threads", "0"}),
            "--loader-threads: 0 (an integer of at least 1)");
  EXPECT_EQ(refusal({"run", "gmm16", "--resume"}),
            "--resume: needs --out (the folder of the run to continue)");
  EXPECT_EQ(refusal({"run", "gmm16", "--out", "x", "--force", "--resume"}),
            "--force: given with --resume (one of them: replace the run that is there, or continue "
            "it)");
  EXPECT_NE(refusal({"run", "gmm16", "--out="}), "");
  EXPECT_EQ(refusal({"run", "gmm16", "--out", ""}), "run: --out: empty (DIR)");
  EXPECT_NE(refusal({"run", "gmm16", "--out"}), "");
  EXPECT_NE(refusal({"list", "--json=yes"}), "");
}

TEST(CommandLine, names_the_nearest_mode_and_baseline_and_the_option_once) {
  const std::vector<std::string> run = {"run", "gmm16", "--device", "cpu"};
  const auto refused = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> words = run;
    words.insert(words.end(), {option, value});
    return refusal(words);
  };
  EXPECT_EQ(refused("--mode", "ecoh")
                .find("--mode: \"ecoh\" (nearest: \"echo\"; accepted: none, or some of mirror, "),
            0U);
  EXPECT_EQ(refused("--mode", "budget:2GB").find("--mode: \"budget:2GB\" (expected: budget:"), 0U);
  EXPECT_EQ(refused("--mode", "echo,host=1GiB").find("--mode: \"echo,host=1GiB\" (expected: "), 0U);
  EXPECT_EQ(refused("--baseline", "fusde").find("--baseline: \"fusde\" (nearest: \"fused\"; "), 0U);
}

TEST(CommandLine, refuses_a_mode_or_baseline_that_is_given_twice) {
  expect_bad_input({"run", "gmm16", "--device", "cpu", "--mode", "none", "--mode", "none"},
                   "--mode: none: given twice (each once)");
  EXPECT_EQ(refusal({"run", "gmm16", "--device", "cpu", "--mode", "budget:1GiB", "--mode", "echo",
                     "--mode", "budget:1024MiB"}),
            "--mode: budget:1GiB: given twice (each once)")
      << "in another spelling";
  EXPECT_EQ(refusal({"run", "smoke", "--device", "cpu", "--mode", "echo", "--mode", "echo"}),
            "--mode: echo: given twice (each once)");
  EXPECT_EQ(
      refusal({"run", "gmm16", "--device", "cpu", "--baseline", "fused", "--baseline", "fused"}),
      "--baseline: fused: given twice (each once)");
}

TEST(CommandLine, refuses_more_threads_than_the_machine_has_processors) {
  expect_bad_input({"run", "gmm16", "--device", "cpu", "--threads", "99999"},
                   "--threads: 99999 (at most " +
                       std::to_string(std::thread::hardware_concurrency()) +
                       ", the logical processors of this machine)");
}

TEST(CommandLine, refuses_a_suite_where_one_benchmark_is_asked_for) {
  const std::string words = ": smoke: a suite (one benchmark, or a definition file)";
  EXPECT_EQ(refusal({"plan", "smoke", "--budget", "1GiB"}), "plan" + words);
  EXPECT_EQ(refusal({"fit", "smoke", "--memory", "1GiB"}), "fit" + words);
  EXPECT_EQ(refusal({"ab", "smoke", "--a=x", "--b=x"}), "ab" + words);
  EXPECT_EQ(refusal({"calibrate", "smoke"}), "calibrate" + words);
}

TEST(CommandLine, paces_no_suite_and_does_not_say_so) {
  expect_bad_input({"pace", "smoke", "--device", "cpu"},
                   "pace: smoke: a suite (one benchmark, or a definition file)");
  EXPECT_EQ(noisemark({"help", "pace"}).out.find("suite (smoke)"), std::string::npos);
  EXPECT_NE(noisemark({"help", "run"}).out.find("suite (smoke)"), std::string::npos);
}

TEST(CommandLine, refuses_a_bad_set) {
  expect_bad_input({"run", "gmm16", "--device", "cpu", "--set", "train.stpes=3"},
                   "--set: train.stpes: unknown key (nearest: train.steps)");
}

TEST(CommandLine, explains_a_bad_definition_file_with_its_place) {
  const auto path = std::filesystem::path(testing::TempDir()) / "bad.toml";
  std::ofstream(path) << "[benchmark]\nid = \"x\"\nversion = 0\n";
  expect_bad_input({"run", path.string(), "--device", "cpu"},
                   path.string() + ":3:11: benchmark.version: 0 (an integer from 1 to 1000)");
}

TEST(CommandLine, refuses_modes_of_a_definition_file_that_are_none_whether_or_not_they_are_run) {
  const auto path = std::filesystem::path(testing::TempDir()) / "modes.toml";
  std::string text;
  for (const BenchmarkFile& file : benchmark_files()) {
    if (file.id == "gmm16") text = file.text;
  }
  const std::string own = "modes = [\"none\"]";
  ASSERT_NE(text.find(own), std::string::npos);
  std::ofstream(path) << text.replace(text.find(own), own.size(), "modes = [\"ecko\"]");
  const std::string where = path.string() + ": benchmark.modes: ";
  const Finished said = noisemark({"run", path.string(), "--device", "cpu", "--mode", "none"});
  EXPECT_EQ(said.code, 2) << said.err;
  EXPECT_NE(said.err.find(where), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("echo"), std::string::npos) << said.err;
}

TEST(CommandLine, refuses_results_that_are_not_there) {
  for (const char* command : {"check", "report", "table"}) {
    EXPECT_EQ(noisemark({command, "/nonexistent"}).code, 2) << command;
  }
}

TEST(CommandLine, says_in_one_line_that_libtorch_cannot_read_its_settings) {
  const test::Finished refused =
      test::run_noisemark({"list"}, {{"PYTORCH_CUDA_ALLOC_CONF", "nonsense"}});
  EXPECT_EQ(refused.code, 2) << refused.both();
  EXPECT_EQ(refused.err.find("noisemark: the libraries cannot be loaded: "), 0U) << refused.err;
  EXPECT_TRUE(refused.err.ends_with(
      " (the variables PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF as LibTorch has them)\n"))
      << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
}

TEST(CommandLine, refuses_a_working_folder_that_was_removed) {
  const test::Finished result =
      test::run_noisemark_after("gone=$(mktemp -d) && cd \"$gone\" && rmdir \"$gone\"",
                                {"run", "gmm16", "--out", "/tmp/none"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "noisemark: the working folder: cannot be found (a folder that is there)\n");
}

TEST(CommandLine, leaves_with_77_when_data_or_device_is_missing) {
  const Finished result = noisemark({"run", "ho-cifar10", "--device", "cpu"});
  EXPECT_EQ(result.code, 77) << result.err;
  EXPECT_NE(result.err.find("--data"), std::string::npos) << result.err;
}

TEST(CommandLine, a_required_device_turns_77_into_1) {
  EXPECT_EQ(
      noisemark({"run", "ho-cifar10", "--device", "cpu"}, {{"NOISEMARK_REQUIRE", "cuda"}}).code, 1);
  EXPECT_EQ(noisemark({"help"}, {{"NOISEMARK_REQUIRE", "cuda"}}).code, 0);
}

TEST(CommandLine, a_device_is_required_in_a_list_too_and_not_by_the_peers) {
  const auto code_with = [](const std::string& required) {
    return noisemark({"run", "ho-cifar10", "--device", "cpu"}, {{"NOISEMARK_REQUIRE", required}})
        .code;
  };
  EXPECT_EQ(code_with("peers"), 77);
  EXPECT_EQ(code_with("cuda,peers"), 1);
  EXPECT_EQ(code_with("peers,cuda"), 1);
  EXPECT_EQ(code_with("peers,pictures"), 77);
}

TEST(CommandLine, an_unknown_requirement_is_found_before_anything_runs) {
  for (const std::string required : {"gpu", "cuda,gpu", "cuda peers", ",cuda"}) {
    const Finished unknown = noisemark({"help"}, {{"NOISEMARK_REQUIRE", required}});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_EQ(unknown.err, "noisemark: NOISEMARK_REQUIRE: " + required +
                               " (cuda, peers, pictures, browser or several with commas)\n");
    EXPECT_EQ(unknown.out, "");
  }
}

TEST(CommandLine, list_json_holds_whole_definitions_and_their_hashes) {
  const Finished result = noisemark({"list", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(json["benchmarks"].size(), benchmark_files().size());
  EXPECT_EQ(json["modes"][0]["name"], "none");
  EXPECT_EQ(json["baselines"][0]["name"], "plain");
  EXPECT_EQ(json["suites"][0]["name"], "smoke");
  for (const auto& benchmark : json["benchmarks"]) {
    for (const char* scale : {"cpu", "gpu"}) {
      const auto& at_scale = benchmark["scales"][scale];
      EXPECT_TRUE(at_scale["locked"].get<bool>()) << benchmark["id"];
      EXPECT_TRUE(reports::is_sha256(at_scale["definition_sha256"].get<std::string>()));
      EXPECT_EQ(at_scale["definition"]["benchmark"]["scale"], scale);
    }
  }
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/suite_cli_test
// --gtest_filter='*a_page_of_its_own'
TEST(CommandLine, what_programs_read_of_it_has_a_page_of_its_own) {
  reports::test::expect_published(NOISEMARK_SOURCE "/suite/cli", printed_documents());
}

TEST(CommandLine, list_names_everything) {
  const Finished result = noisemark({"list"});
  ASSERT_EQ(result.code, 0);
  for (const char* name :
       {"smoke", "ho-relu-cifar10", "none", "plain", "gate excess_loss",
        " images, 512 validation images", "budget:saved=2GiB", "mirror:sqrt+echo", "offload:all"}) {
    EXPECT_NE(result.out.find(name), std::string::npos) << name;
  }
}

TEST(CommandLine, list_says_which_definition_is_not_the_locked_one) {
  const std::string words = "custom: not the locked definition of gmm16@cpu";
  EXPECT_EQ(list_text().find("custom: not the locked"), std::string::npos);
  Lock lock = shipped_lock();
  lock.at("gmm16@cpu").definition_sha256 = std::string(64, '0');
  const std::string text = list_text(lock);
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_EQ(text.find("custom: not the locked"), text.rfind("custom: not the locked")) << text;
  for (const auto& benchmark : nlohmann::ordered_json::parse(list_json(lock))["benchmarks"]) {
    EXPECT_EQ(benchmark["scales"]["cpu"]["locked"], benchmark["id"] != "gmm16");
    EXPECT_EQ(benchmark["scales"]["gpu"]["locked"], true);
  }
}

TEST(CommandLine, env_names_the_machine_and_this_binary) {
  const Finished result = noisemark({"env", "--json", "--device", "cpu"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["source"]["binary_sha256"], reports::sha256_of_file(NOISEMARK_BINARY));
  EXPECT_FALSE(json["software"]["libtorch"].get<std::string>().empty());
  EXPECT_FALSE(json["hardware"]["cpu_isa"].get<std::string>().empty());
  EXPECT_EQ(noisemark({"env", "--device", "abacus"}).code, 2);
  EXPECT_EQ(noisemark({"env", "--device", "cuda"}).code, default_device().is_cuda() ? 0 : 77);
}

TEST(CommandLine, a_full_disk_behind_stdout_is_74) {
  const Finished result = test::run_noisemark_after("exec > /dev/full", {"list"});
  EXPECT_EQ(result.code, 74) << result.err;
}

TEST(CommandLine, markdown_is_made_from_the_same_text) {
  const Finished result = noisemark({"help", "--markdown"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, help_markdown());
  for (const Command& command : commands()) {
    EXPECT_NE(result.out.find(command.summary), std::string::npos);
  }
}

/// The row of a table of `text` that begins with an option's name; empty without one.
std::string row_of_option(const std::string& text, std::string_view name) {
  for (const char* end : {" ", "`"}) {
    const size_t begin = text.find(fmt::format("\n| `--{}{}", name, end));
    if (begin != std::string::npos) return text.substr(begin, text.find('\n', begin + 1) - begin);
  }
  return "";
}

TEST(CommandLine, markdown_has_every_option_with_its_meaning_to_each_command_that_takes_it) {
  const std::string text = help_markdown();
  for (const Command& command : commands()) {
    Options defaults;
    for (const BoundOption& bound : options_of(command.bit, defaults)) {
      const std::string row = row_of_option(text, bound.option->name);
      const size_t use = row.find(fmt::format("`{}`", command.name));
      ASSERT_NE(use, std::string::npos) << command.name << " --" << bound.option->name;
      EXPECT_NE(row.find(": " + option_meaning(bound), use), std::string::npos) << row;
      EXPECT_NE(row.find(option_spelling(*bound.option)), std::string::npos) << row;
    }
  }
}

}  // namespace
}  // namespace noisemark::suite
