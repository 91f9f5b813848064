#include "suite/config/toml_reader.h"

// toml++ costs seconds to compile, so it is included here alone.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

const std::string kSet = "--set";

// Keys that are no part of a definition, and the flag that changes them.
struct Elsewhere {
  std::string_view key;
  std::string_view flag;
};
constexpr Elsewhere kElsewhere[] = {
    {"mode", "--mode"},
    {"baseline", "--baseline"},
    {"precision", "--precision"},
    {"device", "--device"},
    {"threads", "--threads"},
    {"seed", "--seed"},
    {"benchmark.seed", "--seed"},
    {"benchmark.modes", "--mode"},
    {"out", "--out"},
    {"output", "--out"},
    {"data", "--data"},
    {"data.dir", "--data"},
    {"data.folder", "--data"},
    {"deterministic", "--deterministic"},
};

std::vector<std::string> settable_paths(std::string_view section) {
  std::vector<std::string> paths;
  for (const Key& key : keys()) {
    if (section.empty() || key.section == section) paths.push_back(key_path(key));
  }
  return paths;
}

// "steps" -> "train.steps" when only one key ends so.
std::optional<std::string> with_section(std::string_view name) {
  std::optional<std::string> found;
  for (const Key& key : keys()) {
    if (key.name != name) continue;
    if (found) return std::nullopt;
    found = key_path(key);
  }
  return found;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// A decimal that is too large, or too close to zero.
bool is_beyond_doubles(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc::result_out_of_range && stop == end;
}

std::vector<std::string> split_list(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    items.emplace_back(item);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

std::optional<Value> parse_integers(std::string_view text) {
  std::vector<int64_t> values;
  for (const std::string& item : split_list(text)) {
    const auto value = parse_number<int64_t>(item);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// A command line has no types: the key decides how the text is read.
std::optional<Value> parse_value(const Key& key, std::string_view text) {
  const std::string_view type = type_text(key);
  if (type == "string") return Value(std::string(text));
  if (type == "integer") {
    const auto value = parse_number<int64_t>(text);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (type == "number") {
    const auto value = parse_number<double>(text);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (type == "switch") {
    if (text == "true") return Value(true);
    if (text == "false") return Value(false);
    return std::nullopt;
  }
  return parse_integers(text);
}

const Key& settable_key(const std::string& path) {
  for (const Elsewhere& elsewhere : kElsewhere) {
    if (elsewhere.key == path) {
      throw bad_input(kSet, path, "not part of a definition", "use " + std::string(elsewhere.flag));
    }
  }
  // scale.rule is a key, scale.cpu.train.steps the key of one scale.
  const bool of_a_scale =
      path.starts_with("scale.") && std::count(path.begin(), path.end(), '.') > 1;
  if (path.starts_with("gate.") || of_a_scale) {
    throw bad_input(kSet, path, "locked", "gates and scales belong to the definition file");
  }
  const Key* key = find_key(path);
  if (key == nullptr) throw_unknown_key(kSet, path);
  if (key->standing != Standing::kLocked) {
    throw bad_input(kSet, path, "locked", "names a benchmark; write a definition file of your own");
  }
  return *key;
}

}  // namespace

std::string Draft::place(std::string_view path) const {
  const auto found = places.find(path);
  return found == places.end() ? definition.source : found->second;
}

void throw_unknown_key(const std::string& where, std::string_view path) {
  std::string accepted;
  if (const auto complete = with_section(path)) {
    accepted = "nearest: " + *complete;
  } else if (const auto near = reports::nearest(path, settable_paths(""))) {
    accepted = "nearest: " + *near;
  } else {
    const std::string_view section = path.substr(0, path.find('.'));
    for (const std::string& valid : settable_paths(section)) {
      accepted += (accepted.empty() ? "one of: " : ", ") + valid;
    }
    if (accepted.empty()) accepted = reports::accepted_names(section, sections());
  }
  throw bad_input(where, std::string(path), "unknown key", accepted);
}

void require_applies(const Key& key, const std::string& where, const Definition& definition) {
  if (applies(key, definition)) return;
  const Key* other = find_key(key.condition.key);
  throw bad_input(where, key_path(key), "does not apply",
                  condition_text(key) + ", here it is " + value_text(*other, definition));
}

void apply_override(const std::string& assignment, Draft& draft) {
  const size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  if (equals == std::string::npos) throw bad_input(kSet, path, "no value", "key=value");
  const Key& key = settable_key(path);
  const std::string text = assignment.substr(equals + 1);
  const std::optional<Value> value = parse_value(key, text);
  if (!value) {
    const char* why = is_beyond_doubles(text) ? ", which no double holds" : "";
    throw bad_input(kSet, path, text.empty() ? "nothing" : text + why, accepted_text(key));
  }
  assign(key, *value, kSet, draft.definition);
  draft.places[path] = kSet;
  draft.definition.overrides.push_back(assignment);
}

void finish_overrides(const Draft& draft) {
  for (const Key& key : keys()) {
    if (draft.place(key_path(key)) == kSet) require_applies(key, kSet, draft.definition);
  }
}

namespace {

bool has_once(const std::vector<int64_t>& values, int64_t wanted) {
  return std::count(values.begin(), values.end(), wanted) == 1;
}

/// Timesteps of the validation loss; samples are dealt to them in turn.
constexpr int64_t kEvalTimesteps = 8;

class Checker {
 public:
  explicit Checker(const Draft& draft) : draft_(draft), d_(draft.definition) {}

  void check() const {
    check_model_shape();
    if (d_.model.name == "ho-unet") check_ho();
    check_data();
    check_diffusion();
    check_training();
    if (d_.sample.sampler != "none") check_sampling();
  }

 private:
  void require(bool holds, const std::string& path, const std::string& accepted) const {
    if (holds) return;
    throw bad_input(draft_.place(path), path, value_text(*find_key(path), d_), accepted);
  }

  [[nodiscard]] int64_t stages() const { return static_cast<int64_t>(d_.model.dim_mults.size()); }

  void check_model_shape() const {
    const int64_t factor = int64_t{1} << (stages() - 1);
    require(stages() <= 10, "model.dim_mults", "at most 10 stages");
    require(
        d_.model.resolution % factor == 0, "model.resolution",
        "divisible by " + std::to_string(factor) + ", for " + std::to_string(stages()) + " stages");
    require(d_.model.dim % 2 == 0, "model.dim", "even: half sines, half cosines of the timestep");
  }

  void check_ho() const {
    std::vector<int64_t> resolutions;
    for (int64_t i = 0; i < stages(); ++i) resolutions.push_back(d_.model.resolution >> i);
    for (const int64_t wanted : d_.model.attention_resolutions) {
      require(
          has_once(resolutions, wanted) && has_once(d_.model.attention_resolutions, wanted),
          "model.attention_resolutions",
          fmt::format("resolutions of the stages, each once: {}", fmt::join(resolutions, ", ")));
    }
    for (const int64_t mult : d_.model.dim_mults) {
      require(d_.model.dim * mult % d_.model.groups == 0, "model.groups",
              "a divisor of every stage's channels; " + std::to_string(d_.model.dim * mult) +
                  " is not divisible");
    }
  }

  void check_data() const {
    if (d_.data.name == "gmm16") {
      require(d_.model.channels == 1, "model.channels", "1, for data.name \"gmm16\"");
      require(d_.model.resolution == 16, "model.resolution", "16, for data.name \"gmm16\"");
      require(
          !d_.data.flip, "data.flip",
          "false: a flipped mixture is another distribution than the one whose optimum is known");
    }
    if (d_.data.name == "cifar10") {
      require(d_.model.channels == 3, "model.channels", "3, for data.name \"cifar10\"");
      require(d_.model.resolution == 32, "model.resolution", "32, for data.name \"cifar10\"");
    }
  }

  void check_diffusion() const {
    // The linear schedule ends at beta = 20 / T.
    require(d_.diffusion.schedule != "linear" || d_.diffusion.timesteps > 20, "diffusion.timesteps",
            "above 20, for the linear schedule");
  }

  void check_training() const {
    require(d_.train.batch % d_.train.accumulation == 0, "train.accumulation",
            "a divisor of train.batch, " + std::to_string(d_.train.batch));
    require(d_.eval.samples % kEvalTimesteps == 0, "eval.samples",
            "a multiple of " + std::to_string(kEvalTimesteps) + ", the number of timesteps");
    require(d_.eval.weights == "model" || d_.ema.kind != "none", "eval.weights",
            "\"model\", because ema.kind is \"none\"");
    require(d_.data.train_samples == 0 || d_.data.train_samples >= d_.train.batch ||
                !applies(*find_key("data.train_samples"), d_),
            "data.train_samples", "0, or at least train.batch, " + std::to_string(d_.train.batch));
  }

  void check_sampling() const {
    require(d_.model.channels == 1 || d_.model.channels == 3, "model.channels",
            "1 or 3, for images; or sample.sampler \"none\"");
    require(d_.sample.sampler != "ddim" || d_.sample.ddim_steps <= d_.diffusion.timesteps,
            "sample.ddim_steps",
            "at most diffusion.timesteps, " + std::to_string(d_.diffusion.timesteps));
  }

  const Draft& draft_;
  const Definition& d_;
};

}  // namespace

void check_together(const Draft& draft) {
  Checker(draft).check();
}

namespace {

template <class Element>
std::optional<Value> to_list(const toml::array& array) {
  std::vector<Element> values;
  for (const toml::node& node : array) {
    const auto value = node.value_exact<Element>();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return Value(std::move(values));
}

/// "FILE:LINE:COLUMN"
std::string place_of(const std::string& file, const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
}

/// Describes a node as its file wrote it, on one line.
std::string found_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list of mixed or nested values";
  if (const auto string = node.value_exact<std::string>()) return value_text(Value(*string));
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) text << value;
  });
  return text.str();
}

/// Returns nothing for tables, dates, and lists that are mixed or nested.
std::optional<Value> to_value(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return Value(*text);
  if (const auto integer = node.value_exact<int64_t>()) return Value(*integer);
  if (const auto real = node.value_exact<double>()) return Value(*real);
  if (const auto flag = node.value_exact<bool>()) return Value(*flag);
  if (const toml::array* array = node.as_array()) {
    if (auto integers = to_list<int64_t>(*array)) return integers;
    return to_list<std::string>(*array);
  }
  return std::nullopt;
}

/// Returns the line of the first key with more than 100 parts, or 0. A definition's have three.
/// toml++ makes a table in a table of each part and takes them apart on the stack.
size_t line_of_endless_key(std::string_view text) {
  constexpr size_t kMostParts = 100;
  size_t line = 1;
  size_t dots = 0;
  bool quoted = false;
  bool remark = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      quoted = remark = false;
    }
    if (remark) continue;
    if (c == '"' || c == '\'') quoted = !quoted;
    if (quoted) continue;
    remark = c == '#';
    if (c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    if (c == '.' && ++dots >= kMostParts) return line;
  }
  return 0;
}

/// Throws Error (exit code 2) with the place and the words of toml++.
toml::table parse_toml(std::string_view text, const std::string& file) {
  if (const size_t line = line_of_endless_key(text); line > 0) {
    throw bad_input(fmt::format("{}:{}", file, line), "", "a key of a hundred parts or more",
                    "SECTION.KEY");
  }
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    throw bad_input(place_of(file, parsed.error().source()), "",
                    std::string(parsed.error().description()), "");
  }
  return std::move(parsed).table();
}

/// Both scales are the same benchmark, but a budget in bytes fits only one of them.
constexpr std::string_view kOfAScale = "benchmark.modes";

/// The table "scale" holds a table for each scale, beside the keys of its section.
bool is_of_one_scale(const toml::key& name, const toml::node& node) {
  return node.is_table() || std::find(kScales.begin(), kScales.end(), name.str()) != kScales.end();
}

// One pass over a file's tables into a draft.
class Reader {
 public:
  Reader(std::string file, Draft& draft) : file_(std::move(file)), draft_(draft) {}

  // `prefix` is "" for the file itself, "scale.cpu." for an override.
  void read_sections(const toml::table& tables, const std::string& prefix) {
    for (const auto& [name, node] : tables) {
      const toml::table& table = require_table(prefix, name, node, section_names());
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
  static std::vector<std::string> section_names() {
    std::vector<std::string> names = sections();
    names.emplace_back("gate");
    return names;
  }

  void read_section(const toml::table& table, const std::string& section,
                    const std::string& prefix) {
    for (const auto& [name, node] : table) {
      if (prefix.empty() && section == "scale" && is_of_one_scale(name, node)) continue;
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
    const std::vector<std::string> known = names_in(kPrecisions);
    std::vector<std::string> names;
    const toml::array* list = node.as_array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const toml::node& item = *list->get(i);
      const auto name = item.value_exact<std::string>();
      if (!name || std::find(known.begin(), known.end(), *name) == known.end()) {
        throw bad_input(place_of(file_, item.source()), key, found_text(item),
                        fmt::format("one of: {}", fmt::join(known, ", ")));
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
    for (const auto& [name, node] : *scales->as_table()) {
      if (!is_of_one_scale(name, node)) continue;
      const toml::table& table =
          reader.require_table("scale.", name, node, {kScales.begin(), kScales.end()});
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
  if (!wanted) {
    throw bad_input(file, "scale", '"' + scale + '"',
                    fmt::format("one of: \"{}\"", fmt::join(kScales, "\", \"")));
  }
  return *std::move(wanted);
}

std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& file) {
  // toml++ keeps keys by name, not by line.
  std::vector<std::pair<toml::source_position, TomlEntry>> found;
  for (const auto& [name, node] : parse_toml(text, file)) {
    std::optional<Value> value = to_value(node);
    const std::string place = place_of(file, node.source());
    if (!value) {
      throw bad_input(place, std::string(name.str()), found_text(node),
                      "text, a number, true, false, or a list of texts or integers");
    }
    found.emplace_back(name.source().begin, TomlEntry{.name = std::string(name.str()),
                                                      .name_place = place_of(file, name.source()),
                                                      .place = place,
                                                      .value = *std::move(value)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TomlEntry> entries;
  for (auto& [position, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace noisemark::suite
