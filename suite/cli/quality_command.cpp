#include "suite/cli/quality_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "reports/error.h"
#include "reports/quality/kept_quality.h"
#include "reports/quality/looks.h"
#include "reports/quality/quality_json.h"
#include "reports/quality/quality_markdown.h"
#include "reports/quality/write_quality.h"
#include "suite/cli/output_format.h"

namespace noisemark::suite {
namespace {

using reports::QualityStudy;

std::optional<double> number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// "val_loss" or "val_loss=0.02".
reports::QualityGate gate_of(const std::string& words) {
  const size_t equals = words.find('=');
  if (equals == std::string::npos) return {words, {}};
  const auto margin = number(words.substr(equals + 1));
  if (!margin || !(*margin > 0)) {
    throw bad_input("quality", "--gate", words, "a margin above 0, as in val_loss=0.01");
  }
  return {words.substr(0, equals), margin};
}

/// "fid=3.1:3.4".
reports::QualityRange range_of(const std::string& words) {
  const size_t equals = words.find('=');
  const size_t colon = words.find(':', equals == std::string::npos ? 0 : equals);
  if (equals != std::string::npos && colon != std::string::npos) {
    const auto low = number(words.substr(equals + 1, colon - equals - 1));
    const auto high = number(words.substr(colon + 1));
    if (low && high) return {words.substr(0, equals), *low, *high};
  }
  throw bad_input("quality", "--range", words, "METRIC=LOW:HIGH, as in fid=3.1:3.4");
}

/// That may hold a quality.json of these runs.
std::vector<std::filesystem::path> folders_of(const Arguments& arguments) {
  std::vector<std::filesystem::path> folders(arguments.positional().begin(),
                                             arguments.positional().end());
  if (arguments.has("out")) folders.emplace_back(arguments.text("out"));
  return folders;
}

/// Without the slash that a shell adds.
std::filesystem::path plain(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(folder);
  return path.has_filename() ? path : path.parent_path();
}

/// `run` and `report` write quality.md of a suite's own runs into its folder, and a folder keeps
/// the looks of one study: what was asked for of other runs must not be lost to either.
void require_own_folder(const Arguments& arguments, const reports::Side& side) {
  const std::filesystem::path folder = arguments.text("out");
  const auto& given = arguments.positional();
  const bool of_it_alone = given.size() == 1 && plain(given.front()) == plain(folder);
  if (std::filesystem::exists(folder / "suite.json") && !of_it_alone) {
    throw bad_input("quality", "--out", folder.string(),
                    "a folder that is not a suite's, for what is judged are not its runs alone");
  }
  const auto kept = reports::kept_quality(folder);
  if (!kept || kept->options.earlier.empty()) return;
  const reports::RunIds runs = reports::run_ids_of(side);
  const auto& taken = kept->options.earlier;
  if (std::any_of(taken.begin(), taken.end(),
                  [&](const reports::RunIds& one) { return reports::share_a_run(one, runs); })) {
    return;
  }
  throw bad_input("quality", "--out", folder.string(),
                  "another folder: the quality.json there keeps the looks at other runs");
}

constexpr const char* kLookIsNotKept =
    "this look is not kept, and seeds that are added are judged as if it had never been: --out DIR "
    "keeps it";

}  // namespace

reports::QualityOptions quality_options(const Arguments& arguments) {
  reports::QualityOptions options;
  if (arguments.has("gate")) options.gates.clear();
  for (const std::string& words : arguments.texts("gate")) options.gates.push_back(gate_of(words));
  for (const std::string& words : arguments.texts("range")) {
    options.ranges.push_back(range_of(words));
  }
  return options;
}

Answer judge_seeds(const Arguments& arguments) {
  const std::string format = one_of(arguments, "quality", "format", {"md", "json"});
  const reports::Inconclusive inconclusive = inconclusive_of(arguments, "quality");
  reports::QualityOptions options = quality_options(arguments);
  const reports::QualitySide judged =
      reports::read_quality_side(arguments.positional(), arguments.text("out"));
  reports::take_up_looks(folders_of(arguments), judged.side, arguments.integer("looks", 1),
                         options);
  if (arguments.has("out")) require_own_folder(arguments, judged.side);
  QualityStudy study = reports::judge_quality(judged, options);
  study.inconclusive_passes = inconclusive == reports::Inconclusive::kWarns;
  Answer answer;
  answer.code = reports::exit_code_of(study);
  if (arguments.has("out")) {
    const std::filesystem::path folder = arguments.text("out");
    reports::write_quality(folder, study);
    answer.text = reports::quality_line(study) + "\n" + (folder / "quality.md").string() + "\n";
  } else {
    answer.text =
        format == "json" ? reports::quality_json(study) : reports::quality_markdown(study);
    if (reports::is_new_look(study.looks, options.earlier)) {
      fmt::print(stderr, "noisemark: quality: {}\n", kLookIsNotKept);
      if (format == "md") answer.text += fmt::format("\nNo quality.json: {}.\n", kLookIsNotKept);
    }
  }
  return answer;
}

}  // namespace noisemark::suite
