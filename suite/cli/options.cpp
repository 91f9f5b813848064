#include "suite/cli/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/base/streams.h"
#include "reports/export/exporters.h"
#include "reports/result/metrics.h"
#include "suite/run/spec/options.h"
#include "suite/sampling/patches.h"

namespace noisemark::suite {
namespace {

using namespace command;
using Texts = std::vector<std::string>;
using Row = OptionRow<Options>;

template <auto kMember>
constexpr auto at = &option_member<kMember, Options>;

template <auto kMember>
OptionMember run_member(Options& options) {
  return &(options.run.*kMember);
}

OptionMember memory(Options& options) {
  return SizeMember{&options.memory_bytes};
}

OptionMember predicted_memory(Options& options) {
  return SizeMember{&options.predict.memory_bytes};
}
OptionMember batches(Options& options) {
  return &options.predict.batches;
}
OptionMember profiled_steps(Options& options) {
  return &options.profile.steps;
}
OptionMember profiled_batch(Options& options) {
  return &options.profile.batch;
}
OptionMember shapes(Options& options) {
  return &options.profile.shapes;
}
OptionMember sampling(Options& options) {
  return &options.profile.sampling;
}
OptionMember check(Options& options) {
  return &options.predict.check;
}

Texts md_and_json() {
  return {"md", "json"};
}
Texts fail_or_warn() {
  return {"fail", "warn"};
}
Texts draws() {
  return {"counter", "numpy"};
}

constexpr std::array kRows{
    Row{{kList | kEnv | kDoctor, "json", "", "print JSON, for programs"}, at<&Options::json>},
    Row{{kHelp, "markdown", "", "print the commands and options of suite/cli/README.md"},
        at<&Options::markdown>},
    Row{{kHelp, "keys", "", "print the keys of a definition file, as Markdown"},
        at<&Options::keys>},

    Row{{kSweep, "axis", "KEY=V1,V2,...",
         "a setting and its values; a comma in brackets divides nothing; required", "", 0, true},
        at<&Options::axes>},
    Row{{kPlan, "budget", "SIZE[,error=E]",
         "bound of peak_bytes (2GiB, 20.05MiB), or saved=SIZE for peak_saved_bytes; required"},
        at<&Options::budget>},
    Row{{kFit, "memory", "SIZE",
         "bound of a steady step's memory, for example 2GiB or 512MiB; required"},
        memory},
    Row{{kPredict, "memory", "SIZE",
         "memory for which the largest batch is predicted, for example 2GiB"},
        predicted_memory},
    Row{{kPredict, "batches", "B1,B2,B3", "batch sizes to predict from, at least three",
         "a quarter of the definition's, a half, all"},
        batches},
    Row{{kProfile, "steps", "N", "steps that are profiled and traced", "", 1}, profiled_steps},
    Row{{kProfile, "batch", "B", "images of a step", "the definition's train.batch", 1},
        profiled_batch},
    Row{{kProfile, "shapes", "", "tell operators apart by the shapes of their inputs"}, shapes},
    Row{{kProfile, "sampling", "B1,B2,...",
         "batch sizes at which an evaluation of the network is profiled too, as samplers make it",
         "none"},
        sampling},
    Row{{kPredict, "check", "", "also train five sizes that the prediction does not know"}, check},

    Row{{kReport, "format", "F", "write nothing, and print the results as", "", 0, false,
         report_formats},
        at<&Options::format>},
    Row{{kCompare | kAb, "format", "F",
         "format of the comparison (reports/export/README.md says which program reads each)", "md",
         0, false, comparison_formats},
        at<&Options::format>},
    Row{{kQuality, "gate", "METRIC[=MARGIN]", "metric to judge, and its margin as a fraction",
         reports::kLossMetric, 0, true},
        at<&Options::gates>},
    Row{{kQuality, "range", "METRIC=LOW:HIGH",
         "range of its mean over at least 5 seeds, in every mode", "", 0, true},
        at<&Options::ranges>},
    Row{{kQuality, "looks", "K",
         "how often these runs may be judged while seeds are added; looks share alpha", "2", 1},
        run_member<&RunOptions::looks>},
    Row{{kQuality | kTrace, "format", "F", "format of the text", "md", 0, false, md_and_json},
        at<&Options::format>},
    Row{{kReport | kSweep | kPredict | kProfile, "html", "",
         "also write a page of HTML beside each report: one file, without a network"},
        at<&Options::html>},
    Row{{kReport, "base", "BASE",
         "earlier results, as for compare: each report says what changed since them"},
        at<&Options::base>},
    Row{{kTable | kCompare | kQuality | kHistory, "html", "",
         "write a page of HTML in place of Markdown, or beside it in the folder behind --out"},
        at<&Options::html>},
    Row{{kCompare | kQuality | kAb | kFid, "inconclusive", "W",
         "when nothing is proven, exit with 4 or with 0", "", 0, false, fail_or_warn},
        at<&Options::inconclusive>},
    Row{{kCompare | kAb, "calibration", "FILE",
         "result of `noisemark calibrate`, or a folder of them; its noise floor widens the margin"},
        at<&Options::calibration>},
    Row{{kCompare, "exact", "", "judge only figures without noise, which single runs can prove"},
        at<&Options::exact>},
    Row{{kHistory, "metric", "M", "metric to follow", "all that have a direction", 0, true},
        at<&Options::metrics>},
    Row{{kBaseline, "into", "DIR", "folder of stored baselines", "baselines/results"},
        at<&Options::into>},
    Row{{kBaseline, "hardware", "NAME", "name of the machine's folder", "from its model"},
        at<&Options::hardware>},
    Row{{kBaseline, "force", "", "replace the stored baseline"}, run_member<&RunOptions::force>},
    Row{{kSelftest, "noise-floor", "F", "calibrated noise of images/s, as a fraction below 1", "0"},
        at<&Options::noise_floor_frac>},
    Row{{kSelftest, "force", "", "replace what an earlier self-test left there"},
        run_member<&RunOptions::force>},

    Row{{kAb, "a", "BIN", "the base: a noisemark program"}, at<&Options::a>},
    Row{{kAb, "b", "BIN", "the candidate: a noisemark program"}, at<&Options::b>},
    Row{{kAb, "a-ref", "REV", "the base: a revision of this git repository, built in build/ab/"},
        at<&Options::a_ref>},
    Row{{kAb, "b-ref", "REV", "the candidate: a revision, likewise"}, at<&Options::b_ref>},
    Row{{kAb, "configure", "WORD", "argument for cmake when a revision is built", "", 0, true},
        at<&Options::configure>},
    Row{{kAb, "from", "FILE", "judge a recorded comparison (ab.json) again; nothing is run"},
        at<&Options::from>},
    Row{{kAb, "no-bytes", "", "make no short runs: bytes and FLOPs are not compared"},
        at<&Options::short_runs>},
    Row{{kAb, "other-losses", "", "B may compute other numbers: its losses are not judged"},
        at<&Options::other_losses>},
    Row{{kAb, "slow-down", "FRAC", "a control: every step of B takes 1 + FRAC as long", "0"},
        at<&Options::slow_down_frac>},
    Row{{kCalibrate, "units", "N", "number of comparisons; a gate needs at least 36", "", 1},
        at<&Options::units>},
    Row{{kCalibrate, "from", "DIR",
         "take the comparisons recorded in DIR (ab.json, at any depth); nothing is run"},
        at<&Options::from>},
    Row{{kAb | kCalibrate, "pairs", "N",
         "pairs of processes, at least 6; as many again if inconclusive", "", 1},
        at<&Options::pairs>},
    Row{{kAb | kCalibrate, "seconds", "S", "about how long the pairs take together", "", 1},
        at<&Options::seconds>},
    Row{{kAb | kCalibrate, "turn", "S", "longest turn, unless one step takes longer", "", 0.001},
        at<&Options::turn_s>},

    Row{{kSample, "weights", "FILE",
         "the folder of a run, a checkpoint, or safetensors with the names of the Python library "
         "that has the same network; required"},
        at<&Options::weights>},
    Row{{kSample, "use", "W", "model or ema, of a checkpoint or folder",
         "the definition's eval.weights"},
        at<&Options::weights_kind>},
    Row{{kSample, "samples", "N", "number of samples",
         "all of --noise, else the definition's sample.count", 1},
        at<&Options::samples>},
    Row{{kSample, "sampler", "S", "ddim or ddpm", "the definition's, or ddim"},
        at<&Options::sampler>},
    Row{{kSample, "steps", "N", "steps of ddim", "the definition's sample.ddim_steps", 1},
        at<&Options::steps>},
    Row{{kSample, "eta", "E", "share of fresh noise in ddim, 0 to 1", "sample.ddim_eta"},
        at<&Options::eta>},
    Row{{kSample, "grid", "G",
         "timesteps of ddim: lucid (denoising-diffusion-pytorch's) or trailing (diffusers')",
         "sample.grid"},
        at<&Options::grid>},
    Row{{kSample, "variance", "V", "variance of ddpm: small (the posterior's) or large (beta)",
         "sample.ddpm_variance"},
        at<&Options::variance>},
    Row{{kSample, "noise", "FILE", "initial noise, .npy of [N, C, H, W]", "drawn by the seed"},
        at<&Options::noise>},
    Row{{kSample, "patch-parallel", "N",
         "processes on this machine that draw together, each computing a band of rows", "", 1},
        at<&Options::patch_parallel>},
    Row{{kSample, "patch-mode", "M",
         "what the layers of a process know of the other bands: with full_sync everything, with "
         "displaced what was so one step before, with no_sync what was so in the warm-up (a "
         "control); sync_gn, stale_gn and separate_gn are displaced, with the statistics of group "
         "norms "
         "new, a step old, or of the own band alone",
         "displaced", 0, false, patch_modes},
        at<&Options::patch_mode>},
    Row{{kSample, "patch-warmup", "N", "synchronous steps after the first, which always is", "4",
         0},
        at<&Options::patch_warmup>},
    Row{{kSample, "batch", "B", "samples that go through the network together", "16", 1},
        at<&Options::batch>},

    Row{{kFid, "extractor", "NAME", "maker of the images' features", "", 0, false,
         [] { return Texts(kExtractors.begin(), kExtractors.end()); }},
        at<&Options::extractor>},
    Row{{kFid, "weights", "FILE", "weights of the extractor inception",
         "the file in the folder of --data"},
        at<&Options::weights>},
    Row{{kFid, "resize", "NAME",
         "resize of inception, and of files that do not say it: tf1-bilinear or bilinear",
         "tf1-bilinear"},
        at<&Options::resize>},
    Row{{kFid, "max", "X", "gate: the largest distance (exit code 1: more, 4: not decided)"},
        at<&Options::max>},
    Row{{kFid, "min", "X", "gate: the smallest distance, for too small is suspicious too"},
        at<&Options::min>},
    Row{{kFid, "bootstrap", "N", "draws of A's features for a gate's interval; 0: none",
         "100 with a gate"},
        at<&Options::bootstrap>},
    Row{{kFid, "reference-samples", "N", "number of samples in B, where its file does not say", "",
         2},
        at<&Options::reference_samples>},
    Row{{kFid, "kid", "", "also the kernel distance: cubic, unbiased, over subsets"},
        at<&Options::kernel>},
    Row{{kFid, "subsets", "N", "subsets of the kernel distance", "", 1}, at<&Options::subsets>},
    Row{{kFid, "subset-size", "N", "samples of a subset", "", 2}, at<&Options::subset_size>},
    Row{{kFid, "draws", "D", "how subsets are drawn (numpy: as torch-fidelity does)", "", 0, false,
         draws},
        at<&Options::draws>},
    Row{{kFid, "seed", "N", "seed of --draws and --bootstrap", "0; 2020 with --draws numpy"},
        run_member<&RunOptions::seed>},
    Row{{kFid, "prc", "", "also precision and recall, B being the real images (k = 3)"},
        at<&Options::precision_recall>},
    Row{{kFid, "inception-score", "", "also A's Inception score, with the extractor inception"},
        at<&Options::inception_score>},
    Row{{kFid, "limit", "N", "take only the first N images or features of each set", "all", 2},
        at<&Options::limit>},
    Row{{kFid, "batch", "N", "images that the extractor gets at once", "64", 1},
        at<&Options::batch>},
    Row{{kFid, "features-cache", "DIR",
         "folder that keeps features, so that none is computed twice"},
        at<&Options::features_cache>},
    Row{{kFid, "threads", "N", "threads of LibTorch on the CPU", "LibTorch's own choice", 1},
        run_member<&RunOptions::threads>},

    Row{{kFit | kReport | kCompare | kTrace, "out", "FILE",
         "file for the text; its links, also hard ones, stay", "stdout"},
        run_member<&RunOptions::out>},
    Row{{kQuality, "out", "DIR", "folder for quality.md and quality.json, not of other runs",
         "stdout"},
        run_member<&RunOptions::out>},
    Row{{kAb, "out", "DIR", "new folder for ab.json, with every sample, and ab.md", "none"},
        run_member<&RunOptions::out>},
    Row{{kCalibrate, "out", "DIR",
         "folder for calibration.json and .md: continued, or with --from a new one", "none"},
        run_member<&RunOptions::out>},
    Row{{kHistory, "out", "DIR", "folder for history.md and its plots", "stdout, without plots"},
        run_member<&RunOptions::out>},
    Row{{kSelftest, "out", "DIR", "folder that keeps the runs and comparisons", "none"},
        run_member<&RunOptions::out>},
    Row{{kFid, "out", "FILE.npz",
         "file for mu, sigma and n of A, in pytorch-fid's form; its links, also hard ones, stay",
         "none"},
        run_member<&RunOptions::out>},
    Row{{kPlan | kFit | kReport | kCompare | kTrace | kQuality | kHistory | kAb | kCalibrate | kFid,
         "force", "", "replace a text, page or plot that this command did not write"},
        run_member<&RunOptions::force>},
    Row{{kFid, "json", "", "print JSON, for programs"}, at<&Options::json>},
};

/// The last line of the help.
constexpr std::array kFileRows{
    Row{{kRun | kSweep | kPredict | kProfile | kPlan | kFit | kAb | kCalibrate | kPace, "flags",
         "FILE", "TOML file of these options by name; an option that is typed wins over the file"},
        at<&Options::flags>},
};

/// "md, json or junit".
std::string alternatives(const Texts& words) {
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

/// The default in words: the row's, else the value that the member has when nobody gives one.
std::string default_words(const BoundOption& defaults) {
  if (!defaults.option->fallback.empty()) return std::string(defaults.option->fallback);
  if (std::holds_alternative<bool*>(defaults.member)) return "";
  const Texts values = option_values(defaults.member);
  return values.empty() ? "" : values.front();
}

/// The accepted words, for an error. A word that begins several, as "gha" does, means one of these.
std::string accepted(const std::string& word, const Texts& words) {
  Texts begun;
  std::copy_if(words.begin(), words.end(), std::back_inserter(begun),
               [&](const std::string& name) { return name.starts_with(word + "-"); });
  if (begun.size() > 1) return alternatives(begun);
  return fmt::format("one of: {}", fmt::join(words, ", "));
}

/// The names of the rows that have the member.
template <class Member>
std::vector<std::string> names_with(Member member) {
  std::vector<std::string> names;
  for (const reports::ExportFormat& format : reports::export_formats()) {
    if (format.*member != nullptr) names.emplace_back(format.name);
  }
  return names;
}

}  // namespace

std::string data_folder(const Options& options) {
  if (!options.run.data.empty()) return options.run.data;
  const char* folder = std::getenv("NOISEMARK_DATA");
  return folder == nullptr ? "" : folder;
}

std::vector<std::string> report_formats() {
  return names_with(&reports::ExportFormat::of_results);
}

std::vector<std::string> comparison_formats() {
  return names_with(&reports::ExportFormat::of_comparison);
}

std::string report_format_sentences() {
  std::string text;
  for (const reports::ExportFormat& format : reports::export_formats()) {
    if (format.of_results == nullptr) continue;
    text += fmt::format("{}{} is {}.", text.empty() ? "" : " ", format.name, format.summary);
  }
  return text;
}

reports::Inconclusive inconclusive_of(const Options& options) {
  return options.inconclusive == "warn" ? reports::Inconclusive::kWarns
                                        : reports::Inconclusive::kFails;
}

std::string deliver(const Options& options, std::string text) {
  if (options.run.out.empty()) return text;
  reports::write_named_file(options.run.out, text);
  std::error_code unknown;
  const bool file = std::filesystem::is_regular_file(options.run.out, unknown);
  const bool named = file && reports::own_stream_at(options.run.out) < 0;
  return named ? reports::one_line(options.run.out) + "\n" : "";
}

std::vector<BoundOption> options_of(uint32_t command, Options& options) {
  std::vector<BoundOption> bound;
  bind_options(std::span<const Row>(kRows), command, options, bound);
  bind_options(run_option_rows(), command, options.run, bound);
  bind_options(std::span<const Row>(kFileRows), command, options, bound);
  return bound;
}

std::string option_meaning(const BoundOption& defaults) {
  const Option& option = *defaults.option;
  std::string text(option.help);
  if (option.choices != nullptr) text += ": " + alternatives(option.choices());
  const std::string fallback = default_words(defaults);
  if (!fallback.empty()) text += fmt::format(" (default: {})", fallback);
  return option.repeatable ? text + "; may be repeated" : text;
}

std::string option_spelling(const Option& option) {
  return fmt::format("--{}{}{}", option.name, option.value.empty() ? "" : " ", option.value);
}

void require_choice(std::string_view command, const Option& option, const std::string& word) {
  if (option.choices == nullptr) return;
  const Texts words = option.choices();
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  throw bad_input(std::string(command), fmt::format("--{}", option.name), word,
                  accepted(word, words));
}

}  // namespace noisemark::suite
