#include "reports/profile/limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "reports/base/document.h"
#include "reports/base/file.h"
#include "reports/base/json_reader.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/compare/sides.h"
#include "reports/profile/characterization.h"
#include "reports/render/report.h"
#include "reports/result/definition.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

bool has_roofline(const Profile& profile) {
  const Roofline& roofline = profile.roofline;
  return roofline.missing.empty() && !roofline.operators.empty() && profile.cost.plain_s > 0;
}

/// The time of a step in which operators ran that compute bounds, and of those that memory bounds.
std::pair<double, double> bound_times(const Roofline& roofline) {
  std::pair<double, double> times{0, 0};
  for (const RoofRow& row : roofline.operators) {
    (row.compute_bound ? times.first : times.second) += row.time_s;
  }
  return times;
}

/// The operator at which the most is to be won, all its shapes together, and the time to win.
std::pair<std::string, double> most_to_win(const Roofline& roofline) {
  std::map<std::string, double> by_name;
  for (const RoofRow& row : roofline.operators) by_name[row.name] += row.to_win_s();
  return *std::max_element(by_name.begin(), by_name.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

/// Returns the share of a step in operators that were much faster than a peak which others beat
/// too.
double beyond_peaks_frac(const Roofline& roofline) {
  constexpr double kMuchFaster = 1.5;
  double time_s = 0;
  for (const RoofRow& row : roofline.operators) {
    if (row.of_roof() > kMuchFaster && has_low_peak(roofline, row)) time_s += row.time_s;
  }
  return time_s / roofline.step_s;
}

/// Says what in the profile speaks of other work on the machine; empty where nothing does. The
/// profiler only slows steps, by as much in those that it recorded as in those of the pairs.
std::string noise_evidence(const Profile& profile) {
  constexpr double kFaster = 0.9;
  constexpr double kSlower = 1.25;
  constexpr double kMostBeyond = 0.05;
  const ProfilerCost& cost = profile.cost;
  const double step_s = profile.roofline.step_s;
  if (cost.ratio < kFaster) {
    return fmt::format("a step took {:.2f} times as long with the profiler as without", cost.ratio);
  }
  if (step_s < kFaster * cost.plain_s) {
    return fmt::format("the profiled steps took {:.2f} times as long as those without the profiler",
                       step_s / cost.plain_s);
  }
  if (step_s > kSlower * cost.ratio * cost.plain_s) {
    return fmt::format("the profiled steps took {:.2f} times as long as others with the profiler",
                       step_s / (cost.ratio * cost.plain_s));
  }
  const double beyond = beyond_peaks_frac(profile.roofline);
  if (beyond <= kMostBeyond) return "";
  return fmt::format(
      "operators with {} of a step were faster than the peaks that were measured beside them",
      format_percent(beyond));
}

/// "the host, for which the GPU waits in 40.0 % of a step; ", where it waits long.
std::string waiting_words(const Profile& profile) {
  constexpr double kBusy = 0.8;
  double device_s = 0;
  for (const LayerTimes& row : profile.layers) {
    device_s += static_cast<double>(row.device_ns()) / kNsPerS;
  }
  const double busy = device_s / static_cast<double>(profile.steps) / profile.cost.plain_s;
  if (device_s == 0 || busy > kBusy) return "";
  return fmt::format("the host, for which the GPU waits in {} of a step; ",
                     format_percent(1 - busy));
}

/// A baseline that executes operators of these classes otherwise (baselines/baseline.h).
struct Execution {
  std::string_view baseline;
  std::string_view operators;
  std::string_view classes[2];
  bool (*takes)(std::string_view precision);
  bool joins = false;  ///< joins operators, so that the roof of what it does is below theirs
};
constexpr Execution kExecutions[] = {{"channels-last",
                                      "convolutions",
                                      {"convolution", "convolution"},
                                      [](std::string_view) { return true; }},
                                     {"fused",
                                      "normalizations and activation functions",
                                      {"normalization", "activation function"},
                                      has_fused_kernels,
                                      true}};

/// The least share of a step that is worth a try: a smaller win would drown in noise.
constexpr double kLeastToWin = 0.01;

bool has_word(std::string_view baseline, std::string_view word) {
  return fmt::format("+{}+", baseline).find(fmt::format("+{}+", word)) != std::string::npos;
}

/// Joins the words in the order of the program's table: "fused" first, then "channels-last".
std::string with_word(const std::string& baseline, std::string_view word) {
  constexpr std::string_view kFused = "fused";
  if (baseline == "plain") return std::string(word);
  if (word == kFused || !baseline.starts_with(kFused)) return fmt::format("{}+{}", word, baseline);
  return fmt::format("{}+{}{}", kFused, word, baseline.substr(kFused.size()));
}

Proposal proposal_of(const Execution& execution, const Profile& profile) {
  const Roofline& roofline = profile.roofline;
  Proposal made{with_word(profile.baseline, execution.baseline), execution.operators,
                execution.joins};
  for (const RoofRow& row : roofline.operators) {
    const std::string_view kind = operator_class(row.name);
    if (kind != execution.classes[0] && kind != execution.classes[1]) continue;
    made.time_frac += row.time_s / roofline.step_s;
    made.roof_frac += row.roof_s / roofline.step_s;
  }
  return made;
}

/// The command that runs the work under both baselines where it has one, else the option.
std::string trial_command(const Proposal& proposal, const Result* run) {
  const std::string command =
      run == nullptr
          ? ""
          : command_of_work("sweep", *run, run->identity.baseline + "," + proposal.baseline);
  return code(command.empty() ? "--baseline " + proposal.baseline : command);
}

/// ". Try `--baseline fused` first: ...", where there is something to try.
std::string trial_words(const Profile& profile, const Result* run) {
  const std::vector<Proposal> all = proposals(profile);
  if (all.empty()) return "";
  const Proposal& first = all.front();
  return fmt::format(
      ". Try {} first: {} take {} of a profiled step, and would take {} at their roof, so {}{} of "
      "a step is to be won{}",
      trial_command(first, run), first.operators, format_percent(first.time_frac),
      format_percent(first.roof_frac), first.joins ? "" : "at most ",
      format_percent(first.beyond_frac()),
      first.joins ? ", or more, because joined operators move fewer bytes" : "");
}

fs::path profile_in(const fs::path& folder) {
  return folder / "profile" / kProfileFile;
}

Profile parse_profile(const std::string& text, const fs::path& file) {
  return read_document<Profile>(text, json::kProfileDocument, file.string());
}

constexpr const char* kStep = "definition of a step";
constexpr const char* kOverrides = "identity.overrides";
constexpr const char* kRanks = "identity.ranks";

/// The options by which a user says what a field holds.
constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
    {kOverrides, "--set"},
    {"identity.threads", "--threads"},
    {kRanks, "--ranks"},
    {"protocol.deterministic", "--deterministic"},
    {"protocol.loader_threads", "--loader-threads"}};

/// "with --threads 2", "without --deterministic".
std::string with_option(std::string_view option, const std::string& value) {
  if (value.empty() || value == "no") return fmt::format("without {}", option);
  return value == "yes" ? fmt::format("with {}", option) : fmt::format("with {} {}", option, value);
}

/// Says what the profile was made with, and what the run, in the words of the command line where it
/// has any.
std::string words_of(const FieldDifference& found) {
  for (const auto& [field, option] : kOptions) {
    if (found.field != field) continue;
    return fmt::format("it was made {}, and the run {}", with_option(option, found.base),
                       with_option(option, found.candidate));
  }
  constexpr std::string_view kIdentity = "identity.";
  const std::string_view name =
      std::string_view(found.field)
          .substr(found.field.starts_with(kIdentity) ? kIdentity.size() : 0);
  const auto words = [](const std::string& value) { return value.empty() ? "none" : value; };
  return fmt::format("its {} is {}, and the run's {}", name, words(found.base),
                     words(found.candidate));
}

/// Says the first thing in which the profile is of other work; empty where it is of the same.
std::string other_work(const Profile& profile, const Result& result) {
  if (const std::string why = why_no_profile(result); !why.empty()) return "not known: " + why;
  if (!profile.work.contains(kStep)) {
    return "not known, because the profile in profile/ does not say of which work it is: make it "
           "again";
  }
  Strings of_profile = profile.work;
  Strings of_run = work_of(result);
  of_profile["batch"] = fmt::to_string(profile.batch);
  of_run["batch"] = fmt::to_string(result.protocol.batch);
  const std::string words = difference_words(of_profile, of_run);
  if (words.empty()) return "";
  return "not known, because the profile in profile/ is of other work: " + words;
}

}  // namespace

std::vector<Proposal> proposals(const Profile& profile) {
  std::vector<Proposal> made;
  if (!has_roofline(profile)) return made;
  for (const Execution& execution : kExecutions) {
    if (has_word(profile.baseline, execution.baseline) || !execution.takes(profile.precision))
      continue;
    made.push_back(proposal_of(execution, profile));
  }
  std::erase_if(made, [](const Proposal& p) { return p.beyond_frac() < kLeastToWin; });
  std::stable_sort(made.begin(), made.end(), [](const Proposal& a, const Proposal& b) {
    return a.beyond_frac() > b.beyond_frac();
  });
  return made;
}

std::string proposals_section(const Profile& profile) {
  const std::vector<Proposal> all = proposals(profile);
  if (all.empty()) return "";
  MarkdownTable table({{"try"},
                       {"operators that it executes otherwise"},
                       {"of a profiled step", Align::kRight},
                       {"at their roof", Align::kRight},
                       {"beyond their roof", Align::kRight}});
  for (const Proposal& one : all) {
    table.add_row({code(fmt::format("--baseline {}", one.baseline)), std::string(one.operators),
                   format_percent(one.time_frac), format_percent(one.roof_frac),
                   format_percent(one.beyond_frac())});
  }
  return fmt::format(
      "\n## What to try\n\n{}\nWhat the operators take beyond their roof is the most that is to be "
      "won while they move the same bytes. `fused` joins operators, which then move fewer bytes, "
      "so it "
      "may win more. Measure what is won: `noisemark sweep` with `--axis baseline=` runs both.\n",
      table.text());
}

std::string limit_words(const Profile& profile, const Result* run) {
  if (!has_roofline(profile)) return "";
  const Roofline& roofline = profile.roofline;
  const auto [compute_s, memory_s] = bound_times(roofline);
  const bool compute = compute_s >= memory_s;
  const auto [name, to_win_s] = most_to_win(roofline);
  const std::string noise = noise_evidence(profile);
  const bool steady = noise.empty();
  // Steps with and without the profiler are compared only where the machine was as fast for both.
  return fmt::format(
      "{}{}{}: operators that it bounds take {} of a profiled step, those that {} bounds {}. If "
      "every operator were as fast as the machine's measured peaks allow (its roof), a step would "
      "take {} of the time that it {}. The most is to be won at {}, all its shapes together: {} of "
      "a profiled step{}",
      steady ? ""
             : fmt::format("not sure, because the machine was busy with other work: {}, so profile "
                           "again. By this profile it is ",
                           noise),
      steady ? waiting_words(profile) : "", compute ? "compute" : "memory",
      format_percent((compute ? compute_s : memory_s) / roofline.step_s),
      compute ? "memory" : "compute",
      format_percent((compute ? memory_s : compute_s) / roofline.step_s),
      format_percent(roofline.ideal_s / (steady ? profile.cost.plain_s : roofline.step_s)),
      steady ? "takes without the profiler" : "took with the profiler", name,
      format_percent(to_win_s / roofline.step_s), steady ? trial_words(profile, run) : "");
}

Strings work_of(const Result& result) {
  Strings fields = same_work(result);
  std::erase_if(fields, [](const auto& field) {
    return field.first.starts_with("provenance.") || field.first.starts_with("seeds.") ||
           field.first == "identity.custom" || field.first == "identity.definition_sha256";
  });
  Identity identity = result.identity;
  std::erase_if(identity.overrides, [](const std::string& one) { return !changes_a_step(one); });
  fields[kOverrides] = fmt::format("{}", fmt::join(identity.overrides, " --set "));
  identity.custom = false;
  fields["cell"] = cell_name(identity);
  fields[kStep] = step_sha256(result);
  return fields;
}

std::string difference_words(const Strings& work, const Strings& run) {
  std::vector<FieldDifference> differences = differing_fields(work, run);
  const auto find = [&](std::string_view field) {
    return std::find_if(differences.begin(), differences.end(),
                        [&](const FieldDifference& one) { return one.field == field; });
  };
  // Changed keys only say what makes the definitions of both other ones.
  if (find(kStep) == differences.end()) {
    std::erase_if(differences, [](const FieldDifference& one) { return one.field == kOverrides; });
  }
  if (differences.empty()) return "";
  for (const char* field : {"batch", kOverrides, kRanks}) {
    const auto told = find(field);
    if (told != differences.end()) return words_of(*told);
  }
  return words_of(differences.front());
}

std::vector<Finding> check_profiles(const fs::path& path) {
  std::vector<Finding> findings;
  std::error_code unknown;
  if (fs::is_regular_file(path, unknown)) return findings;
  std::vector<Finding> named_by_others;
  for (const fs::path& folder : result_folders(path, &named_by_others)) {
    const fs::path file = profile_in(folder);
    or_lost(file, &findings, [&] {
      if (is_named(file)) {
        (void)parse_profile(read_file(file), file);
      } else if (is_named(fs::path(file).replace_extension(".md"))) {
        findings.push_back(
            {file.string(), "profile", "profile.md is rendered from it and it is not there"});
      }
    });
  }
  return findings;
}

bool has_profile_of(const fs::path& folder, const Result& result) {
  const fs::path file = profile_in(folder);
  std::vector<Finding> told_by_others;
  bool found = false;
  or_lost(file, &told_by_others, [&] {
    const std::optional<std::string> text = read_addition(file, &told_by_others);
    found = text && other_work(parse_profile(*text, file), result).empty();
  });
  return found;
}

std::string limit_of(const fs::path& folder, const Result& result, std::vector<Finding>& unread) {
  const fs::path file = profile_in(folder);
  std::vector<Finding> found;
  const std::optional<std::string> text = read_addition(file, &found);
  unread.insert(unread.end(), found.begin(), found.end());
  if (!found.empty()) {
    return fmt::format("not known, because the profile in profile/ {}", found.front().words);
  }
  if (!text) return "";
  const Profile profile = parse_profile(*text, file);
  const std::string difference = other_work(profile, result);
  return difference.empty() ? limit_words(profile, &result) : difference;
}

}  // namespace noisemark::reports
