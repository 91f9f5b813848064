#include "reports/quality/kept_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/quality/looks.h"
#include "reports/quality/quality_json.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFile = "quality.json";

KeptQuality kept_in(const Json& json) {
  KeptQuality kept;
  kept.inconclusive_passes = json.at("inconclusive_passes").get<bool>();
  QualityOptions& options = kept.options;
  options.gates.clear();
  for (const Json& gate : json.at("asked_gates")) {
    QualityGate& asked = options.gates.emplace_back();
    gate.at("measure").get_to(asked.measure);
    if (!gate.at("margin").is_null()) asked.margin = gate["margin"].get<double>();
  }
  for (const Json& range : json.at("asked_ranges")) {
    options.ranges.push_back({range.at("measure").get<std::string>(), range.at("low").get<double>(),
                              range.at("high").get<double>()});
  }
  json.at("alpha").get_to(options.alpha);
  json.at("power").get_to(options.power);
  json.at("resamples").get_to(options.resamples);
  json.at("seed").get_to(options.seed);
  json.at("looks").at("declared").get_to(options.looks);
  json.at("looks").at("taken").get_to(options.earlier);
  for (RunIds& runs : options.earlier) std::sort(runs.begin(), runs.end());
  return kept;
}

Error not_ours(const fs::path& file, const std::string& found) {
  return bad_input(file.string(), "", found,
                   fmt::format("what `noisemark quality --out` writes, {}; without the file the "
                               "runs are judged as if never before",
                               kQualitySchemaVersion));
}

void check_declared(int64_t looks) {
  if (looks >= 1 && looks <= kMostLooks) return;
  throw bad_input("quality", "--looks", std::to_string(looks), fmt::format("1 to {}", kMostLooks));
}

}  // namespace

std::optional<KeptQuality> kept_quality(const fs::path& folder) {
  const fs::path file = folder / kFile;
  if (!fs::exists(file)) return std::nullopt;
  const Json json = Json::parse(read_file(file), nullptr, false);
  try {
    const Json& schema = json.at("schema");
    const auto name = schema.at("name").get<std::string>();
    const auto version = schema.at("version").get<std::string>();
    if (name != kQualitySchemaName || version != kQualitySchemaVersion) {
      throw not_ours(file, name + " " + version);
    }
    KeptQuality kept = kept_in(json);
    check_declared(kept.options.looks);
    return kept;
  } catch (const Json::exception& error) {
    throw not_ours(file, error.what());
  }
}

void take_up_looks(const std::vector<fs::path>& folders, const Side& side,
                   std::optional<int64_t> declared, QualityOptions& options) {
  if (declared) check_declared(*declared);
  const RunIds runs = run_ids_of(side);
  std::optional<int64_t> known = declared;
  for (const fs::path& folder : folders) {
    const auto kept = kept_quality(folder);
    if (!kept) continue;
    const std::vector<RunIds>& taken = kept->options.earlier;
    const bool of_these = std::any_of(taken.begin(), taken.end(),
                                      [&](const RunIds& one) { return share_a_run(one, runs); });
    if (!of_these) continue;
    if (known && *known != kept->options.looks) {
      throw bad_input("quality", "--looks", std::to_string(*known),
                      fmt::format("{}, as was declared before the first look: {}",
                                  kept->options.looks, (folder / kFile).string()));
    }
    known = kept->options.looks;
    for (const RunIds& one : taken) {
      if (std::find(options.earlier.begin(), options.earlier.end(), one) == options.earlier.end()) {
        options.earlier.push_back(one);
      }
    }
  }
  options.looks = known.value_or(kDefaultLooks);
}

}  // namespace noisemark::reports
