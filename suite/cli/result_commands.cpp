#include "suite/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "reports/ab/calibration.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/compare/sides.h"
#include "reports/export/exporters.h"
#include "reports/history/history.h"
#include "reports/html/page.h"
#include "reports/predict/prediction.h"
#include "reports/profile/limit.h"
#include "reports/references/promote.h"
#include "reports/render/check.h"
#include "reports/render/report.h"
#include "reports/render/run_folder.h"
#include "reports/render/table.h"
#include "reports/result/definition.h"
#include "reports/result/json_io.h"
#include "reports/seeds/study.h"
#include "reports/seeds/study_files.h"
#include "reports/trace/analyses.h"
#include "reports/trace/trace.h"
#include "suite/cli/arguments.h"

namespace noisemark::suite {
namespace {

/// Writes the verdict on quality again where a suite has one.
void rewrite_quality(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "suite.json")) return;
  if (!std::filesystem::exists(folder / "quality.json")) return;
  (void)reports::write_suite_quality(folder);
}

}  // namespace

namespace {

/// Returns whether `quality --out` wrote the folder, about runs that lie elsewhere.
bool is_study_alone(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::exists(path / "quality.json", none)) return false;
  try {
    std::vector<reports::Finding> lost;
    return reports::result_folders(path, &lost).empty() && lost.empty();
  } catch (const Error&) {
    return true;
  }
}

/// `path` and every folder below it that may hold a study; links are not followed, as a check of
/// results follows none.
std::vector<std::filesystem::path> folders_from(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> folders{path};
  std::error_code unreadable;  // the check of results names what it cannot read
  const auto options = std::filesystem::directory_options::skip_permission_denied;
  for (std::filesystem::recursive_directory_iterator at(path, options, unreadable), end;
       !unreadable && at != end; at.increment(unreadable)) {
    if (at->path().filename() == "quality.json") folders.push_back(at->path().parent_path());
  }
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

}  // namespace

Answer check_results(const CommandLine& line) {
  const std::string& path = line.positional.front();
  const bool study_alone = is_study_alone(path);
  std::vector<reports::Finding> findings;
  if (!study_alone) findings = reports::check(path);
  for (const std::filesystem::path& folder : folders_from(path)) {
    reports::or_lost(folder, &findings, [&] {
      const auto more = reports::check_quality(folder);
      findings.insert(findings.end(), more.begin(), more.end());
    });
  }
  if (!study_alone) {
    reports::or_lost(path, &findings, [&] {
      const auto more = reports::check_profiles(path);
      findings.insert(findings.end(), more.begin(), more.end());
    });
  }
  Answer answer;
  for (const reports::Finding& finding : findings) {
    answer.text +=
        reports::one_line(fmt::format("{}: {}: {}", finding.file, finding.rule, finding.words)) +
        "\n";
  }
  const auto absent =
      study_alone ? std::vector<std::filesystem::path>{} : reports::absent_weights(path);
  for (const auto& weights : absent) {
    answer.text +=
        fmt::format("{}: left out, so not compared\n", reports::one_line(weights.string()));
  }
  if (findings.empty())
    answer.text += fmt::format("{}: nothing is wrong\n", reports::one_line(path));
  answer.code = findings.empty() ? ExitCode::kPass : ExitCode::kFailed;
  return answer;
}

namespace {

/// The list of what was left out is an answer of its own, said on standard error too.
ExitCode code_without(const std::vector<reports::Finding>& lost) {
  ExitCode code = ExitCode::kPass;
  for (const reports::Finding& one : lost) {
    reports::say_on_stderr(fmt::format("{}: {}", one.file, one.words));
    code = std::max(code, one.code);
  }
  return code;
}

}  // namespace

namespace {

/// A page of HTML is made from Markdown and from nothing else.
void require_markdown(const std::string& command, const Options& options) {
  if (!options.html || options.format.empty() || options.format == "md") return;
  throw bad_input(command, "--html", "with --format " + options.format, "md, or no --html");
}

std::string page_or_text(const Options& options, std::string markdown) {
  return options.html ? reports::html_page({std::move(markdown)}) : markdown;
}

}  // namespace

Answer tabulate_results(const CommandLine& line) {
  reports::require_whole_suites(line.positional);
  std::vector<reports::Finding> lost;
  const auto sections =
      line.options.html ? reports::Sections::kAll : reports::Sections::kSideBySide;
  const std::string text = reports::table_markdown(line.positional, &lost, sections);
  const std::string title = line.options.html ? "# Results side by side\n\n" : "";
  return {page_or_text(line.options, title + text), code_without(lost)};
}

namespace {

/// Throws Error where a page would replace one that somebody else wrote.
void require_own_page(std::filesystem::path page) {
  page.replace_extension(".html");
  std::error_code none;
  if (!std::filesystem::is_regular_file(page, none)) return;
  const std::string text = reports::read_file(page);
  if (text.empty() || text.starts_with(reports::kPageBegins)) return;
  throw bad_input(page.string(), "", "a file that this command did not write",
                  "--force to replace it");
}

/// Returns whether the prediction in a run's folder is of the run's work; of another, which goes to
/// standard error, it is no part of its page.
bool has_prediction_of(const std::filesystem::path& folder, const reports::Result& result) {
  const std::filesystem::path file = folder / "predict" / "predict.json";
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return false;
  const auto works = reports::predicted_works(reports::read_file(file));
  const auto found = works.find(result.identity.mode);
  std::string other;
  if (works.empty()) {
    other = "does not say of which work it is: make it again";
  } else if (found == works.end()) {
    other = fmt::format("is of other work: it has no mode {}", result.identity.mode);
  } else {
    const reports::Strings run = reports::work_of(reports::at_any_batch(result));
    other = reports::difference_words(found->second, run);
    if (!other.empty()) other = "is of other work: " + other;
  }
  if (other.empty()) return true;
  reports::say_on_stderr(
      fmt::format("{}: is no part of the page, because it {}", file.string(), other));
  return false;
}

/// Returns the parts of a run's page: its profile and its prediction, where they are of its work.
std::vector<std::string> parts_beside(const std::filesystem::path& report) {
  const std::filesystem::path folder = report.parent_path();
  std::error_code none;
  if (report.filename() != "report.md" ||
      !std::filesystem::is_regular_file(folder / "result.json", none)) {
    return {};
  }
  const reports::Result result = reports::read_result(folder / "result.json");
  std::vector<std::string> parts;
  if (reports::has_profile_of(folder, result)) parts.emplace_back("profile");
  if (has_prediction_of(folder, result)) parts.emplace_back("predict");
  return parts;
}

/// Writes a page beside each of the reports, and beside the other pages of a suite in `folder`.
std::string write_pages(const std::filesystem::path& folder, bool force,
                        std::vector<std::filesystem::path> reports,
                        std::vector<reports::Finding>& lost) {
  // The report of a suite comes last, so that it can lead to the pages that were made before.
  for (const char* name : {"quality.md", "sweep.md", "predict.md"}) {
    const std::filesystem::path page = folder / name;
    if (std::filesystem::is_regular_file(page)) reports.insert(reports.begin(), page);
  }
  std::string said;
  for (const auto& report : reports) {
    reports::or_lost(report, &lost, [&] {
      if (!force) require_own_page(report);
      const auto page = reports::write_html_beside(report, parts_beside(report));
      said += fmt::format("page: {}\n", reports::one_line(page.string()));
    });
  }
  return said;
}

}  // namespace

namespace {

/// Notes beside each result what a profile in its folder says, and what changed since --base; what
/// was said of an earlier --base stays.
void note_insights(const std::string& path, const Options& options,
                   std::vector<reports::Finding>& lost) {
  reports::require_whole_suites({path});
  std::optional<reports::Side> base;
  if (!options.base.empty()) base = reports::read_side(options.base);
  std::vector<reports::Finding> unread;  // rewrite_report() tells of them
  for (const std::filesystem::path& folder : reports::result_folders(path, &unread)) {
    reports::or_lost(folder, &unread, [&] {
      std::optional<reports::FolderLock> lock;
      if (folder != path) lock.emplace(folder);
      const std::string sha256 = reports::sha256_of_file(folder / "result.json");
      const reports::NamedResult run{folder.string(), reports::read_result(folder / "result.json")};
      std::vector<reports::Finding> unread_notes;
      reports::Insight insight = reports::read_insight(folder, sha256, &unread_notes);
      reports::or_lost(folder, &lost, [&] {
        insight.limit = reports::limit_of(folder, run.result, lost);
        if (base) insight.since = reports::since_words(*base, run);
        if (unread_notes.empty()) reports::write_insight(folder, sha256, insight);
      });
    });
  }
}

}  // namespace

Answer report_results(const CommandLine& line) {
  const std::string& path = line.positional.front();
  const Options& options = line.options;
  if (options.html && !options.format.empty()) {
    throw bad_input("report", "--html", "with --format", "one of them");
  }
  if (!options.base.empty() && !options.format.empty()) {
    throw bad_input("report", "--base", "with --format", "one of them");
  }
  if (options.format.empty()) {
    if (!options.run.out.empty()) throw bad_input("report", "--out", "without --format", "both");
    std::string said;
    std::error_code no_folder;  // then it is refused below
    std::optional<reports::FolderLock> lock;
    if (std::filesystem::is_directory(path, no_folder)) lock.emplace(path);
    require_own_reports(line);
    std::vector<reports::Finding> lost;
    note_insights(path, options, lost);
    const auto written = reports::rewrite_report(path, &lost);
    for (const auto& report : written) {
      said += fmt::format("report: {}\n", reports::one_line(report.string()));
    }
    reports::or_lost(path, &lost, [&] { rewrite_quality(path); });
    if (options.html) said += write_pages(path, options.run.force, written, lost);
    return {said, code_without(lost)};
  }
  const reports::ExportFormat& format = reports::export_format(options.format);
  std::vector<reports::Finding> lost;
  const std::string text = format.of_results(reports::collect_results(path, &lost));
  return {deliver(options, text), code_without(lost)};
}

using reports::Comparison;

namespace {

/// Each cell gets the noise of the calibration that is of its work; a cell of which there is
/// none is judged without, and the comparison says so. At least one must be of a cell here.
reports::StochasticOptions options_of(const Options& given, const reports::Side& base,
                                      const reports::Side& candidate) {
  reports::StochasticOptions options;
  options.gates = !given.exact;
  if (given.calibration.empty()) return options;
  const auto calibrations = reports::read_calibrations(given.calibration);
  std::optional<reports::Strings> first;
  for (const reports::Side* side : {&base, &candidate}) {
    for (const reports::NamedResult& run : side->runs) {
      const reports::Strings work = reports::same_work(run.result);
      if (!first) first = work;
      if (const auto noise = reports::fitting_noise(calibrations, work)) {
        options.noise[reports::cell_name(run.result.identity) + ": images_per_s"] = *noise;
      }
    }
  }
  // Says why.
  if (options.noise.empty() && first) (void)reports::usable_noise(calibrations, *first);
  return options;
}

}  // namespace

Answer compare_results(const CommandLine& line) {
  const Options& options = line.options;
  for (const std::string& path : line.positional) reports::require_whole_suites({path});
  require_markdown("compare", options);
  const auto [base, candidate] = reports::read_sides(line.positional[0], line.positional[1]);
  Comparison comparison = reports::compare(base, candidate, options_of(options, base, candidate));
  comparison.inconclusive = inconclusive_of(options);
  Answer answer;
  const reports::ExportFormat& format =
      reports::export_format(options.format.empty() ? "md" : options.format);
  answer.text =
      deliver(options, options.html
                           ? reports::html_page(reports::page_of_sides(comparison, base, candidate))
                           : format.of_comparison(comparison));
  answer.code = exit_code_of(comparison);
  answer.warning = reports::let_pass(comparison);
  return answer;
}

namespace {

using reports::QualityStudy;

std::optional<double> number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// "val_loss" or "val_loss=0.02".
reports::QualityGate gate_of(const std::string& words) {
  const size_t equals = words.find('=');
  if (equals == std::string::npos) return {words, {}};
  const auto margin = number(words.substr(equals + 1));
  if (!margin || !(*margin > 0)) {
    throw bad_input("quality", "--gate", words, "a margin above 0, as in val_loss=0.01");
  }
  return {words.substr(0, equals), margin};
}

/// "fid=3.1:3.4".
reports::QualityRange range_of(const std::string& words) {
  const size_t equals = words.find('=');
  const size_t colon = words.find(':', equals == std::string::npos ? 0 : equals);
  if (equals != std::string::npos && colon != std::string::npos) {
    const auto low = number(words.substr(equals + 1, colon - equals - 1));
    const auto high = number(words.substr(colon + 1));
    if (low && high) return {words.substr(0, equals), *low, *high};
  }
  throw bad_input("quality", "--range", words, "METRIC=LOW:HIGH, as in fid=3.1:3.4");
}

/// Returns the folders that may hold a quality.json of these runs.
std::vector<std::filesystem::path> folders_of(const CommandLine& line) {
  std::vector<std::filesystem::path> folders(line.positional.begin(), line.positional.end());
  if (!line.options.run.out.empty()) folders.emplace_back(line.options.run.out);
  return folders;
}

/// `run` and `report` write quality.md of a suite's own runs into its folder, and a folder keeps
/// the looks of one study: what was asked for of other runs must not be lost to either.
void require_own_folder(const CommandLine& line, const reports::Side& side) {
  const std::filesystem::path folder = line.options.run.out;
  const auto& given = line.positional;
  const bool of_it_alone = given.size() == 1 && plain_path(given.front()) == plain_path(folder);
  if (std::filesystem::exists(folder / "suite.json") && !of_it_alone) {
    throw bad_input("quality", "--out", folder.string(),
                    "a folder that is not a suite's, for what is judged are not its runs alone");
  }
  const auto kept = reports::kept_quality(folder);
  if (!kept || kept->options.earlier.empty()) return;
  const reports::RunIds runs = reports::run_ids_of(side);
  const auto& taken = kept->options.earlier;
  if (std::any_of(taken.begin(), taken.end(),
                  [&](const reports::RunIds& one) { return reports::share_a_run(one, runs); })) {
    return;
  }
  throw bad_input("quality", "--out", folder.string(),
                  "another folder: the quality.json there keeps the looks at other runs");
}

constexpr const char* kLookIsNotKept =
    "this look is not kept, and seeds that are added are judged as if it had never been: --out DIR "
    "keeps it";

/// Reads what --gate and --range ask for. Throws Error (exit code 2) for words that say nothing.
reports::QualityOptions quality_options(const Options& given) {
  reports::QualityOptions options;
  if (!given.gates.empty()) options.gates.clear();
  for (const std::string& words : given.gates) options.gates.push_back(gate_of(words));
  for (const std::string& words : given.ranges) options.ranges.push_back(range_of(words));
  return options;
}

}  // namespace

Answer judge_seeds(const CommandLine& line) {
  reports::require_whole_suites(line.positional);
  const std::string& out = line.options.run.out;
  require_markdown("quality", line.options);
  reports::QualityOptions options = quality_options(line.options);
  const reports::QualitySide judged = reports::read_quality_side(line.positional, out);
  std::optional<reports::FolderLock> lock;
  if (!out.empty()) lock.emplace(out);
  reports::take_up_looks(folders_of(line), judged.side, line.options.run.looks, options);
  if (!out.empty()) require_own_folder(line, judged.side);
  QualityStudy study = reports::judge_quality(judged, options);
  study.inconclusive_passes = inconclusive_of(line.options) == reports::Inconclusive::kWarns;
  Answer answer;
  answer.code = reports::exit_code_of(study);
  if (!out.empty()) {
    const std::filesystem::path folder = out;
    reports::write_quality(folder, study);
    const std::filesystem::path page = folder / "quality.md";
    if (line.options.html) (void)reports::write_html_beside(page);
    answer.text = reports::quality_line(study) + "\n" + page.string() + "\n";
  } else {
    const bool json = line.options.format == "json";
    answer.text = json ? reports::quality_json(study) : reports::quality_markdown(study);
    if (reports::is_new_look(study.looks, options.earlier)) {
      reports::say_on_stderr(fmt::format("quality: {}", kLookIsNotKept));
      if (!json) answer.text += fmt::format("\nNo quality.json: {}.\n", kLookIsNotKept);
    }
    answer.text = page_or_text(line.options, std::move(answer.text));
  }
  return answer;
}

namespace fs = std::filesystem;

Answer show_history(const CommandLine& line) {
  const reports::Side side = reports::read_runs(line.positional, reports::Broken::kIsLost);
  reports::History history = reports::history_of(side.runs, line.options.metrics);
  ExitCode code = ExitCode::kPass;  // a run that was ended is part of a history
  for (const reports::LostRun& run : side.lost) {
    history.left_out.push_back(run.name + ": " + run.why);
    code = std::max(code, run.code);
  }
  history.left_out.insert(history.left_out.end(), side.left_out.begin(), side.left_out.end());
  for (const std::string& words : history.left_out) reports::say_on_stderr(words);
  if (line.options.run.out.empty()) {
    return {page_or_text(line.options, reports::history_markdown(history)), code};
  }
  const fs::path folder = line.options.run.out;
  const reports::FolderLock lock(folder);
  const reports::Plots plots = reports::write_plots(folder, reports::history_plots(history));
  reports::write_file_atomically(folder / "history.md", reports::history_markdown(history, plots));
  if (line.options.html) (void)reports::write_html_beside(folder / "history.md");
  return {(folder / "history.md").string() + "\n", code};
}

Answer show_trace(const CommandLine& line) {
  const fs::path path = line.positional.front();
  const reports::Trace trace = reports::read_trace(path);
  const reports::CriticalPath critical =
      reports::critical_path_of(trace, reports::default_window(trace), path.string());
  return {deliver(line.options,
                  line.options.format == "json"
                      ? reports::trace_json(trace, critical)
                      : reports::trace_markdown(path.filename().string(), trace, critical))};
}

namespace {

Answer promote(const Options& given, const std::vector<std::string>& paths) {
  reports::PromoteOptions options;
  if (!given.into.empty()) options.into = given.into;
  options.hardware = given.hardware;
  options.force = given.run.force;
  return {reports::promote_baseline(paths, options).text, ExitCode::kPass};
}

Answer show(const std::vector<std::string>& paths) {
  Answer answer;
  for (const std::string& path : paths) answer.text += reports::show_baselines(path);
  return answer;
}

}  // namespace

Answer keep_baseline(const CommandLine& line) {
  const std::string& action = line.positional.front();
  const std::vector<std::string> paths(line.positional.begin() + 1, line.positional.end());
  if (action == "promote") return promote(line.options, paths);
  if (action == "show") return show(paths);
  const std::vector<std::string> actions = {"promote", "show"};
  throw bad_input("baseline", "", action, reports::accepted_names(action, actions));
}

}  // namespace noisemark::suite
