#include "reports/export/bencher.h"

#include <nlohmann/json.hpp>

namespace noisemark::reports {

using Json = nlohmann::ordered_json;

std::string bencher_json(const std::vector<Figure>& figures) {
  Json benchmarks = Json::object();
  for (const Figure& figure : figures) {
    Json metric = {{"value", figure.value}};
    if (figure.interval) {
      metric["lower_value"] = figure.interval->low;
      metric["upper_value"] = figure.interval->high;
    }
    benchmarks[figure.cell][figure.metric] = std::move(metric);
  }
  return benchmarks.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
