#include "reports/quality/locked_sampling.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;

/// Null where it is absent.
Json part(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) ? json.at(key) : Json();
}

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

/// A key of the definition, what it locks and what was found.
struct Locked {
  std::string key;
  Json wanted;
  Json found;
};

/// Of [sample], which a definition has where its sampler is not "none".
std::vector<Locked> sampling_keys(const Json& definition, const Json& drawn,
                                  const DistanceOrigin& origin, const Result& run) {
  const Json sample = part(definition, "sample");
  if (!sample.is_object()) return {};
  const Json sampler = part(drawn, "sampler");
  std::vector<Locked> keys = {
      {"sample.sampler", part(sample, "sampler"), part(sampler, "name")},
      {"sample.count", part(sample, "count"), origin.samples},
      {"sample.ddim_steps", part(sample, "ddim_steps"), part(sampler, "steps")},
      {"sample.ddim_eta", part(sample, "ddim_eta"), part(sampler, "eta")},
      {"sample.ddpm_variance", part(sample, "ddpm_variance"), part(sampler, "variance")},
      {"the seed", run.seeds.base, part(drawn, "seed")}};
  if (const Json source = part(part(drawn, "noise"), "source"); source.is_string()) {
    keys.push_back({"the initial noise", "drawn", source});
  }
  if (!origin.weights.empty()) {
    keys.push_back({"eval.weights", part(part(definition, "eval"), "weights"), origin.weights});
  }
  return keys;
}

std::vector<Locked> distance_keys(const Json& definition, const DistanceOrigin& origin) {
  // Left out of the definition while they are "any".
  const Json quality = part(definition, "quality");
  std::vector<Locked> keys = {
      {"quality.extractor", part(quality, "extractor"), origin.extractor},
      {"quality.resize", part(quality, "resize"), origin.resize},
  };
  const Json reference = part(quality, "reference");
  if (reference != origin.reference_sha256) {
    keys.push_back({"quality.reference", reference, origin.reference});
  }
  return keys;
}

}  // namespace

std::string why_not_locked_sampling(const Json& drawn, const DistanceOrigin& origin,
                                    const Result& run) {
  const Json definition = Json::parse(run.definition, nullptr, false);
  std::vector<Locked> keys = sampling_keys(definition, drawn, origin, run);
  for (Locked& one : distance_keys(definition, origin)) keys.push_back(std::move(one));
  for (const Locked& one : keys) {
    if (one.wanted.is_null() || one.wanted == one.found) continue;
    return fmt::format("{}: {}, and the run's definition locks {}", one.key, text_of(one.found),
                       text_of(one.wanted));
  }
  return "";
}

}  // namespace noisemark::reports
