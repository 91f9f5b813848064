#include "reports/result/definition.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "reports/base/json.h"
#include "reports/base/sha256.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;

/// The value of a key, null where it is absent.
Json part(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? Json(nullptr) : *found;
}

std::optional<std::string> text_in(const Json& section, const char* key) {
  const Json value = part(section, key);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

std::optional<int64_t> integer_in(const Json& section, const char* key) {
  const Json value = part(section, key);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::optional<double> number_in(const Json& section, const char* key) {
  const Json value = part(section, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

DefinitionView::DeclaredGate gate_of(const std::string& name, const Json& declared) {
  DefinitionView::DeclaredGate gate;
  gate.name = name;
  gate.metric = text_in(declared, "metric");
  gate.at_most = !part(declared, "max").is_null();
  gate.bound = number_in(declared, gate.at_most ? "max" : "min").value_or(0);
  const Json precisions = part(declared, "precisions");
  if (precisions.is_array()) {
    gate.precisions.emplace();
    for (const Json& one : precisions) {
      if (one.is_string()) gate.precisions->push_back(one.get<std::string>());
    }
  }
  return gate;
}

std::optional<DefinitionView::Sample> sample_in(const Json& definition) {
  const Json section = part(definition, "sample");
  if (!section.is_object()) return std::nullopt;
  return DefinitionView::Sample{
      text_in(section, "sampler"),       integer_in(section, "count"),
      integer_in(section, "ddim_steps"), number_in(section, "ddim_eta"),
      text_in(section, "grid"),          text_in(section, "ddpm_variance")};
}

}  // namespace

bool DefinitionView::DeclaredGate::must_apply(const Identity& identity) const {
  return !identity.custom && (!precisions || std::find(precisions->begin(), precisions->end(),
                                                       identity.precision) != precisions->end());
}

namespace {

Json json_of(const Result& result) {
  const bool too_deep = is_nested_too_deeply(result.definition);
  return too_deep ? Json() : Json::parse(result.definition, nullptr, false);
}

/// Sections, and keys of other sections, that say nothing of a single step.
constexpr std::array<std::string_view, 5> kSectionsBesideSteps{"eval", "sample", "measure",
                                                               "quality", "gate"};
constexpr std::array kKeysBesideSteps{std::pair{"benchmark", "seed"}, std::pair{"train", "steps"}};

}  // namespace

std::string step_sha256(const Result& result) {
  Json json = json_of(result);
  if (!json.is_object()) return sha256_of(result.definition);
  for (const std::string_view section : kSectionsBesideSteps) json.erase(std::string(section));
  for (const auto& [section, key] : kKeysBesideSteps) {
    if (json.contains(section) && json[section].is_object()) json[section].erase(key);
  }
  return sha256_of(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Result at_any_batch(Result result) {
  Json json = json_of(result);
  if (json.is_object() && json.contains("train") && json["train"].is_object()) {
    json["train"].erase("batch");
    result.definition = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::erase_if(result.identity.overrides,
                [](const std::string& one) { return one.starts_with("train.batch="); });
  return result;
}

bool changes_a_step(std::string_view override) {
  const std::string_view path = override.substr(0, override.find('='));
  const std::string_view section = path.substr(0, path.find('.'));
  const bool is_key = std::any_of(
      kKeysBesideSteps.begin(), kKeysBesideSteps.end(),
      [&](const auto& one) { return path == std::string(one.first) + "." + one.second; });
  return !is_key && std::find(kSectionsBesideSteps.begin(), kSectionsBesideSteps.end(), section) ==
                        kSectionsBesideSteps.end();
}

DefinitionView definition_of(const Result& result) {
  const Json json = json_of(result);
  DefinitionView view;
  view.readable = json.is_object();
  const Json benchmark = part(json, "benchmark");
  view.benchmark_id = text_in(benchmark, "id");
  view.benchmark_scale = text_in(benchmark, "scale");
  view.train_steps = integer_in(part(json, "train"), "steps");
  view.timesteps = integer_in(part(json, "diffusion"), "timesteps");
  view.eval_weights = text_in(part(json, "eval"), "weights");
  view.sample = sample_in(json);
  const Json quality = part(json, "quality");
  view.quality_extractor = text_in(quality, "extractor");
  view.quality_resize = text_in(quality, "resize");
  view.quality_reference = text_in(quality, "reference");
  for (const auto& [key, value] : quality.items()) {
    if (value.is_number()) view.quality_bounds[key] = value.get<double>();
  }
  const Json gates = part(json, "gate");
  for (const auto& [name, declared] : gates.items()) {
    view.gates.push_back(gate_of(name, declared));
  }
  return view;
}

}  // namespace noisemark::reports
