#include "reports/result/definition.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/base/json.h"

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

DefinitionView definition_of(const Result& result) {
  const bool too_deep = is_nested_too_deeply(result.definition);
  const Json json = too_deep ? Json() : Json::parse(result.definition, nullptr, false);
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
