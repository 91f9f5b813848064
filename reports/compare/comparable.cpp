#include "reports/compare/comparable.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "reports/environment_changes.h"

namespace noisemark::reports {
namespace {

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

void add(Strings& fields, const std::string& prefix, const Strings& values) {
  for (const auto& [name, value] : values) fields[prefix + name] = value;
}

std::string value_of(const Strings& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

/// All that runs of one side have under a name.
using Values = std::map<std::string, std::set<std::string>>;

void add_settings(const Result& result, Values& values) {
  for (const auto& [name, value] : settings_of(result.environment)) values[name].insert(value);
}

Strings joined(const Values& values) {
  Strings fields;
  for (const auto& [name, all] : values) fields[name] = fmt::format("{}", fmt::join(all, "; "));
  return fields;
}

/// Of runs of one seed the initial weights too.
std::vector<FieldDifference> run_differences(const Result& a, const Result& b,
                                             const std::string& cell) {
  Strings of_a = identity_fields(a);
  Strings of_b = identity_fields(b);
  if (a.seeds.base == b.seeds.base) {
    const std::string field = fmt::format("provenance.init_weights_sha256 (seed {})", a.seeds.base);
    of_a[field] = a.provenance.init_weights_sha256;
    of_b[field] = b.provenance.init_weights_sha256;
  }
  return differing_fields(of_a, of_b, cell);
}

}  // namespace

std::vector<FieldDifference> differing_fields(const Strings& a, const Strings& b,
                                              const std::string& cell) {
  std::set<std::string> names;
  for (const Strings* side : {&a, &b}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  std::vector<FieldDifference> differences;
  for (const std::string& name : names) {
    const bool both = a.contains(name) && b.contains(name);
    if (both && a.at(name) == b.at(name)) continue;
    differences.push_back({cell, name, value_of(a, name), value_of(b, name)});
  }
  return differences;
}

std::string first_of(const std::vector<FieldDifference>& differences) {
  if (differences.empty()) return "";
  const std::string& first = differences.front().field;
  return differences.size() == 1 ? first
                                 : fmt::format("{} and {} more", first, differences.size() - 1);
}

Strings identity_fields(const Result& result) {
  const Identity& id = result.identity;
  Strings fields = {{"identity.version", std::to_string(id.version)},
                    {"identity.custom", yes_no(id.custom)},
                    {"identity.overrides", fmt::format("{}", fmt::join(id.overrides, " "))},
                    {"identity.definition_sha256", id.definition_sha256},
                    {"identity.threads", std::to_string(id.threads)},
                    {"identity.data", id.data},
                    {"protocol.deterministic", yes_no(result.protocol.deterministic)},
                    {"protocol.loader_threads", std::to_string(result.protocol.loader_threads)}};
  add(fields, "identity.hardware.", id.hardware);
  add(fields, "identity.software.", id.software);
  for (const DataFile& file : result.provenance.data) {
    fields["provenance.data." + file.name] = file.sha256;
  }
  return fields;
}

std::vector<FieldDifference> identity_differences(const Cell& cell) {
  std::map<std::string, FieldDifference> found;
  const auto compare = [&](const Result& a, const Result& b) {
    for (FieldDifference& difference : run_differences(a, b, cell.name)) {
      found.emplace(difference.field, std::move(difference));
    }
  };
  const Result& first = cell.pairs.front().first->result;
  for (const auto& [base, candidate] : cell.pairs) {
    compare(base->result, candidate->result);
    compare(first, base->result);
    compare(first, candidate->result);
  }
  std::vector<FieldDifference> differences;
  for (const auto& [name, difference] : found) differences.push_back(difference);
  return differences;
}

std::vector<FieldDifference> environment_differences(const std::vector<Cell>& cells) {
  Values base;
  Values candidate;
  for (const Cell& cell : cells) {
    for (const RunPair& pair : cell.pairs) {
      add_settings(pair.first->result, base);
      add_settings(pair.second->result, candidate);
    }
  }
  return differing_fields(joined(base), joined(candidate));
}

std::vector<FieldDifference> cell_differences(const Identity& base, const Identity& candidate) {
  const auto fields = [](const Identity& id) {
    return Strings{{"identity.benchmark", id.benchmark}, {"identity.scale", id.scale},
                   {"identity.mode", id.mode},           {"identity.baseline", id.baseline},
                   {"identity.precision", id.precision}, {"identity.device", id.device},
                   {"identity.framework", id.framework}};
  };
  return differing_fields(fields(base), fields(candidate));
}

}  // namespace noisemark::reports
