#include "reports/compare/comparable.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace noisemark::reports {
namespace {

using Fields = Strings;

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

void add(Fields& fields, const std::string& prefix, const Strings& values) {
  for (const auto& [name, value] : values) fields[prefix + name] = value;
}

/// Everything that must be equal, by path in result.json.
Fields fields_of(const Result& result) {
  const Identity& id = result.identity;
  Fields fields = {{"identity.version", std::to_string(id.version)},
                   {"identity.custom", yes_no(id.custom)},
                   {"identity.overrides", fmt::format("{}", fmt::join(id.overrides, " "))},
                   {"identity.definition_sha256", id.definition_sha256},
                   {"identity.threads", std::to_string(id.threads)},
                   {"identity.data", id.data},
                   {"protocol.deterministic", yes_no(result.protocol.deterministic)},
                   {"protocol.loader_threads", std::to_string(result.protocol.loader_threads)},
                   {fmt::format("provenance.init_weights_sha256 (seed {})", result.seeds.base),
                    result.provenance.init_weights_sha256}};
  add(fields, "identity.hardware.", id.hardware);
  add(fields, "identity.software.", id.software);
  for (const DataFile& file : result.provenance.data) {
    fields["provenance.data." + file.name] = file.sha256;
  }
  return fields;
}

/// Of all runs but those of other seeds, whose weights are others.
bool is_of_one_seed(const std::string& field) {
  return field.starts_with("provenance.init_weights_sha256");
}

class Differences {
 public:
  explicit Differences(std::string cell) : cell_(std::move(cell)) {}

  void compare(const Fields& base, const Fields& candidate) {
    std::set<std::string> names;
    for (const auto& [name, value] : base) names.insert(name);
    for (const auto& [name, value] : candidate) names.insert(name);
    for (const std::string& name : names) {
      const auto a = base.find(name);
      const auto b = candidate.find(name);
      const bool absent = a == base.end() || b == candidate.end();
      if (absent && (is_of_one_seed(name) || may_be_unknown(name))) continue;
      if (!absent && a->second == b->second) continue;
      found_.emplace(name, FieldDifference{cell_, name, a == base.end() ? "" : a->second,
                                           b == candidate.end() ? "" : b->second});
    }
  }

  [[nodiscard]] std::vector<FieldDifference> all() const {
    std::vector<FieldDifference> differences;
    for (const auto& [name, difference] : found_) differences.push_back(difference);
    return differences;
  }

 private:
  std::string cell_;
  std::map<std::string, FieldDifference> found_;
};

}  // namespace

bool may_be_unknown(const std::string& field) {
  return field == "identity.hardware.cpu_clocks" || field == "identity.hardware.gpu_clocks";
}

Strings identity_fields(const Result& result) {
  Strings fields = fields_of(result);
  std::erase_if(fields, [](const auto& field) { return is_of_one_seed(field.first); });
  return fields;
}

std::vector<FieldDifference> identity_differences(const Cell& cell) {
  Differences differences(cell.name);
  const Fields first = fields_of(cell.pairs.front().first->result);
  for (const auto& [base, candidate] : cell.pairs) {
    const Fields base_fields = fields_of(base->result);
    const Fields candidate_fields = fields_of(candidate->result);
    differences.compare(base_fields, candidate_fields);
    differences.compare(first, base_fields);
    differences.compare(first, candidate_fields);
  }
  return differences.all();
}

std::vector<FieldDifference> cell_differences(const Identity& base, const Identity& candidate) {
  const auto fields = [](const Identity& id) {
    return Fields{{"identity.benchmark", id.benchmark}, {"identity.scale", id.scale},
                  {"identity.mode", id.mode},           {"identity.baseline", id.baseline},
                  {"identity.precision", id.precision}, {"identity.device", id.device},
                  {"identity.framework", id.framework}};
  };
  Differences differences("");
  differences.compare(fields(base), fields(candidate));
  return differences.all();
}

}  // namespace noisemark::reports
