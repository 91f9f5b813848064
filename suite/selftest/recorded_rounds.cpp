#include "suite/selftest/recorded_rounds.h"

#include <string>

#include "reports/json_io.h"

namespace noisemark::suite {
namespace {

reports::Side side_of(const std::string& name) {
  reports::Side side;
  side.name = "recorded/" + name;
  for (const RecordedFile& file : recorded_files()) {
    if (!file.name.starts_with(name + "/")) continue;
    const std::string where = "suite/selftest/recorded/" + std::string(file.name) + "/result.json";
    side.runs.push_back({std::string(file.name), reports::from_json(file.text, where)});
  }
  return side;
}

}  // namespace

RecordedRounds recorded_rounds() {
  return {side_of("base"), side_of("new")};
}

}  // namespace noisemark::suite
