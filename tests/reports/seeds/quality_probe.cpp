// Answers questions about seeds, so that a Python script can compare the answers with SciPy's: one
// JSON object per line in, one per line out.
//   {"statistic": "tost", "reference": [1, 2, 3], "candidate": [1, 2, 4], "margin": 1, "alpha":
//   0.05}

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/seeds/difference_test.h"
#include "reports/seeds/gates.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;
using Values = std::vector<double>;

Values values(const Json& question, const char* name) {
  return question.at(name).get<Values>();
}

Json tost(const Json& q) {
  const DifferenceTest test = test_difference({values(q, "reference"), values(q, "candidate")},
                                              q.at("margin"), q.at("alpha"));
  const Equivalence& e = test.equivalence;
  return {{"paired", test.design == TestDesign::kPaired ? 1 : 0},
          {"correlation", test.correlation.value_or(0)},
          {"difference", e.difference},
          {"degrees", e.degrees},
          {"p_lower", e.p_lower},
          {"p_upper", e.p_upper},
          {"p", e.p()},
          {"p_worse", test.p_worse},
          {"p_better", test.p_better},
          {"low", e.interval.low},
          {"high", e.interval.high}};
}

EstimatedDifference estimated(const Json& q) {
  return {q.at("standard_error"), q.at("degrees")};
}

const std::map<std::string, std::function<Json(const Json&)>>& statistics() {
  static const std::map<std::string, std::function<Json(const Json&)>> table = {
      {"tost", tost},
      {"power",
       [](const Json& q) {
         return Json(
             equivalence_power(estimated(q), q.at("difference"), q.at("margin"), q.at("alpha")));
       }},
      {"detectable",
       [](const Json& q) {
         return Json(detectable_difference(estimated(q), {q.at("alpha"), q.at("power")}));
       }},
      {"seeds",
       [](const Json& q) {
         const TestDesign design = q.at("paired") ? TestDesign::kPaired : TestDesign::kWelch;
         const auto seeds =
             seeds_to_decide({design, q.at("variance"), q.at("difference"), q.at("margin")},
                             {q.at("alpha"), q.at("power")});
         return Json(seeds.value_or(0));
       }},
      {"resampled",
       [](const Json& q) {
         const Interval interval =
             resampled_interval(q.at("value"), values(q, "replicates"), q.at("confidence"));
         return Json{{"low", interval.low}, {"high", interval.high}};
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
