#include "suite/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reports/error.h"
#include "reports/nearest.h"
#include "suite/cli/flag_tables.h"

namespace noisemark::suite {
namespace {

constexpr std::string_view kIdDetails =
    "ID is a benchmark (ho-cifar10), a benchmark at one scale (ho-cifar10@cpu), a suite (smoke) or "
    "a definition file (mine.toml). Without a scale the device decides: gpu on CUDA, cpu "
    "elsewhere.";
constexpr std::string_view kBenchmarkIdDetails =
    "ID is a benchmark (ho-cifar10), a benchmark at one scale (ho-cifar10@cpu) or a definition "
    "file (mine.toml). Without a scale the device decides: gpu on CUDA, cpu elsewhere.";

std::vector<Command> make_commands() {
  return {
      {"list",
       "",
       "what can be run: suites, benchmarks, modes, baselines, gates",
       "With --json, the whole resolved definitions and their hashes.",
       {{"json", "", "for programs"}}},
      {"run", "ID", "train, measure, judge, report",
       "The result goes to files, a progress line to stderr, a short verdict to stdout.",
       run_flags(), 1, 1},
      {"sweep", "ID", "one benchmark at every combination of some settings, as a table",
       "Every cell is a run in a process of its own, in DIR/KEY=VALUE[,KEY=VALUE...]. The last "
       "axis is the first to change. KEY is mode, baseline, precision, threads, seed, batch "
       "(train.batch), any other key that --set takes, or cudnn.workspace_mib: the limit of a "
       "convolution's scratch memory in MiB, which cuDNN is given in CUDNN_CONV_WSCAP_DBG. A cell "
       "that fails is a row with its exit code, and the others go on; an interrupt ends the cell "
       "that runs and the sweep. The table goes to stdout and to DIR/sweep.md. Exits with the "
       "worst code of the cells, where out of memory counts as a pass: a sweep is made to find "
       "where that is.",
       sweep_flags(), 1, 1},
      {"plan", "ID", "memory plan for a budget, predicted peak and time, Pareto curve",
       "Records the first steps of the benchmark and plans by what they measured. The plan goes to "
       "stdout, as Markdown. A budget that cannot be met exits with 2 and names the smallest that "
       "can. With an error tensors may be rounded, and E bounds the gradient's relative error "
       "(where only ,error is written: 0.01).",
       plan_flags(), 1, 1},
      {"fit", "ID", "the largest batch that trains within a given memory, by mode",
       "Trains a few steps of growing batches and measures their peak_bytes; nothing is "
       "extrapolated. The table is Markdown.",
       fit_flags(), 1, 1},
      {"sample", "ID", "draw pictures from trained weights",
       "Writes a picture for every sample, all samples as they are (samples.npy), the first of "
       "them side by side (sheet.png), and where they come from (sampling.json). Equal seeds give "
       "equal noise under every sampler, batch and device.",
       sample_flags(), 1, 1},
      {"check",
       "PATH",
       "is a result whole, unchanged and consistent with itself",
       "PATH is a result.json, a folder that holds one, or a folder of such folders. Exits with 1 "
       "when anything is wrong.",
       {},
       1,
       1},
      {"report",
       "DIR",
       "write report.md and its plots again from result.json, or export the results",
       "Without options the files come out byte for byte as `run` wrote them. With --format "
       "nothing "
       "in DIR changes: the results go to stdout, or to the file behind --out. md is a comment for "
       "a "
       "pull request; junit is JUnit XML, a test case per gate; gha-smaller and gha-bigger are "
       "what "
       "github-action-benchmark reads with customSmallerIsBetter and customBiggerIsBetter; bmf is "
       "Bencher Metric Format; ctest are CTestMeasurement lines.",
       {{"format", "F", "md, junit, gha-smaller, gha-bigger, bmf or ctest"},
        {"out", "FILE", "where the text goes (default: stdout)"}},
       1,
       1},
      {"compare",
       "BASE NEW",
       "is NEW a regression of BASE",
       "BASE and NEW are each a result.json, its report.md or a folder of results; several runs of "
       "one benchmark are repetitions. What is not the same work on the same machine is not "
       "comparable and never passes. Bytes must not rise, parameters and FLOPs must be equal; "
       "images/s and the validation loss are judged over pairs of runs, made in turns: too few "
       "pairs are refused, and runs not made in turns need a calibration and are weaker evidence. "
       "The comparison goes to stdout; the last four formats hold NEW's figures and their ratios "
       "to BASE.",
       {{"format", "F", "md, json, junit, gha-smaller, gha-bigger, bmf or ctest (default: md)"},
        {"inconclusive", "W",
         "fail or warn: exit with 4 or 0 when nothing is proven (default: fail)"},
        {"calibration", "FILE",
         "of `noisemark calibrate`, or a folder of them; widens its cell's margin of images/s"},
        {"exact", "", "judge figures without noise alone, which single runs can prove"},
        {"out", "FILE", "where the text goes (default: stdout)"}},
       2,
       2},
      {"quality",
       "DIR...",
       "does a mode cost quality, over seeds",
       "DIR is a folder of results, as `run ID --mode none --mode M --seeds N` makes. Every mode "
       "is judged beside none of the same seeds: two one-sided t tests (TOST), paired or Welch's "
       "by the measured correlation, by Holm over modes and measures. PASS: proven to lie within "
       "the margin; FAIL: proven to be worse by more; INCONCLUSIVE: neither, with the smallest "
       "difference that these seeds would show and how many would decide. They may be added "
       "once: quality.json, which --out and a suite's run write, keeps which runs were looked "
       "at, and each of --looks has its share of the 5 % of wrong verdicts; without it a look is "
       "forgotten, and the output says so. Beside ranges gates have half of it. The margin is the "
       "definition's, else val_loss 1 %, "
       "time_to_quality_s 3 %, samples_to_quality 10 %, fid 5 % (at least 5 seeds). What is not "
       "the same work on the same machine is not comparable. A lossless mode must also have the "
       "bits of none, and a lossy one bounded gradients, where that was measured. What "
       "`noisemark fid RUN/samples/pictures REFERENCE --json` says of a run's samples is a "
       "metric of it, kept as RUN/distances/NAME.json.",
       {{"gate", "METRIC[=MARGIN]",
         "what is judged, and its margin as a fraction (default: val_loss)", true},
        {"range", "METRIC=LOW:HIGH", "where its mean over at least 5 seeds must lie, in every mode",
         true},
        {"looks", "K",
         "how often these runs may be judged while seeds are added; shares alpha (default: 2)"},
        {"format", "F", "md or json (default: md)"},
        {"inconclusive", "W",
         "fail or warn: exit with 4 or 0 when nothing is proven (default: fail)"},
        {"out", "DIR",
         "folder for quality.md and quality.json, not of other runs (default: stdout)"}},
       1,
       -1},
      {"ab", "[ID]", "is build B a regression of build A, in turns on this machine",
       "Pairs of live processes (`noisemark pace`), one of each build, pass a token in blocks ABBA "
       "and BAAB, turns of a fifth of a second; what separates runs made one after the other is "
       "the "
       "same for both. Both must do the same work, else nothing is compared. Losses must be equal "
       "bit for bit; so must bytes and FLOPs of a short run of each build, made before, by the "
       "rules of `compare`; images/s is judged over the pairs by the rules of `compare`, with one "
       "extension when that is inconclusive. The comparison goes to stdout.",
       ab_flags(), 0, 1},
      {"calibrate", "[ID]", "how much this machine moves a comparison, and how often it cries wolf",
       "Compares this program with itself, as `ab` does, unit by unit. What 95 % of the units stay "
       "within is the noise floor; a gate takes twice of it as its margin where that is more than "
       "its own. Exits with 5 when the rate of false alarms may be above 10 %, or the floor above "
       "5 %: then nothing may be gated with it.",
       calibrate_flags(), 0, 1},
      {"table",
       "DIR...",
       "results side by side, of any hardware",
       "Descriptive: it never says pass or fail. The table is Markdown, on stdout.",
       {},
       1,
       -1},
      {"history",
       "DIR...",
       "results over time, and when they changed",
       "DIR is a folder of results, as for compare. Runs of one identity are a series, in the "
       "order "
       "of their making. In figures without noise every difference is a change; in others changes "
       "are found by E-divisive means with a permutation test at 1 %. It judges nothing. The table "
       "is Markdown, on stdout.",
       {{"metric", "M", "metric to follow (default: all that have a direction)", true},
        {"out", "DIR", "where history.md and its plots go (default: no plots, and stdout)"}},
       1,
       -1},
      {"baseline",
       "ACTION PATH...",
       "keep runs to compare with",
       "ACTION is promote or show. promote copies at least three passing runs of one identity, "
       "whole, to "
       "HARDWARE/BENCHMARK/VARIANT/RUN/result.json below --into, with a page for the reviewer; a "
       "commit makes it the baseline. show prints those pages. `compare` takes such a folder as "
       "BASE, with --exact, or with --calibration for what has noise.",
       {{"into", "DIR", "folder of all baselines (default: baselines/results)"},
        {"hardware", "NAME", "name of the machine's folder (default: from its model)"},
        {"force", "", "replace the runs that are the baseline now"}},
       2,
       -1},
      {"selftest",
       "",
       "does the comparison catch what it must, here",
       "Slow-downs of 5 and 10 % put into recorded rounds, and into short real runs a leak of 16 "
       "MiB, a loss that is 1 % too large and a byte that is not counted: compare must call each a "
       "regression, and pass the untouched twin. The table is Markdown, on stdout.",
       {{"out", "DIR", "where the runs and comparisons are kept (default: nowhere)"},
        {"force", "", "replace what an earlier self-test left there"},
        {"noise-floor", "F",
         "calibrated noise of images/s, as a fraction: what is caught with it (default: 0)"}},
       0,
       0},
      {"fid", "A [B]", "how far pictures or features A are from the reference B",
       "A and B are each a folder of pictures, FILE.npz with mu and sigma (as pytorch-fid writes "
       "it) "
       "or features, FILE.npy with features [N, d] or pictures (uint8), ID:train or ID:test for "
       "the "
       "data of benchmark ID, or gmm16:exact, the mixture itself. The Fréchet distance goes to "
       "stdout with the N of both sets; it is called FID only where the extractor of both is the "
       "2015 Inception network. A gate passes when the interval of features drawn again lies "
       "within, fails when it lies outside, and is inconclusive else. It is refused with fewer "
       "than 2 d samples, and where nobody says what made one of the sets. With --out, B may be "
       "left out.",
       fid_flags(), 1, 2},
      {"env",
       "",
       "what this machine is",
       "The hardware and software that a result would name.",
       {{"json", "", "for programs"},
        {"device", "D", "cpu, cuda or cuda:N (default: cuda where there is one)"}}},
      {"doctor",
       "",
       "what a result cannot name here, why, and what disturbs timing",
       "Of the first GPU too, where there is one.",
       {{"json", "", "for programs"}}},
      {"pace", "ID", "keep one training session ready and time steps on demand",
       "Reads commands from stdin, so that several builds or frameworks can be timed in turns on "
       "one machine. `run K` makes K steps and answers with one line of JSON; `quit` or the end of "
       "the input ends it.",
       serving_flags(), 1, 1},
      {"help",
       "[COMMAND]",
       "this text, or a command's",
       "",
       {{"markdown", "", "the README's section about the command line"},
        {"keys", "", "the keys of a definition file, as Markdown"}},
       0,
       1},
  };
}

struct ExitRow {
  ExitCode code;
  std::string_view meaning;
};
constexpr ExitRow kExitRows[] = {
    {ExitCode::kPass, "pass"},
    {ExitCode::kFailed, "failed gate or check, regression, or non-finite training"},
    {ExitCode::kBadInput, "bad input or usage"},
    {ExitCode::kNotComparable, "not comparable"},
    {ExitCode::kInconclusive, "inconclusive"},
    {ExitCode::kBaselineNeeded, "calibration or baseline needed"},
    {ExitCode::kInternal, "internal error"},
    {ExitCode::kOutOfMemory, "out of memory"},
    {ExitCode::kCannotWrite, "cannot write (full disk)"},
    {ExitCode::kCannotRunHere,
     "cannot run here: no GPU, or no pictures were given; 1 with NOISEMARK_REQUIRE=cuda"},
    {ExitCode::kInterrupted, "interrupted: the result is written and marked so"},
};

std::string signature(const Command& command) {
  return fmt::format("{}{}{}", command.name, command.arguments.empty() ? "" : " ",
                     command.arguments);
}

std::string usage(const Command& command) {
  return fmt::format("noisemark {}{}", signature(command),
                     command.flags.empty() ? "" : " [options]");
}

std::string spelling(const Flag& flag) {
  return fmt::format("--{}{}{}", flag.name, flag.value.empty() ? "" : " ", flag.value);
}

std::string meaning(const Flag& flag) {
  return fmt::format("{}{}", flag.help, flag.repeatable ? "; may be repeated" : "");
}

// Words of `text` in lines of at most `width` columns.
std::string wrapped(std::string_view text, size_t width) {
  std::string result;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
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

std::vector<std::string_view> paragraphs(const Command& command) {
  std::vector<std::string_view> all;
  if (command.name == "run") all.push_back(kIdDetails);
  for (const char* name : {"sweep", "plan", "fit", "sample", "pace", "ab", "calibrate"}) {
    if (command.name == name) all.push_back(kBenchmarkIdDetails);
  }
  if (!command.details.empty()) all.push_back(command.details);
  return all;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = make_commands();
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
  for (const std::string_view paragraph : paragraphs(command)) {
    text += fmt::format("\n{}\n", wrapped(paragraph, 100));
  }
  if (command.flags.empty()) return text;
  text += "\noptions:\n";
  for (const Flag& flag : command.flags) {
    text += fmt::format("  {:<24}{}\n", spelling(flag), meaning(flag));
  }
  return text;
}

std::string help_markdown() {
  std::string text = "| command | what it does |\n|---|---|\n";
  for (const Command& command : commands()) {
    text += fmt::format("| `{}` | {} |\n", usage(command), command.summary);
  }
  for (const Command& command : commands()) {
    if (command.flags.empty()) continue;
    text += fmt::format("\n`noisemark {}`:", command.name);
    for (const std::string_view paragraph : paragraphs(command)) {
      text += fmt::format(" {}", paragraph);
    }
    text += "\n\n| option | meaning |\n|---|---|\n";
    for (const Flag& flag : command.flags) {
      text += fmt::format("| `{}` | {} |\n", spelling(flag), meaning(flag));
    }
  }
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const ExitRow& row : kExitRows) {
    text += fmt::format("| {} | {} |\n", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

}  // namespace noisemark::suite
