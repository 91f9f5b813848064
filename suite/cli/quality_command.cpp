#include "suite/cli/quality_command.h"

#include <fmt/format.h>

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
  const reports::QualitySide judged = reports::read_quality_side(arguments.positional());
  reports::take_up_looks(folders_of(arguments), judged.side, arguments.integer("looks", 1),
                         options);
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
