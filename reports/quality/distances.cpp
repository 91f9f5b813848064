#include "reports/quality/distances.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/quality/variants.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFolder = "distances";
constexpr int64_t kVersion = 1;

std::string text_or_empty(const Json& json) {
  return json.is_string() ? json.get<std::string>() : "";
}

std::string sampler_of(const Json& drawn) {
  const Json& sampler = drawn.at("sampler");
  const auto name = sampler.at("name").get<std::string>();
  const char* setting = name == "ddim" ? "eta" : "variance";
  const Json& value = sampler.at(setting);
  return fmt::format("{}, {} steps, {} {}", name, sampler.at("steps").get<int64_t>(), setting,
                     value.is_string() ? value.get<std::string>() : value.dump());
}

/// What is said of one distance file, for each of its metrics.
class DistanceFile {
 public:
  DistanceFile(const Json& json, const Result& run, const std::string& file)
      : json_(json), a_(json.at("a")), b_(json.at("b")) {
    distance_.run_id = run.run_id;
    distance_.file = file;
    fill_origin();
    distance_.problem = problem(run);
  }

  std::vector<RunDistance> all() const {
    const auto name = json_.at("name").get<std::string>();
    const bool fid = name == "FID";
    std::vector<RunDistance> distances = {
        named(fid ? "fid" : distance_.origin.extractor + "_distance", name, json_.at("value"))};
    if (json_.contains("kernel")) {
      distances.push_back(named(fid ? "kid" : distance_.origin.extractor + "_kernel_distance",
                                fid ? "KID" : name + ", kernel", json_["kernel"].at("mean")));
    }
    return distances;
  }

 private:
  void fill_origin() {
    DistanceOrigin& origin = distance_.origin;
    const Json& extractor = a_.at("extractor");
    origin.extractor = text_or_empty(extractor.at("name"));
    origin.checksum = text_or_empty(extractor.at("checksum"));
    origin.resize = text_or_empty(extractor.at("resize"));
    origin.dimension = json_.at("d").get<int64_t>();
    origin.samples = a_.at("n").is_null() ? 0 : a_.at("n").get<int64_t>();
    origin.reference = fs::path(b_.at("name").get<std::string>()).filename().string();
    if (!b_.at("n").is_null()) origin.reference_samples = b_.at("n").get<int64_t>();
    if (b_.contains("moments_sha256"))
      origin.reference_sha256 = text_or_empty(b_["moments_sha256"]);
    const Json drawn = a_.value("drawn", Json());
    if (!drawn.is_object()) return;
    origin.sampler = sampler_of(drawn);
    origin.weights = text_or_empty(drawn.at("weights").at("kind"));
    distance_.noise_sha256 = text_or_empty(drawn.at("noise").at("sha256"));
  }

  std::string problem(const Result& run) const {
    const Json drawn = a_.value("drawn", Json());
    if (!drawn.is_object()) return "nothing says which weights drew the samples";
    const auto sha256 = text_or_empty(drawn.at("weights").at("sha256"));
    const Determinism& trained = run.determinism;
    if (sha256.empty() || (sha256 != trained.weights_sha256 && sha256 != trained.ema_sha256)) {
      return "the samples were drawn with other weights than this run's";
    }
    if (!a_.at("gateable").get<bool>() || !b_.at("gateable").get<bool>()) {
      return fmt::format("fewer than 2 d = {} samples: N = {}", 2 * distance_.origin.dimension,
                         distance_.origin.samples);
    }
    return "";
  }

  RunDistance named(const std::string& metric, const std::string& name, const Json& value) const {
    RunDistance one = distance_;
    one.origin.metric = metric;
    one.origin.name = name;
    if (value.is_number() && std::isfinite(value.get<double>())) {
      one.value = value.get<double>();
    } else {
      one.problem = "it is no finite number";
    }
    return one;
  }

  const Json& json_;
  const Json& a_;
  const Json& b_;
  RunDistance distance_;
};

std::vector<RunDistance> read_file_of(const fs::path& file, const Result& run) {
  const Json json = Json::parse(read_file(file), nullptr, false);
  try {
    if (json.at("schema") != "noisemark.distance" || json.at("version") != kVersion) {
      throw bad_input(file.string(), "schema", json.at("schema").dump(), "noisemark.distance 1");
    }
    return DistanceFile(json, run, fmt::format("{}/{}", kFolder, file.filename().string())).all();
  } catch (const Json::exception& error) {
    throw bad_input(file.string(), "", error.what(), "what `noisemark fid --json` writes");
  }
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
      Metric metric{
          distance.origin.metric, "1", Direction::kLower, {}, distance.problem, "exact", {}, 1, ""};
      if (distance.problem.empty()) metric.value = distance.value;
      std::erase_if(run.result.metrics,
                    [&](const Metric& other) { return other.name == metric.name; });
      run.result.metrics.push_back(std::move(metric));
    }
  }
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
