#include "suite/cli/commands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "reports/base/error.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/html/page.h"
#include "suite/cli/arguments.h"
#include "suite/cli/options.h"
#include "suite/config/keys.h"
#include "suite/environment/installation.h"

namespace noisemark::suite {
namespace {

constexpr std::string_view kIdDetails =
    "ID is a benchmark (ho-cifar10), a benchmark at one scale (ho-cifar10@cpu), a suite (smoke) or "
    "a definition file (mine.toml). Without a scale the device decides: gpu on CUDA, cpu "
    "elsewhere.";
constexpr std::string_view kBenchmarkIdDetails =
    "ID is a benchmark (ho-cifar10), a benchmark at one scale (ho-cifar10@cpu) or a definition "
    "file (mine.toml). Without a scale the device decides: gpu on CUDA, cpu elsewhere.";

Answer show_list(const CommandLine& line) {
  return {line.options.json ? list_json() : list_text()};
}

Answer show_help(const CommandLine& line) {
  if (line.options.markdown) return {help_markdown()};
  if (line.options.keys) return {keys_markdown()};
  if (line.positional.empty()) return {overview_text()};
  return {help_text(find_command(line.positional.front()))};
}

const std::array kCommands{
    Command{"list", command::kList, "", 0, 0, "list suites, benchmarks, modes, baselines and gates",
            "With --json it prints the whole resolved definitions and their hashes.", show_list},
    Command{"run", command::kRun, "ID", 1, 1, "train, measure, judge, report",
            "The result goes to files, a progress line to stderr, and a short verdict to stdout. "
            "Ranks that torchrun, srun, mpirun or plain RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
            "and MASTER_PORT start from outside make one run together, as those of --ranks do.",
            train},
    Command{
        "sweep", command::kSweep, "ID", 1, 1,
        "train one benchmark at every combination of some settings",
        "Every cell is a run in a process of its own, in DIR/KEY=VALUE[,KEY=VALUE...]. The last "
        "axis is the first to change. KEY is mode, baseline, precision, threads, ranks, pipeline, "
        "micro-batches, seed, batch (train.batch), any other key that --set takes, or "
        "cudnn.workspace_mib, the limit of a convolution's scratch memory in MiB, which cuDNN gets "
        "in CUDNN_CONV_WSCAP_DBG. A cell that fails is a row with its exit code, and the others go "
        "on. An interrupt ends the running cell and the sweep. The table goes to stdout and to "
        "DIR/sweep.md. The exit code is the worst one of the cells, where out of memory counts as "
        "a pass, because a sweep is made to find where that is.",
        sweep_settings},
    Command{"plan", command::kPlan, "ID", 1, 1,
            "plan memory for a budget: predicted peak and time, Pareto curve",
            "The command records the first steps of the benchmark and plans by what they measured. "
            "The plan goes to stdout, as Markdown. If no plan keeps the budget, the command "
            "exits with 2 and names the smallest that can be kept. With an error, tensors may be "
            "rounded, and E bounds the "
            "gradient's relative error (0.01 where only ,error is written).",
            plan_memory},
    Command{
        "fit", command::kFit, "ID", 1, 1,
        "find the largest batch that trains within a given memory, by mode",
        "The command trains a few steps of growing batches and measures their peak_bytes; it "
        "extrapolates nothing. What a driver and its libraries hold comes on top. A mode first "
        "watches passes that need the memory of `none`, and `run` also trains with `none`, for the "
        "memory pass and for the certificate, which holds three trainings at once: for a batch "
        "that fits so closely give `run` --no-memory and --no-certificate. The table is "
        "Markdown.",
        fit_batches},
    Command{
        "predict", command::kPredict, "ID", 1, 1,
        "predict time and memory of other batch sizes from three that are trained",
        "Every size is a run under every --mode, in a process of its own in DIR, and is then timed "
        "in turns with the smallest under the first --mode, so that other work on the machine "
        "meets "
        "both. The page goes to stdout and to DIR/predict.md (with its figures in "
        "DIR/predict.json): time and peak by "
        "batch with their intervals, every owner's bytes per image, the batch from which larger "
        "ones gain little, the largest within --memory, and the memory in which a mode, by a "
        "larger batch, becomes faster than the first one. With --check five more sizes are "
        "trained, one of them twice the largest; the exit code is 1 if the time is predicted with "
        "an error above 10 % or the peak above 1 %, and 4 if measured times are too uncertain to "
        "tell.",
        predict_batches},
    Command{
        "profile", command::kProfile, "ID", 1, 1,
        "show where a step's time and memory go, by operator and by layer, with a trace",
        "LibTorch's profiler follows some training steps. DIR/profile.md, which also goes to "
        "stdout, and DIR/profile.json have PyTorch's table of operators (key_averages), each "
        "operator joined with its gradient, every layer and block, the least time that each "
        "operator would take on this machine (roofline), a step as a model predicts it from these "
        "peaks, the network's demands (with --sampling those of drawing samples too), and what the "
        "profiler itself costs. DIR/trace.json.gz opens in Perfetto, and has memory by owner as a "
        "counter.",
        profile_steps},
    Command{"sample", command::kSample, "ID", 1, 1, "draw images from trained weights",
            "The command writes an image for every sample, all samples as they are (samples.npy), "
            "the first of them side by side (sheet.png), and how they were drawn (sampling.json). "
            "Equal seeds give equal noise under every sampler, batch and device. With "
            "--patch-parallel the bytes and the time of a step go to stdout and sampling.json. "
            "Its processes may also be started by torchrun and the like, as for `run`.",
            sample_images},
    Command{"check", command::kCheck, "PATH", 1, 1,
            "check that a result is whole, unchanged and consistent with itself",
            "PATH is a result.json, a folder that holds one, or a folder of such folders. The exit "
            "code is 1 when anything is wrong.",
            check_results},
    Command{
        "report", command::kReport, "DIR", 1, 1,
        "write report.md and its plots again from result.json, or export the results",
        "Without options the files come out byte for byte as `run` wrote them; a profile that was "
        "written into DIR/profile adds what limits the run. With --html each report is a page too, "
        "report.html: one file whose tables sort and whose plots zoom. With --format nothing in "
        "DIR changes: the results go to stdout, or to the file behind --out.",
        report_results, report_format_sentences},
    Command{"compare", command::kCompare, "BASE NEW", 2, 2,
            "judge whether NEW is a regression of BASE",
            "BASE and NEW are each a result.json, its report.md or a folder of results; several "
            "runs of one benchmark are repetitions. Other work, or another machine, is not "
            "comparable and never passes. Bytes must not rise; parameters and FLOPs must be equal. "
            "Images/s and the validation loss are judged over pairs of runs that were made in "
            "turns: too few pairs are refused, and runs not made in turns need a calibration and "
            "are weaker evidence. The comparison goes to stdout. The formats for other programs "
            "hold NEW's figures and their ratios to BASE.",
            compare_results},
    Command{
        "quality", command::kQuality, "DIR...", 1, -1,
        "judge over seeds whether a mode costs quality",
        "DIR is a folder of results, as `run ID --mode none --mode M --seeds N` makes. Every mode "
        "is judged beside mode `none` with the same seeds, by two one-sided t tests (TOST). They "
        "are paired "
        "where the measured correlation asks for it, else Welch's, and Holm's method corrects for "
        "the number of modes and measures. PASS is proven to lie within the margin. FAIL is proven "
        "to be worse by more. INCONCLUSIVE is neither; the text then says which difference these "
        "seeds would show and how many would decide. Seeds may be added as often as --looks "
        "allows: quality.json, which --out and a suite's run write, keeps which runs were looked "
        "at, and each look has its share of the 5 % of wrong verdicts. Without --out a look is "
        "forgotten, and the output says so. Where ranges are judged too, gates have half of these "
        "5 % and ranges the other half. The margin is the definition's, else the metric's "
        "(reports/result/metrics.md); distances need at least 5 seeds. Other work, or another "
        "machine, is not comparable. A lossless mode must also have the bits of `none`, and the "
        "gradient error of a lossy one must keep its bound, where that was measured. The output of "
        "`noisemark fid RUN/samples/pictures REFERENCE --json` becomes a metric of a run when it "
        "is kept as RUN/distances/NAME.json.",
        judge_seeds},
    Command{
        "ab", command::kAb, "[ID]", 0, 1,
        "judge whether build B is a regression of build A, in turns on this machine",
        "Pairs of live processes (`noisemark pace`), one of each build, pass a token in blocks "
        "ABBA and BAAB, in turns of a fifth of a second, so that both meet the same noise. Both "
        "must do the same work, else nothing is compared. Losses must be equal bit for bit, and "
        "so must bytes and FLOPs of a short run of each build, made before, by the rules of "
        "`compare`. Images/s is judged over the pairs by the same rules, with one extension "
        "when that is inconclusive. The comparison goes to stdout.",
        compare_builds},
    Command{
        "calibrate", command::kCalibrate, "[ID]", 0, 1,
        "measure how much this machine moves a comparison, and the rate of false alarms",
        "The command compares this program with itself, as `ab` does, unit by unit. 95 % of the "
        "units stay within the noise floor. A comparison takes twice the floor as its margin where "
        "that is more than its own. The exit code is 5 when the rate of false alarms may be "
        "above 10 %, or the floor above 5 %: then nothing may be gated with it.",
        calibrate},
    Command{
        "table", command::kTable, "DIR...", 1, -1, "show results side by side, of any hardware",
        "The table describes and never says pass or fail. It is Markdown, on stdout. With --html "
        "memory by owner and the utilization of GPU and processor follow, with their definitions.",
        tabulate_results},
    Command{
        "history", command::kHistory, "DIR...", 1, -1,
        "show results over time, and when they changed",
        "DIR is a folder of results, as for compare. Runs of one identity are a series, in the "
        "order in which they were made. In figures without noise every difference is a change; "
        "in others changes are found by E-divisive means with a permutation test at 1 %. The "
        "command judges nothing. A result that cannot be read is named, and the exit code is 2 or "
        "74; the others are shown. The table is Markdown, on stdout.",
        show_history},
    Command{"trace", command::kTrace, "FILE", 1, 1,
            "show where the time of a profiler's trace went",
            "FILE is a trace of kineto, PyTorch's profiler: JSON, or gzip of it. The command says "
            "how long the device was idle, computed, communicated and copied, what overlapped, why "
            "streams were idle, and how launches and queues went. Calls are paired with what they "
            "launched by correlation, graphs too. A trace without a device is summarised by its "
            "operators. The page is Markdown, on stdout.",
            show_trace},
    Command{"baseline", command::kBaseline, "ACTION PATH...", 2, -1, "keep runs to compare with",
            "ACTION is promote or show. promote copies at least three passing runs of one "
            "identity, whole, to "
            "HARDWARE/BENCHMARK@SCALE/MODE-BASELINE-PRECISION-DEVICE/RUN/result.json below --into, "
            "with a page for the reviewer; a commit makes them the stored baseline. show prints "
            "those pages. `compare` takes such a folder as BASE, with --exact, or with "
            "--calibration for what has noise.",
            keep_baseline},
    Command{"selftest", command::kSelftest, "", 0, 0,
            "test on this machine that the comparison finds faults",
            "The command slows recorded rounds down by 5 and 10 %, and puts into short real runs a "
            "leak of 16 MiB, a loss that is 1 % too large and a byte that is not counted. compare "
            "must call each a regression, and pass the untouched twin. The table is Markdown, on "
            "stdout.",
            test_itself},
    Command{"fid", command::kFid, "A [B]", 1, 2,
            "measure how far images or features A are from the reference B",
            "A and B are each a folder of images, FILE.npz with mu and sigma (as pytorch-fid "
            "writes it) or features, FILE.npy with features [N, d] or images (uint8), ID:train or "
            "ID:test for the data of benchmark ID, or gmm16:exact, the mixture itself. The Fréchet "
            "distance goes to stdout with the N of both sets. It is called FID only where the "
            "extractor of both is the 2015 Inception network. A gate passes when the interval of "
            "features drawn again lies within, fails when it lies outside, and is inconclusive "
            "otherwise. A gate is refused where a set has fewer than two samples for each of the "
            "features, or where it is not known how one of the sets was made. With --out, B may be "
            "left out.",
            measure_sets},
    Command{"env", command::kEnv, "", 0, 0, "show what this machine is",
            "The command prints the hardware and software that a result would name.",
            show_environment},
    Command{"doctor", command::kDoctor, "", 0, 0,
            "show what a result cannot name here, why, and what disturbs timing",
            "Where there is a GPU, the first one is examined too.", examine_machine},
    Command{"pace", command::kPace, "ID", 1, 1,
            "keep one training session ready and time steps on demand",
            "The command reads lines from stdin, so that several builds or frameworks can be timed "
            "in turns on one machine. `run K` makes K steps and answers with one line of JSON. "
            "`quit` or the end of the input ends it.",
            serve_steps},
    Command{"help", command::kHelp, "[COMMAND]", 0, 1, "show this text, or a command's", "",
            show_help},
};

struct ExitRow {
  ExitCode code;
  std::string_view meaning;
};
constexpr ExitRow kExitRows[] = {
    {ExitCode::kPass, "pass"},
    {ExitCode::kFailed, "failed gate or check, regression, or non-finite training"},
    {ExitCode::kBadInput, "bad input or usage, a budget that no plan can keep, or too few pairs"},
    {ExitCode::kNotComparable,
     "not comparable: other work or machine, a GPU that slowed itself down, or a missing result"},
    {ExitCode::kInconclusive, "inconclusive"},
    {ExitCode::kBaselineNeeded,
     "calibration or baseline needed: there is none, there are no runs to compare with, or the "
     "noise is too large to judge by"},
    {ExitCode::kInternal, "internal error"},
    {ExitCode::kOutOfMemory, "out of memory"},
    {ExitCode::kCannotWrite, "cannot write (full disk), or a file's reading fails"},
    {ExitCode::kCannotRunHere,
     "cannot run here: no GPU, or no images were given; 1 with NOISEMARK_REQUIRE=cuda"},
    {ExitCode::kInterrupted, "interrupted: the result of a run is written and marked so"},
};

std::string signature(const Command& command) {
  return fmt::format("{}{}{}", command.name, command.arguments.empty() ? "" : " ",
                     command.arguments);
}

bool has_options(const Command& command) {
  Options options;
  return !options_of(command.bit, options).empty();
}

std::string usage(const Command& command) {
  return fmt::format("noisemark {}{}", signature(command),
                     has_options(command) ? " [options]" : "");
}

/// A number stays beside its unit: "16 MiB".
size_t end_of_word(std::string_view text) {
  size_t end = std::min(text.find(' '), text.size());
  const bool number = end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9';
  if (!number || end == text.size()) return end;
  const std::string_view next = text.substr(end + 1);
  const bool quantity = reports::is_unit(next.substr(0, next.find_first_of(" ,.;:)")));
  return quantity ? std::min(text.find(' ', end + 1), text.size()) : end;
}

/// Breaks `text` into lines of at most `width` columns.
std::string wrapped(std::string_view text, size_t width) {
  std::string result;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = end_of_word(text);
    if (column > 0 && column + 1 + end > width) {
      result += '\n';
      column = 0;
    }
    if (column > 0) {
      result += ' ';
      ++column;
    }
    result += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::vector<std::string> paragraphs(const Command& command) {
  std::vector<std::string> all;
  if (command.arguments.find("ID") != std::string_view::npos) {
    all.emplace_back(command.bit == command::kRun ? kIdDetails : kBenchmarkIdDetails);
  }
  if (!command.details.empty()) all.emplace_back(command.details);
  if (command.more != nullptr) all.push_back(command.more());
  return all;
}

/// A line for an option: its spelling, and beside it as many lines as its meaning takes.
std::string option_lines(const BoundOption& bound) {
  constexpr size_t kColumn = 26;
  constexpr size_t kWidth = 110;
  std::string meaning = wrapped(option_meaning(bound), kWidth - kColumn);
  for (size_t end = meaning.find('\n'); end != std::string::npos;
       end = meaning.find('\n', end + 1)) {
    meaning.insert(end + 1, kColumn, ' ');
  }
  return fmt::format("  {:<23} {}\n", option_spelling(*bound.option), meaning);
}

/// The summary and the details, but for what ID is.
std::string in_one_cell(const Command& command) {
  std::string text = fmt::format("**{}**", command.summary);
  if (!command.details.empty()) text += fmt::format("<br>{}", command.details);
  return command.more == nullptr ? text : text + " " + command.more();
}

/// One row of the option table, and the commands that take it.
struct OptionUse {
  const Option* option = nullptr;
  std::string meaning;
  std::vector<std::string> commands;  ///< names in backquotes
};

std::map<std::string_view, std::vector<OptionUse>> uses_by_name() {
  std::map<std::string_view, std::vector<OptionUse>> all;
  for (const Command& command : commands()) {
    Options defaults;
    for (const BoundOption& bound : options_of(command.bit, defaults)) {
      std::vector<OptionUse>& uses = all[bound.option->name];
      const auto known = std::find_if(uses.begin(), uses.end(), [&](const OptionUse& use) {
        return use.option == bound.option;
      });
      OptionUse& use = known != uses.end()
                           ? *known
                           : uses.emplace_back(OptionUse{bound.option, option_meaning(bound), {}});
      use.commands.push_back(fmt::format("`{}`", command.name));
    }
  }
  return all;
}

/// A row for each name, with a line for each meaning that it has.
std::string option_rows() {
  std::string text;
  for (const auto& [name, uses] : uses_by_name()) {
    std::set<std::string> spellings;
    std::vector<std::string> lines;
    for (const OptionUse& use : uses) {
      spellings.insert(fmt::format("`{}`", option_spelling(*use.option)));
      lines.push_back(fmt::format("{}: {}", fmt::join(use.commands, ", "), use.meaning));
    }
    text += fmt::format("| {} | {} |\n", fmt::join(spellings, ", "), fmt::join(lines, "<br>"));
  }
  return text;
}

ExitCode say(const Answer& answer) {
  reports::print_out(answer.text);
  if (!answer.warning.empty()) reports::say_on_stderr(answer.warning);
  return answer.code;
}

std::string version_text() {
  const BuildInfo& info = build_info();
  return fmt::format("noisemark {}{}{}{}\n", info.version, info.git_commit.empty() ? "" : " ",
                     reports::shown_digits(info.git_commit), info.git_dirty ? " with changes" : "");
}

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

const Command& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    names.emplace_back(command.name);
  }
  throw bad_input("", fmt::format("\"{}\"", name), "unknown command",
                  reports::accepted_names(name, names));
}

std::string overview_text() {
  size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, signature(command).size());
  std::string text =
      "usage: noisemark COMMAND ...\n\n"
      "A reproducible benchmark suite for training diffusion models.\n\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<{}}  {}\n", signature(command), width, command.summary);
  }
  text += "\n`noisemark COMMAND --help` says more. Exit codes:\n";
  for (const ExitRow& row : kExitRows) {
    text += fmt::format("  {:<5}{}\n", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

std::string help_text(const Command& command) {
  std::string text = fmt::format("usage: {}\n\n{}\n", usage(command), command.summary);
  for (const std::string& paragraph : paragraphs(command)) {
    text += fmt::format("\n{}\n", wrapped(paragraph, 100));
  }
  Options defaults;
  const std::vector<BoundOption> options = options_of(command.bit, defaults);
  if (options.empty()) return text;
  text += "\noptions:\n";
  for (const BoundOption& bound : options) text += option_lines(bound);
  return text;
}

std::string help_markdown() {
  std::string text = "| command | what it does |\n|---|---|\n";
  for (const Command& command : commands()) {
    text += fmt::format("| `{}` | {} |\n", usage(command), in_one_cell(command));
  }
  text += fmt::format("\n{} Only `run` takes a suite.\n", kIdDetails);
  text += "\n| option | meaning to the commands that take it |\n|---|---|\n" + option_rows();
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const ExitRow& row : kExitRows) {
    text += fmt::format("| {} | {} |\n", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

namespace {

/// Names the line of the file of options where nobody typed what is wrong.
Answer act(const Command& command, const CommandLine& line) {
  const std::string why = line.options.html ? reports::why_pictures() : "";
  if (!why.empty()) reports::say_on_stderr(fmt::format("{}: --html: {}", command.name, why));
  try {
    require_own_output(command, line);
    return command.act(line);
  } catch (const Error& error) {
    const std::string place = place_of_option(line, error.what());
    if (place.empty()) throw;
    throw Error(error.code(), fmt::format("{}: {}", place, error.what()));
  }
}

}  // namespace

ExitCode run_command_line(const std::vector<std::string>& words,
                          const std::vector<std::string>& argv) {
  if (words.empty()) throw bad_input("", "no command", "", "see noisemark help");
  if (words.front() == "--help" || words.front() == "-h") return say({overview_text()});
  if (words.front() == "--version") return say({version_text()});
  const Command& command = find_command(words.front());
  const CommandLine line = read_command_line(command, {words.begin() + 1, words.end()}, argv);
  return say(line.help ? Answer{help_text(command)} : act(command, line));
}

}  // namespace noisemark::suite
