#include "suite/config/catalogue.h"

#include <algorithm>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "suite/config/lock.h"
#include "suite/config/toml_reader.h"

namespace noisemark::suite {
namespace {

std::vector<Suite> read_suites() {
  std::vector<Suite> suites;
  for (const SuiteName& suite : kSuiteNames) suites.push_back({suite.name, suite.summary, {}});
  for (const BenchmarkFile& file : benchmark_files()) {
    const Definition definition =
        read_toml(file.text, std::string(file.name), std::string(kSuiteNames[0].scale)).definition;
    for (size_t i = 0; i < suites.size(); ++i) {
      const auto& names = definition.suites;
      if (std::find(names.begin(), names.end(), suites[i].name) == names.end()) continue;
      suites[i].entries.push_back(
          {std::string(file.id) + "@" + std::string(kSuiteNames[i].scale), definition.suite_seeds});
    }
  }
  return suites;
}

struct Reference {
  std::string name;
  std::string scale;
};

Reference split_scale(std::string_view id, std::string_view default_scale) {
  const size_t at = id.rfind('@');
  if (at == std::string_view::npos) return {std::string(id), std::string(default_scale)};
  const std::string scale(id.substr(at + 1));
  if (std::find(kScales.begin(), kScales.end(), scale) == kScales.end()) {
    throw bad_input(
        "", std::string(id), "unknown scale \"" + scale + '"',
        reports::accepted_names(scale, std::vector<std::string>(kScales.begin(), kScales.end())));
  }
  return {std::string(id.substr(0, at)), scale};
}

Draft read_user_file(const Reference& reference) {
  Draft draft = read_toml(reports::read_file(reference.name), reference.name, reference.scale);
  draft.definition.custom = true;
  return draft;
}

Draft read_shipped(const Reference& reference) {
  const auto files = benchmark_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const BenchmarkFile& file) {
    return file.id == reference.name;
  });
  if (found != files.end()) {
    Draft draft = read_toml(found->text, std::string(found->name), reference.scale);
    hold_to_lock(shipped_lock(), draft.definition);
    return draft;
  }
  std::vector<std::string> valid;
  for (const BenchmarkFile& file : files) valid.emplace_back(file.id);
  for (const Suite& suite : suites()) valid.emplace_back(suite.name);
  throw bad_input("", '"' + reference.name + '"', "unknown benchmark or suite",
                  reports::accepted_names(reference.name, valid));
}

}  // namespace

const std::vector<Suite>& suites() {
  static const std::vector<Suite> kSuites = read_suites();
  return kSuites;
}

const Suite* find_suite(std::string_view name) {
  const auto& all = suites();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Suite& suite) { return suite.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Definition load_definition(std::string_view id, std::string_view scale,
                           const std::vector<std::string>& overrides) {
  const Reference reference = split_scale(id, scale);
  Draft draft =
      reference.name.ends_with(".toml") ? read_user_file(reference) : read_shipped(reference);
  for (const std::string& assignment : overrides) apply_override(assignment, draft);
  finish_overrides(draft);
  check_together(draft);
  if (!overrides.empty()) draft.definition.custom = true;
  return std::move(draft.definition);
}

}  // namespace noisemark::suite
