#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/markdown.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

using Json = nlohmann::json;

constexpr const char* kSheet = "samples/sheet.png";

bool has_sheet(const Result& result) {
  return std::any_of(result.artifacts.begin(), result.artifacts.end(),
                     [](const Artifact& artifact) { return artifact.path == kSheet; });
}

/// A section of the definition, an empty object where it has none.
Json section_of(const Result& result, const char* name) {
  const Json definition = Json::parse(result.definition, nullptr, false);
  const bool there = definition.is_object() && definition.contains(name);
  return there && definition[name].is_object() ? definition[name] : Json::object();
}

std::string value_of(const Json& section, const char* key) {
  if (!section.contains(key)) return "not recorded";
  const Json& value = section[key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string sampler_words(const Result& result, const Json& sample) {
  const std::string name = value_of(sample, "sampler");
  if (name == "ddim") {
    return fmt::format("{}, {} steps, eta {}", name, value_of(sample, "ddim_steps"),
                       value_of(sample, "ddim_eta"));
  }
  return fmt::format("{}, {} steps, variance {}", name,
                     value_of(section_of(result, "diffusion"), "timesteps"),
                     value_of(sample, "ddpm_variance"));
}

std::string weights_words(const Result& result) {
  const bool averaged = result.quality.weights == "ema";
  const std::string& sha256 =
      averaged ? result.determinism.ema_sha256 : result.determinism.weights_sha256;
  return fmt::format("{}, after step {}, SHA-256 {}", averaged ? "averaged (EMA)" : "trained",
                     value_of(section_of(result, "train"), "steps"), code(sha256));
}

}  // namespace

std::string samples(const Result& result) {
  if (!has_sheet(result)) return "";
  const Json sample = section_of(result, "sample");
  const std::string count = value_of(sample, "count");
  MarkdownTable table({{"what"}, {"value"}});
  table.add_row({"pictures", count});
  table.add_row({"sampler", sampler_words(result, sample)});
  table.add_row({"weights", weights_words(result)});
  table.add_row({"initial noise", fmt::format("drawn, seed {}", result.seeds.base)});
  table.add_row({"as 8-bit pictures", code("samples/pictures")});
  table.add_row({"not rounded", code("samples/samples.npy")});
  return fmt::format(
      "## Samples\n\n![the first of {} samples]({})\n\n{}\nDrawn after the training, outside its "
      "time; {} has the checksums of weights, noise and samples. How far they are from a reference "
      "says {}, where somebody kept it in {}; over seeds it is judged by {}.\n",
      count, kSheet, table.text(), code("samples/sampling.json"), code("noisemark fid"),
      code("distances/"), code("noisemark quality"));
}

}  // namespace noisemark::reports::sections
