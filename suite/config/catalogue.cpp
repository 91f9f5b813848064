#include "suite/config/catalogue.h"

#include <algorithm>
#include <array>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/nearest.h"
#include "suite/config/draft.h"
#include "suite/config/lock.h"

namespace noisemark::suite {
namespace {

/// The fewest of which some 20 tests, sharing alpha, can prove anything within minutes.
constexpr int64_t kSeedsOfASuite = 5;

struct Reference {
  std::string name;
  std::string scale;
};

Reference split_scale(std::string_view id, std::string_view default_scale) {
  const size_t at = id.rfind('@');
  if (at == std::string_view::npos) return {std::string(id), std::string(default_scale)};
  const std::string scale(id.substr(at + 1));
  const std::array<std::string, 2> scales{"cpu", "gpu"};
  if (std::find(scales.begin(), scales.end(), scale) == scales.end()) {
    throw bad_input("", std::string(id), "unknown scale \"" + scale + '"',
                    reports::accepted_names(scale, scales));
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
  static const std::vector<Suite> kSuites = {
      {"smoke",
       "minutes on two cores, no files: the quality gate and every mode of the small U-Nets",
       {{"gmm16@cpu"}, {"gmm16-ho@cpu"}, {"gmm16-ho-relu@cpu"}}},
      {"cpu",
       "every benchmark at the scale of a machine without a GPU; lossy modes judged over seeds",
       {{"gmm16@cpu"},
        {"gmm16-ho@cpu"},
        {"gmm16-ho-relu@cpu"},
        {"gmm16-ho-long@cpu", kSeedsOfASuite},
        {"gmm16-ho-relu-long@cpu", kSeedsOfASuite},
        {"lucid-cifar10@cpu"},
        {"ho-cifar10@cpu"},
        {"ho-relu-cifar10@cpu"},
        {"lucid-128@cpu"}}},
      {"gpu",
       "every benchmark at the scale of a data-centre GPU; lossy modes judged over seeds",
       {{"gmm16@gpu"},
        {"gmm16-ho@gpu"},
        {"gmm16-ho-relu@gpu"},
        {"gmm16-ho-long@gpu", kSeedsOfASuite},
        {"gmm16-ho-relu-long@gpu", kSeedsOfASuite},
        {"lucid-cifar10@gpu"},
        {"ho-cifar10@gpu"},
        {"ho-relu-cifar10@gpu"},
        {"lucid-128@gpu"}}},
  };
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
