#include "reports/quality/quality_json.h"

#include <nlohmann/json.hpp>

#include "reports/json_values.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SeedPair& pair) {
  return {{"seed", pair.seed},
          {"reference", pair.reference},
          {"candidate", pair.candidate},
          {"worsening", pair.worsening}};
}

template <typename T>
Json rows(const std::vector<T>& items);

Json json_of(const VariantRuns& variant) {
  return {{"benchmark", variant.benchmark},
          {"variant", variant.variant},
          {"seeds", variant.seeds},
          {"run_ids", variant.run_ids},
          {"commits", variant.commits},
          {"remarks", variant.remarks},
          {"repeat_command", variant.repeat_command}};
}

Json json_of(const QualityRow& row) {
  return {{"benchmark", row.benchmark},
          {"variant", row.variant},
          {"reference", row.reference},
          {"measure", row.measure},
          {"timestep", or_null(row.timestep)},
          {"unit", row.unit},
          {"scale", row.scale == DifferenceScale::kLogRatio ? "log-ratio" : "difference"},
          {"gated", row.gated},
          {"margin", row.gated ? Json(row.margin) : Json(nullptr)},
          {"margin_from", row.margin_from},
          {"seeds", rows(row.seeds)},
          {"reference_mean", or_null(row.reference_mean)},
          {"candidate_mean", or_null(row.candidate_mean)},
          {"correlation", or_null(row.correlation)},
          {"design", row.design ? Json(design_name(*row.design)) : Json(nullptr)},
          {"difference", or_null(row.difference)},
          {"interval", or_null(row.interval)},
          {"degrees", or_null(row.degrees)},
          {"p", or_null(row.p)},
          {"p_adjusted", or_null(row.p_adjusted)},
          {"detectable", or_null(row.detectable)},
          {"seeds_needed", or_null(row.seeds_needed)},
          {"verdict", row.gated ? Json(verdict_name(row.verdict)) : Json(nullptr)},
          {"words", row.words}};
}

Json json_of(const RangeRow& row) {
  return {{"benchmark", row.benchmark},
          {"variant", row.variant},
          {"measure", row.measure},
          {"unit", row.unit},
          {"low", row.low},
          {"high", row.high},
          {"seeds", row.seeds},
          {"mean", or_null(row.mean)},
          {"interval", or_null(row.interval)},
          {"verdict", verdict_name(row.verdict)},
          {"words", row.words}};
}

Json json_of(const StepRow& row) {
  return {{"tier", row.tier},
          {"benchmark", row.benchmark},
          {"variant", row.variant},
          {"reference", row.reference},
          {"seeds", row.seeds},
          {"value", or_null(row.value)},
          {"bound", or_null(row.bound)},
          {"verdict", row.verdict ? Json(verdict_name(*row.verdict)) : Json(nullptr)},
          {"words", row.words}};
}

Json json_of(const KernelOrigin& one) {
  return {{"subsets", one.subsets},
          {"subset_size", one.subset_size},
          {"draws", one.draws},
          {"seed", or_null(one.seed)}};
}

Json json_of(const DistanceOrigin& one) {
  return {{"metric", one.metric},
          {"name", one.name},
          {"extractor", one.extractor},
          {"checksum", one.checksum},
          {"resize", one.resize},
          {"resize_asserted", one.resize_asserted},
          {"dimension", one.dimension},
          {"samples", one.samples},
          {"kernel", one.kernel ? json_of(*one.kernel) : Json(nullptr)},
          {"definition", one.definition},
          {"sampler", one.sampler},
          {"weights", one.weights},
          {"noise", one.noise},
          {"precision", one.precision},
          {"reference", one.reference},
          {"reference_samples", or_null(one.reference_samples)},
          {"reference_sha256", one.reference_sha256}};
}

Json json_of(const DistanceValue& one) {
  return {{"benchmark", one.benchmark},
          {"variant", one.variant},
          {"seed", one.seed},
          {"metric", one.metric},
          {"samples", one.samples},
          {"value", or_null(one.value)},
          {"standard_error", or_null(one.standard_error)},
          {"interval", or_null(one.interval)},
          {"problem", one.problem}};
}

Json json_of(const QualityGate& gate) {
  return {{"measure", gate.measure}, {"margin", or_null(gate.margin)}};
}

Json json_of(const QualityRange& range) {
  return {{"measure", range.measure}, {"low", range.low}, {"high", range.high}};
}

Json json_of(const Looks& looks) {
  return {{"declared", looks.declared}, {"number", looks.number}, {"taken", looks.taken}};
}

Json json_of(const FieldDifference& d) {
  return {{"cell", d.cell}, {"field", d.field}, {"reference", d.base}, {"candidate", d.candidate}};
}

template <typename T>
Json rows(const std::vector<T>& items) {
  Json all = Json::array();
  for (const T& item : items) all.push_back(json_of(item));
  return all;
}

}  // namespace

std::string quality_json(const QualityStudy& study) {
  const Json json = {{"schema", {{"name", kQualitySchemaName}, {"version", kQualitySchemaVersion}}},
                     {"verdict", verdict_name(study.verdict)},
                     {"exit_code", static_cast<int>(exit_code_of(study))},
                     {"reasons", study.reasons},
                     {"variants", rows(study.variants)},
                     {"rows", rows(study.rows)},
                     {"ranges", rows(study.ranges)},
                     {"steps", rows(study.steps)},
                     {"distances", rows(study.distances)},
                     {"distance_values", rows(study.distance_values)},
                     {"sheets", study.sheets},
                     {"differences", rows(study.differences)},
                     {"unpaired", study.unpaired},
                     {"without_result", study.without_result},
                     {"notes", study.notes},
                     {"inconclusive_passes", study.inconclusive_passes},
                     {"asked_gates", rows(study.asked_gates)},
                     {"asked_ranges", rows(study.asked_ranges)},
                     {"looks", json_of(study.looks)},
                     {"alpha", study.alpha},
                     {"power", study.power},
                     {"tests", study.tests},
                     {"resamples", study.resamples},
                     {"seed", study.seed}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
