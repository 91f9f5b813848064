// Answers questions about samples, so that a Python script can compare the answers with SciPy's:
// one JSON object per line in, one per line out.
//   {"statistic": "signed_rank", "values": [1, -2, 3], "alternative": "greater"}

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/compare/inference.h"
#include "reports/history/change_points.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;
using Values = std::vector<double>;

Values values(const Json& question, const char* name = "values") {
  return question.at(name).get<Values>();
}

Alternative alternative(const Json& question) {
  const std::string name = question.at("alternative");
  if (name == "greater") return Alternative::kGreater;
  return name == "less" ? Alternative::kLess : Alternative::kTwoSided;
}

Json reply(const Equivalence& e) {
  return {{"difference", e.difference}, {"degrees", e.degrees}, {"p_lower", e.p_lower},
          {"p_upper", e.p_upper},       {"p", e.p()},           {"low", e.interval.low},
          {"high", e.interval.high}};
}

Json signed_rank(const Json& q) {
  const SignedRank found = wilcoxon_signed_rank(values(q), alternative(q));
  return {{"statistic", found.statistic}, {"p", found.p}};
}

Json estimate(const Json& q) {
  const BootstrapOptions options{q.at("resamples"), q.at("seed"), q.at("confidence")};
  const Interval interval = bootstrap_hodges_lehmann(values(q), options);
  return {{"estimate", hodges_lehmann(values(q))}, {"low", interval.low}, {"high", interval.high}};
}

Json found_changes(const Json& q) {
  const ChangePointOptions options{q.at("level"), q.at("permutations"), q.at("seed"),
                                   q.at("shortest")};
  Json changes = Json::array();
  for (const ChangePoint& change : change_points(values(q), options)) {
    changes.push_back({{"at", change.at}, {"p", change.p}});
  }
  return changes;
}

Json found_split(const Json& q) {
  const Split split = best_split(values(q), q.at("shortest"));
  return {{"at", split.at}, {"energy", split.energy}};
}

Sensitivity sensitivity(const Json& q) {
  return {q.at("alpha"), q.at("power")};
}

const std::map<std::string, std::function<Json(const Json&)>>& statistics() {
  static const std::map<std::string, std::function<Json(const Json&)>> table = {
      {"signed_rank", signed_rank},
      {"estimate", estimate},
      {"change_points", found_changes},
      {"best_split", found_split},
      {"holm", [](const Json& q) { return Json(holm(values(q))); }},
      {"benjamini_hochberg", [](const Json& q) { return Json(benjamini_hochberg(values(q))); }},
      {"paired",
       [](const Json& q) {
         return reply(paired_equivalence(values(q), q.at("margin"), q.at("alpha")));
       }},
      {"welch",
       [](const Json& q) {
         return reply(welch_equivalence(values(q, "base"), values(q, "candidate"), q.at("margin"),
                                        q.at("alpha")));
       }},
      {"proportion",
       [](const Json& q) {
         const Interval interval =
             clopper_pearson(q.at("hits"), q.at("trials"), q.at("confidence"));
         return Json{{"low", interval.low}, {"high", interval.high}};
       }},
      {"detectable",
       [](const Json& q) {
         return Json(smallest_detectable(q.at("deviation"), q.at("pairs"), sensitivity(q)));
       }},
      {"pairs",
       [](const Json& q) {
         return Json(pairs_to_detect(q.at("deviation"), q.at("difference"), sensitivity(q)));
       }},
  };
  return table;
}

}  // namespace
}  // namespace noisemark::reports

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      const auto question = noisemark::reports::Json::parse(line);
      const auto& answer = noisemark::reports::statistics().at(question.at("statistic"));
      std::cout << answer(question).dump() << "\n";
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "probe: %s\n", error.what());
    return 2;
  }
  return 0;
}
