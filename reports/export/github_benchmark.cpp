#include "reports/export/github_benchmark.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/quantity.h"

namespace noisemark::reports {

using Json = nlohmann::ordered_json;

std::string github_benchmark_json(const std::vector<Figure>& figures, Direction direction) {
  if (direction == Direction::kNeutral) {
    throw std::logic_error("github-action-benchmark needs to know which way is good");
  }
  Json entries = Json::array();
  for (const Figure& figure : figures) {
    if (figure.direction != direction) continue;
    Json entry = {{"name", fmt::format("{}: {}", figure.cell, figure.metric)},
                  {"unit", figure.unit},
                  {"value", figure.value}};
    if (figure.interval) {
      entry["range"] = fmt::format("{} to {}", format_number(figure.interval->low),
                                   format_number(figure.interval->high));
    }
    entry["extra"] = figure.note;
    entries.push_back(std::move(entry));
  }
  return entries.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace noisemark::reports
