#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.h"
#include "suite/ab/measure.h"
#include "suite/config/definition.h"
#include "suite/quality/distance/measures.h"
#include "suite/run/run.h"
#include "suite/run/spec/options.h"

namespace noisemark::suite {

/// Everything that options can say. A command reads the members that its rows of the table go to;
/// the others keep their defaults.
struct Options {
  RunOptions run;     ///< has --out, --force, --device ... of commands that train nothing too
  std::string flags;  ///< file of further options
  bool json = false;
  std::string format;  ///< is empty for the command's own
  bool html = false;
  std::string base;  ///< results that report compares with
  std::string inconclusive = "fail";
  std::string calibration;  ///< file, or a folder of them
  std::string from;         ///< recorded comparisons

  // help
  bool markdown = false;
  bool keys = false;

  // sweep, plan, fit
  std::vector<std::string> axes;
  std::string budget;
  std::optional<int64_t> memory_bytes;

  PredictOptions predict;
  ProfileWishes profile;

  // compare, quality, history, baseline, selftest
  bool exact = false;
  std::vector<std::string> gates;
  std::vector<std::string> ranges;
  std::vector<std::string> metrics;
  std::string into;
  std::string hardware;
  std::optional<double> noise_floor_frac;

  // ab, calibrate
  std::string a;
  std::string b;
  std::string a_ref;
  std::string b_ref;
  std::vector<std::string> configure;
  bool short_runs = true;
  bool other_losses = false;
  double slow_down_frac = 0;
  int64_t units = 40;
  int64_t pairs = 6;
  double seconds = AbRequest{}.seconds;
  double turn_s = AbRequest{}.turn_s;

  // sample, fid
  std::string weights;
  std::string weights_kind;
  std::optional<int64_t> samples;
  std::optional<int64_t> batch;
  std::string sampler;
  std::optional<int64_t> steps;
  std::optional<double> eta;
  std::string grid;
  std::string variance;
  std::string noise;
  int64_t patch_parallel = 1;
  std::string patch_mode;
  std::optional<int64_t> patch_warmup;
  std::string extractor{kExtractors.front()};
  std::string resize;
  std::optional<double> max;
  std::optional<double> min;
  std::optional<int64_t> bootstrap;
  std::optional<int64_t> reference_samples;
  bool kernel = false;
  int64_t subsets = KernelDistanceOptions{}.subsets;
  int64_t subset_size = KernelDistanceOptions{}.subset_size;
  std::string draws = "counter";
  bool precision_recall = false;
  bool inception_score = false;
  int64_t limit = 0;
  std::string features_cache;
};

/// The folder behind --data, else $NOISEMARK_DATA; empty where neither is set.
[[nodiscard]] std::string data_folder(const Options& options);

/// The formats of results, and of comparisons: those rows of reports/export/exporters.h.
[[nodiscard]] std::vector<std::string> report_formats();
[[nodiscard]] std::vector<std::string> comparison_formats();

/// Says of each format of results what it is: "bmf is Bencher Metric Format. ..."
[[nodiscard]] std::string report_format_sentences();

/// Translates --inconclusive for Comparison::inconclusive.
[[nodiscard]] reports::Inconclusive inconclusive_of(const Options& options);

/// Writes `text` to the file behind --out, where there is one. Returns what is left for the
/// standard output. Throws Error (cannot write).
[[nodiscard]] std::string deliver(const Options& options, std::string text);

/// The options that `command` (one bit) takes, in the order that help shows them, bound to
/// `options`.
[[nodiscard]] std::vector<BoundOption> options_of(uint32_t command, Options& options);

/// The meaning of an option in the help: its text, the words that it accepts, its default.
/// `defaults` is bound to options that nobody changed.
[[nodiscard]] std::string option_meaning(const BoundOption& defaults);

/// "--mode M".
[[nodiscard]] std::string option_spelling(const Option& option);

/// Throws Error (exit code 2) when the option takes one of a few words and this is none of them.
void require_choice(std::string_view command, const Option& option, const std::string& word);

}  // namespace noisemark::suite
