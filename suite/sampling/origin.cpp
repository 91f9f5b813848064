#include "suite/sampling/origin.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/sha256.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kShownDigits = 12;  // of a checksum

/// "a/pictures/" and "a/pictures" are one folder.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

std::string sampler_words(const Json& sampler) {
  const auto name = sampler.at("name").get<std::string>();
  const bool ddim = name == "ddim";
  const Json& setting = sampler.at(ddim ? "eta" : "variance");
  return fmt::format("{}, {} steps, {} {}", name, sampler.at("steps").get<int64_t>(),
                     ddim ? "eta" : "variance",
                     setting.is_string() ? setting.get<std::string>() : setting.dump());
}

std::string weights_words(const Json& weights) {
  const Json& kind = weights.at("kind");
  const std::string which = kind.is_null() ? "" : kind == "ema" ? "averaged (EMA) " : "trained ";
  return which + "weights " + weights.at("sha256").get<std::string>().substr(0, kShownDigits);
}

std::string noise_words(const Json& record) {
  const Json& noise = record.at("noise");
  const std::string seed = fmt::format("seed {}", record.at("seed").get<uint64_t>());
  if (noise.at("source") == "drawn") return seed;
  return fmt::format("{}, initial noise of a file {}", seed,
                     noise.at("sha256").get<std::string>().substr(0, kShownDigits));
}

std::string precision_words(const Json& record) {
  const auto precision = record.at("execution").at("precision").get<std::string>();
  return precision.empty() ? "" : ", " + precision;
}

SamplingOrigin origin_of(const Json& record) {
  Json kept = Json::object();
  for (const char* name : {"definition", "weights", "sampler", "seed", "noise"}) {
    kept[name] = record.at(name);
  }
  // Not how long it took, which is no part of what was drawn.
  for (const char* name : {"baseline", "precision", "device"}) {
    kept["execution"][name] = record.at("execution").at(name);
  }
  return {fmt::format("{}, {}, {}{}", sampler_words(record.at("sampler")),
                      weights_words(record.at("weights")), noise_words(record),
                      precision_words(record)),
          kept.dump()};
}

/// Whether sampling.json speaks of what is there; false: it has no checksum of it. Throws where it
/// speaks of something else.
bool is_bound(const Json& samples, const fs::path& given, const std::string& sha256) {
  const bool pictures = given.filename() == "pictures";
  const char* key = pictures ? "pictures_sha256" : "sha256";
  if (!samples.contains(key)) return false;
  const std::string found = pictures ? sha256 : reports::sha256_of_file(given);
  if (samples.at(key).get<std::string>() == found) return true;
  throw bad_input(given.string(), "", "other samples than those that sampling.json speaks of",
                  "them unchanged, or no sampling.json beside them");
}

}  // namespace

std::optional<SamplingOrigin> sampling_origin(const fs::path& samples, int64_t count,
                                              const std::string& sha256) {
  const fs::path given = without_slash(samples);
  const std::string name = given.filename().string();
  const fs::path path = given.parent_path() / "sampling.json";
  if ((name != "pictures" && name != "samples.npy") || !fs::exists(path)) return std::nullopt;
  try {
    const Json record = Json::parse(reports::read_file(path));
    if (record.at("schema") != "noisemark.sampling") return std::nullopt;
    if (record.at("samples").at("shape").at(0).get<int64_t>() < count) return std::nullopt;
    SamplingOrigin origin = origin_of(record);
    if (!is_bound(record.at("samples"), given, sha256)) return std::nullopt;
    return origin;
  } catch (const Json::exception&) {
    throw bad_input(path.string(), "", "not what a sampling writes", "a whole sampling.json");
  }
}

}  // namespace noisemark::suite
