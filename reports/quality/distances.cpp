#include "reports/quality/distances.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/quality/distance_file.h"
#include "reports/quality/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFolder = "distances";

std::vector<RunDistance> read_file_of(const fs::path& file, const Result& run) {
  return distances_in(Json::parse(read_file(file), nullptr, false), run,
                      fmt::format("{}/{}", kFolder, file.filename().string()), file.string());
}

fs::path folder_of(const NamedResult& run) {
  const fs::path path = run.name;
  return fs::is_directory(path) ? path : path.parent_path();
}

std::vector<fs::path> files_of(const NamedResult& run) {
  const fs::path folder = folder_of(run) / kFolder;
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const NamedResult& run_of(const RunDistance& distance, const Side& side) {
  return *std::find_if(side.runs.begin(), side.runs.end(), [&](const NamedResult& run) {
    return run.result.run_id == distance.run_id;
  });
}

void require_each_once(const std::vector<RunDistance>& of_a_run) {
  std::map<std::string, std::string> files;
  for (const RunDistance& one : of_a_run) {
    const auto [first, is_new] = files.emplace(one.origin.metric, one.file);
    if (is_new) continue;
    throw bad_input(one.file, "", one.origin.metric + " a second time, as in " + first->second,
                    "each once");
  }
}

}  // namespace

std::vector<RunDistance> read_distances(const Side& side) {
  std::vector<RunDistance> all;
  for (const NamedResult& run : side.runs) {
    std::vector<RunDistance> of_run;
    for (const fs::path& file : files_of(run)) {
      for (RunDistance& one : read_file_of(file, run.result)) of_run.push_back(std::move(one));
    }
    require_each_once(of_run);
    all.insert(all.end(), of_run.begin(), of_run.end());
  }
  return all;
}

void attach_distances(const std::vector<RunDistance>& distances, Side& side) {
  for (NamedResult& run : side.runs) {
    for (const RunDistance& distance : distances) {
      if (distance.run_id != run.result.run_id) continue;
      Metric metric{distance.origin.metric,
                    "1",
                    distance.direction,
                    {},
                    distance.problem,
                    "exact",
                    {},
                    1,
                    ""};
      if (distance.problem.empty()) metric.value = distance.value;
      std::erase_if(run.result.metrics,
                    [&](const Metric& other) { return other.name == metric.name; });
      run.result.metrics.push_back(std::move(metric));
    }
  }
}

std::vector<DistanceValue> distance_values(const std::vector<RunDistance>& distances,
                                           const Side& side) {
  std::vector<DistanceValue> values;
  for (const RunDistance& one : distances) {
    const Result& run = run_of(one, side).result;
    DistanceValue value;
    value.benchmark = workload_name(run.identity);
    value.variant = variant_name(run.identity);
    value.seed = run.seeds.base;
    value.metric = one.origin.metric;
    value.samples = one.origin.samples;
    value.value = one.value;
    value.standard_error = one.standard_error;
    value.interval = one.interval;
    value.problem = one.problem;
    values.push_back(std::move(value));
  }
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
    return std::tie(a.benchmark, a.variant, a.seed, a.metric) <
           std::tie(b.benchmark, b.variant, b.seed, b.metric);
  });
  return values;
}

std::vector<std::string> distance_problems(const std::vector<RunDistance>& distances,
                                           const Side& side) {
  std::map<std::string, DistanceOrigin> origins;
  std::map<std::tuple<std::string, std::string, uint64_t>, std::string> noises;
  std::set<std::string> problems;
  for (const RunDistance& one : distances) {
    const Result& run = run_of(one, side).result;
    const std::string workload = workload_name(run.identity);
    const std::string metric = fmt::format("{}: {}", workload, one.origin.metric);
    const auto [origin, first] = origins.emplace(metric, one.origin);
    if (!first && origin->second != one.origin) {
      problems.insert(metric + ": not measured in the same way in every run");
    }
    const auto [noise, first_noise] =
        noises.emplace(std::tuple(workload, one.origin.metric, run.seeds.base), one.noise_sha256);
    if (!first_noise && noise->second != one.noise_sha256) {
      problems.insert(fmt::format("{}: other initial noise under another mode, seed {}", metric,
                                  run.seeds.base));
    }
  }
  return {problems.begin(), problems.end()};
}

}  // namespace noisemark::reports
