#include "reports/seeds/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/json_writer.h"
#include "reports/base/quantity.h"
#include "reports/result/json_io.h"
#include "reports/seeds/study_fields.h"

namespace noisemark::reports {

namespace {

using json::kQualityDocument;

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
  throw bad_input(where, "", fmt::format("look {} is not at the runs that it judged", looks.number),
                  "");
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
  QualityStudy file = study;
  file.exit_code = static_cast<int>(exit_code_of(study));
  OrderedJson json = beginning_of(kQualityDocument);
  json.update(json::tree_of(file));
  return with_checksum(json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

QualityStudy quality_from_json(std::string_view text, const std::string& where) {
  try {
    auto study = read_document<QualityStudy>(text, kQualityDocument, where);
    require_own_look(study, where);
    return study;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; without the file the runs are judged as if never "
                                          "before",
                                          error.what()));
  }
}

std::string difference_text(const QualityRow& row, double difference) {
  if (row.is_ratio()) return fmt::format("{:+.3f} %", 100 * std::expm1(difference));
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
  if (row.is_ratio()) return fmt::format("{:g} %", 100 * row.margin.value());
  return format_number(row.margin.value());
}

std::string measure_text(const QualityRow& row) {
  return row.timestep ? fmt::format("{} at t {}", row.measure, *row.timestep) : row.measure;
}

double alpha_of_a_look(double alpha, int64_t declared) {
  if (declared < 1) throw std::logic_error("looks: fewer than one");
  return alpha / static_cast<double>(declared);
}

double alpha_of_a_family(double alpha, int64_t declared, const std::vector<QualityGate>& gates,
                         const std::vector<QualityRange>& ranges) {
  const bool both = !gates.empty() && !ranges.empty();
  return alpha_of_a_look(alpha, declared) / (both ? 2 : 1);
}

RunIds run_ids_of(const Side& side) {
  RunIds ids;
  for (const NamedResult& run : side.runs) ids.push_back(run.result.run_id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool share_a_run(const RunIds& a, const RunIds& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& id) {
    return std::binary_search(b.begin(), b.end(), id);
  });
}

Looks next_look(const RunIds& runs, int64_t declared, const std::vector<RunIds>& earlier) {
  Looks looks;
  looks.declared = declared;
  // A study grows: whoever shares a run with one of its looks has them all behind him.
  const bool continued = std::any_of(earlier.begin(), earlier.end(),
                                     [&](const RunIds& one) { return share_a_run(one, runs); });
  if (continued) looks.taken = earlier;
  const auto same = std::find(looks.taken.begin(), looks.taken.end(), runs);
  looks.number = (same - looks.taken.begin()) + 1;
  return looks;
}

bool none_is_left(const Looks& looks) {
  return looks.number > looks.declared;
}

void count_look(const RunIds& runs, Looks& looks) {
  if (none_is_left(looks) || looks.number <= static_cast<int64_t>(looks.taken.size())) return;
  looks.taken.push_back(runs);
}

std::string no_look_words(const Looks& looks) {
  return fmt::format(
      "{} declared {} taken: nothing more can be claimed of these runs",
      looks.declared == 1 ? "the one look" : fmt::format("the {} looks", looks.declared),
      looks.declared == 1 ? "was" : "were");
}

bool is_new_look(const Looks& looks, const std::vector<RunIds>& earlier) {
  return std::any_of(looks.taken.begin(), looks.taken.end(), [&](const RunIds& one) {
    return std::find(earlier.begin(), earlier.end(), one) == earlier.end();
  });
}

}  // namespace noisemark::reports
