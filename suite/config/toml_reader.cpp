#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "reports/error.h"
#include "reports/nearest.h"
#include "suite/config/draft.h"
#include "suite/config/toml_nodes.h"

namespace noisemark::suite {
namespace {

constexpr std::string_view kScales[] = {"cpu", "gpu"};
/// Both scales are the same benchmark, but a budget in bytes fits only one of them.
constexpr std::string_view kOfAScale = "benchmark.modes";
constexpr std::string_view kPrecisions[] = {"fp32", "tf32", "bf16", "fp16", "fp64"};

// One pass over a file's tables into a draft.
class Reader {
 public:
  Reader(std::string file, Draft& draft) : file_(std::move(file)), draft_(draft) {}

  // `prefix` is "" for the file itself, "scale.cpu." for an override.
  void read_sections(const toml::table& tables, const std::string& prefix) {
    for (const auto& [name, node] : tables) {
      if (prefix.empty() && name == "scale") continue;
      const toml::table& table = require_table(prefix, name, node, section_names(prefix));
      if (name == "gate") {
        read_gates(table);
      } else {
        read_section(table, std::string(name.str()), prefix);
      }
    }
    for (const auto& [key, where] : written_) require_applies(*key, where, draft_.definition);
    written_.clear();
  }

  void require_complete() const {
    for (const Key& key : keys()) {
      if (key.required && !draft_.places.contains(key_path(key))) {
        throw bad_input(file_, key_path(key), "missing", accepted_text(key));
      }
    }
  }

  void require_whole_gates() const {
    for (const GateConfig& gate : draft_.definition.gates) {
      const std::string path = "gate." + gate.name;
      if (gate.metric.empty()) {
        throw bad_input(draft_.place(path), path + ".metric", "missing", "the name of a metric");
      }
      if (gate.relation.empty()) {
        throw bad_input(draft_.place(path), path, "no bound", "max or min, a number");
      }
    }
  }

  const toml::table& require_table(const std::string& prefix, const toml::key& name,
                                   const toml::node& node,
                                   const std::vector<std::string>& valid) const {
    if (std::find(valid.begin(), valid.end(), name.str()) == valid.end()) {
      throw bad_input(place_of(file_, name.source()), prefix + std::string(name.str()),
                      "unknown section", reports::accepted_names(name.str(), valid));
    }
    if (!node.is_table()) {
      throw bad_input(place_of(file_, node.source()), prefix + std::string(name.str()),
                      found_text(node), "a table");
    }
    return *node.as_table();
  }

 private:
  static std::vector<std::string> section_names(const std::string& prefix) {
    std::vector<std::string> names = sections();
    names.emplace_back("gate");
    if (prefix.empty()) names.emplace_back("scale");
    return names;
  }

  void read_section(const toml::table& table, const std::string& section,
                    const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string path = section + "." + std::string(name.str());
      const std::string key_place = place_of(file_, name.source());
      const Key* key = find_key(path);
      if (key == nullptr) throw_unknown_key(key_place, path);
      if (!prefix.empty() && section == "benchmark" && path != kOfAScale) {
        throw bad_input(key_place, prefix + path, "the same at both scales",
                        "of this section only modes");
      }
      const std::string value_place = place_of(file_, node.source());
      const std::optional<Value> value = to_value(node);
      if (!value) throw bad_input(value_place, path, found_text(node), accepted_text(*key));
      assign(*key, *value, value_place, draft_.definition);
      draft_.places[path] = value_place;
      written_.emplace_back(key, key_place);
    }
  }

  void read_gates(const toml::table& gates) {
    for (const auto& [name, node] : gates) {
      const std::string path = "gate." + std::string(name.str());
      if (!node.is_table()) {
        throw bad_input(place_of(file_, node.source()), path, found_text(node), "a table");
      }
      draft_.places[path] = place_of(file_, name.source());
      read_gate(*node.as_table(), path, gate_named(std::string(name.str())));
    }
  }

  GateConfig& gate_named(const std::string& name) {
    auto& gates = draft_.definition.gates;
    const auto found = std::find_if(gates.begin(), gates.end(),
                                    [&](const GateConfig& gate) { return gate.name == name; });
    if (found != gates.end()) return *found;
    gates.push_back({.name = name, .metric = "", .relation = "", .bound = 0, .precisions = {}});
    return gates.back();
  }

  void read_gate(const toml::table& table, const std::string& path, GateConfig& gate) {
    if (table.contains("max") && table.contains("min")) {
      throw bad_input(draft_.place(path), path, "max and min", "one of them");
    }
    for (const auto& [name, node] : table) {
      const std::string key = path + "." + std::string(name.str());
      const std::string value_place = place_of(file_, node.source());
      if (name == "metric") {
        const auto text = node.value_exact<std::string>();
        if (!text || text->empty()) {
          throw bad_input(value_place, key, found_text(node), "the name of a metric");
        }
        gate.metric = *text;
      } else if (name == "max" || name == "min") {
        const auto bound = node.is_number() ? node.value<double>() : std::nullopt;
        if (!bound || !std::isfinite(*bound)) {
          throw bad_input(value_place, key, found_text(node), "a number");
        }
        gate.bound = *bound;
        gate.relation = name == "max" ? "at most" : "at least";
      } else if (name == "precisions") {
        gate.precisions = precisions_of(node, key);
      } else {
        const std::vector<std::string> valid{"metric", "max", "min", "precisions"};
        throw bad_input(place_of(file_, name.source()), key, "unknown key",
                        reports::accepted_names(name.str(), valid));
      }
    }
  }

  [[nodiscard]] std::vector<std::string> precisions_of(const toml::node& node,
                                                       const std::string& key) const {
    std::vector<std::string> names;
    const toml::array* list = node.as_array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const toml::node& item = *list->get(i);
      const auto name = item.value_exact<std::string>();
      if (!name || std::find(std::begin(kPrecisions), std::end(kPrecisions), *name) ==
                       std::end(kPrecisions)) {
        throw bad_input(place_of(file_, item.source()), key, found_text(item),
                        fmt::format("one of: {}", fmt::join(kPrecisions, ", ")));
      }
      if (std::find(names.begin(), names.end(), *name) != names.end()) {
        throw bad_input(place_of(file_, item.source()), key, *name + " twice", "each once");
      }
      names.push_back(*name);
    }
    if (!names.empty()) return names;
    throw bad_input(place_of(file_, node.source()), key,
                    list == nullptr ? found_text(node) : "an empty list",
                    "a list of precisions, at least one");
  }

  std::string file_;
  Draft& draft_;
  std::vector<std::pair<const Key*, std::string>> written_;
};

Draft read_scale(const toml::table& file_table, const std::string& file, const std::string& scale) {
  Draft draft;
  draft.definition.scale = scale;
  draft.definition.source = file;
  Reader reader(file, draft);
  reader.read_sections(file_table, "");
  reader.require_complete();
  if (const toml::node* scales = file_table.get("scale")) {
    if (!scales->is_table()) {
      throw bad_input(place_of(file, scales->source()), "scale", found_text(*scales), "a table");
    }
    for (const auto& [name, node] : *scales->as_table()) {
      const toml::table& table =
          reader.require_table("scale.", name, node, {std::begin(kScales), std::end(kScales)});
      if (name == scale) reader.read_sections(table, "scale." + scale + ".");
    }
  }
  reader.require_whole_gates();
  check_together(draft);
  return draft;
}

}  // namespace

Draft read_toml(std::string_view text, const std::string& file, const std::string& scale) {
  const toml::table table = parse_toml(text, file);
  std::optional<Draft> wanted;
  for (const std::string_view name : kScales) {
    Draft draft = read_scale(table, file, std::string(name));
    if (name == scale) wanted = std::move(draft);
  }
  if (!wanted) throw bad_input(file, "scale", '"' + scale + '"', "one of: \"cpu\", \"gpu\"");
  return *std::move(wanted);
}

}  // namespace noisemark::suite
