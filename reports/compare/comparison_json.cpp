#include "reports/compare/comparison_json.h"

#include <nlohmann/json.hpp>

#include "reports/compare/next_step.h"
#include "reports/json_values.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string_view direction_name(Direction direction) {
  if (direction == Direction::kNeutral) return "neutral";
  return direction == Direction::kLower ? "lower" : "higher";
}

Json json_of(const SideSummary& side) {
  return {{"name", side.name},
          {"runs", side.runs},
          {"commits", side.commits},
          {"repeat_commands", side.repeat_commands}};
}

Json json_of(const FieldDifference& d) {
  return {{"cell", d.cell}, {"field", d.field}, {"base", d.base}, {"candidate", d.candidate}};
}

Json json_of(const ExactRow& row) {
  return {{"cell", row.cell},
          {"metric", row.metric},
          {"unit", row.unit},
          {"base", or_null(row.base)},
          {"candidate", or_null(row.candidate)},
          {"base_digest", row.base_digest},
          {"candidate_digest", row.candidate_digest},
          {"verdict", verdict_name(row.verdict)},
          {"words", row.words}};
}

Json json_of(const StochasticRow& row) {
  return {{"cell", row.cell},
          {"metric", row.metric},
          {"unit", row.unit},
          {"direction", direction_name(row.direction)},
          {"gated", row.gated},
          {"pairs", row.pairs},
          {"base", or_null(row.base)},
          {"candidate", or_null(row.candidate)},
          {"ratio", or_null(row.ratio)},
          {"ratio_ci95", or_null(row.ratio_ci95)},
          {"p", or_null(row.p)},
          {"p_adjusted", or_null(row.p_adjusted)},
          {"margin_frac", row.margin_frac},
          {"noise_floor_frac", row.noise_floor_frac},
          {"session_deviation", row.session_deviation},
          {"stored", row.stored},
          {"conflict", row.conflict},
          {"detectable_frac", or_null(row.detectable_frac)},
          {"pairs_needed", or_null(row.pairs_needed)},
          {"verdict", row.judged() ? Json(verdict_name(row.verdict)) : Json(nullptr)},
          {"words", row.words}};
}

template <typename T>
Json rows(const std::vector<T>& items) {
  Json all = Json::array();
  for (const T& item : items) all.push_back(json_of(item));
  return all;
}

}  // namespace

std::string comparison_json(const Comparison& c) {
  const Json json = {
      {"schema", {{"name", kComparisonSchemaName}, {"version", kComparisonSchemaVersion}}},
      {"verdict", verdict_name(c.verdict)},
      {"exit_code", static_cast<int>(exit_code_of(c))},
      {"let_pass", let_pass(c)},
      {"reasons", c.reasons},
      {"base", json_of(c.base)},
      {"candidate", json_of(c.candidate)},
      {"cells", c.cells},
      {"differences", rows(c.differences)},
      {"environment_differences", rows(c.environment)},
      {"only_base", c.only_base},
      {"only_candidate", c.only_candidate},
      {"unpaired", c.unpaired},
      {"without_result", c.without_result},
      {"exact", rows(c.exact)},
      {"stochastic", rows(c.stochastic)},
      {"notes", c.notes},
      {"next_step", next_step(c)},
      {"noise_left_out", c.noise_left_out},
      {"alpha", c.alpha},
      {"resamples", c.resamples},
      {"seed", c.seed}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
