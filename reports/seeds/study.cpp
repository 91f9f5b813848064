#include "reports/seeds/study.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reports/base/error.h"
#include "reports/base/json.h"
#include "reports/base/json_reader.h"
#include "reports/base/json_writer.h"
#include "reports/base/quantity.h"
#include "reports/base/sealed_json.h"
#include "reports/base/sha256.h"
#include "reports/result/json_io.h"
#include "reports/seeds/study_fields.h"

namespace noisemark::reports {

namespace {

using json::kQualityDocument;
using json::Path;
using Json = nlohmann::json;

Error not_ours(const std::string& where, const std::string& found) {
  return bad_input(where, "", found,
                   fmt::format("what `noisemark quality --out` writes, {}; without the file the "
                               "runs are judged as if never before",
                               kQualityDocument.version));
}

Json parsed(std::string_view text, const std::string& where) {
  require_shallow(text, where);
  try {
    return Json::parse(text, RefuseDoubles<Json>(where));
  } catch (const Json::exception& error) {
    throw not_ours(where, fault_words(text, error));
  }
}

void require_our_version(const Json& file, const json::Reader& reader, const std::string& where) {
  const Path top;
  const Path path{&top, "schema"};
  const Json& schema = reader.at(file, "schema", top);
  std::string name;
  std::string version;
  reader.value(reader.at(schema, "name", path), name, Path{&path, "name"});
  reader.value(reader.at(schema, "version", path), version, Path{&path, "version"});
  if (name == kQualityDocument.name && version == kQualityDocument.version) return;
  throw not_ours(where, name + " " + version);
}

/// A list of looks that was shortened would give a study more of them than it pays for.
void require_whole(std::string_view text, const Json& file, const json::Reader& reader,
                   const std::string& where) {
  std::string stated;
  reader.value(reader.at(file, "checksum", Path{}), stated, Path{nullptr, "checksum"});
  const std::string expected = expected_checksum(text, stated);
  if (!expected.empty() && expected == stated) return;
  throw not_ours(where, "the file was changed after it was written, or not written whole");
}

/// A study that claims something has taken its look, which is at the runs that it names.
void require_own_look(const QualityStudy& study, const std::string& where) {
  const Looks& looks = study.looks;
  const auto taken = static_cast<int64_t>(looks.taken.size());
  if (looks.number < 1 || taken < looks.number - 1) {
    throw bad_input(where, "looks.number", std::to_string(looks.number),
                    fmt::format("1 to {}, because {} were taken", taken + 1, taken));
  }
  const bool claims = study.tests > 0 || !study.ranges.empty();
  if (!claims || looks.number > looks.declared) return;
  RunIds own;
  for (const VariantRuns& variant : study.variants) {
    own.insert(own.end(), variant.run_ids.begin(), variant.run_ids.end());
  }
  std::sort(own.begin(), own.end());
  if (taken >= looks.number) {
    RunIds stated = looks.taken[looks.number - 1];
    std::sort(stated.begin(), stated.end());
    if (stated == own) return;
  }
  throw not_ours(where, fmt::format("look {} is not at the runs that it judged", looks.number));
}

}  // namespace

std::string_view verdict_name(QualityVerdict verdict) {
  return json::name_of(verdict);
}

ExitCode exit_code_of(QualityVerdict verdict) {
  switch (verdict) {
    case QualityVerdict::kPass:
      return ExitCode::kPass;
    case QualityVerdict::kInconclusive:
      return ExitCode::kInconclusive;
    case QualityVerdict::kBaselineNeeded:
      return ExitCode::kBaselineNeeded;
    case QualityVerdict::kNotComparable:
      return ExitCode::kNotComparable;
    case QualityVerdict::kFail:
      return ExitCode::kFailed;
  }
  throw std::logic_error("exit_code_of: not a verdict of quality");
}

ExitCode exit_code_of(const QualityStudy& study) {
  const bool inconclusive = study.verdict == QualityVerdict::kInconclusive;
  return inconclusive && study.inconclusive_passes ? ExitCode::kPass : exit_code_of(study.verdict);
}

std::string_view design_name(TestDesign design) {
  return json::name_of(design);
}

std::string quality_json(const QualityStudy& study) {
  const std::string zeros(64, '0');
  QualityStudy file = study;
  file.exit_code = static_cast<int>(exit_code_of(study));
  nlohmann::ordered_json json = {
      {"schema", {{"name", kQualityDocument.name}, {"version", kQualityDocument.version}}},
      {"checksum", zeros}};
  json.update(json::tree_of(file));
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string key = "\"checksum\": \"";
  return text.replace(text.find(key + zeros) + key.size(), zeros.size(), sha256_of(text));
}

QualityStudy quality_from_json(std::string_view text, const std::string& where) {
  const Json file = parsed(text, where);
  const json::Reader reader(where);
  require_our_version(file, reader, where);
  QualityStudy study;
  reader.members(file, study, Path{}, {"schema", "checksum"});
  require_whole(text, file, reader, where);
  require_own_look(study, where);
  return study;
}

namespace {

bool is_ratio(const QualityRow& row) {
  return row.scale == DifferenceScale::kLogRatio;
}

}  // namespace

std::string difference_text(const QualityRow& row, double difference) {
  if (is_ratio(row)) return fmt::format("{:+.3f} %", 100 * std::expm1(difference));
  return fmt::format("{:+.6g}", difference);
}

std::string size_text(const QualityRow& row, double difference) {
  return difference_text(row, difference).substr(1);
}

std::string interval_text(const QualityRow& row, const Interval& interval) {
  return fmt::format("{} to {}", difference_text(row, interval.low),
                     difference_text(row, interval.high));
}

std::string margin_text(const QualityRow& row) {
  if (is_ratio(row)) return fmt::format("{:g} %", 100 * row.margin.value());
  return format_number(row.margin.value());
}

std::string measure_text(const QualityRow& row) {
  return row.timestep ? fmt::format("{} at t {}", row.measure, *row.timestep) : row.measure;
}

}  // namespace noisemark::reports
