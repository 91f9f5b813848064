#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/fields.h"
#include "reports/render/table.h"
#include "reports/result/result.h"

/// The files that a run leaves behind.
namespace noisemark::reports {

/// The sub-folders of a run's folder for the run that is to replace it: until it has ended, while
/// the old files go, and while its own come up.
inline constexpr const char* kReplacementFolder = "replacement";
inline constexpr const char* kReplacingFolder = "replacing";
inline constexpr const char* kArrivingFolder = "arriving";

/// Says whether `folder` is such a sub-folder of a run that is there: what is in it is no run of
/// its own yet. Elsewhere the names are the user's.
[[nodiscard]] bool is_of_a_replacement(const std::filesystem::path& folder);

/// Returns whether a run was begun in `folder`, which its events.mlog shows, and left no result.
[[nodiscard]] bool is_begun_run(const std::filesystem::path& folder);
inline constexpr const char* kBegun = "it was begun and left no result";

/// Writes plots/, report.md and result.json into `folder` (made when missing). The result's bytes
/// are on the disk before anything is drawn, and come in place last: a result that is there has its
/// report. Throws Error (cannot write), and then no result is put in place.
void write_run_folder(const std::filesystem::path& folder, const Result& result);

/// Writes result.json alone, where there is no room for its report; that of another result is
/// removed. Throws Error (cannot write).
void write_result_alone(const std::filesystem::path& folder, const Result& result);

/// Returns the descriptions of insight.json and suite.json.
[[nodiscard]] std::vector<json::Published> folder_documents();

/// The part of a suite that a folder has.
struct SuitePart {
  std::string suite;  ///< its title as a whole
  int64_t number = 1;
  int64_t of = 1;
  std::string program;           ///< SHA-256 of the one that runs it
  std::string options = {};      ///< those that all parts are given
  std::string definitions = {};  ///< SHA-256 of the definitions of all runs
};

/// Several runs with a common report, as suite.json tells of them.
struct Suite {
  std::string title;
  std::vector<std::string> names;  ///< names of the runs' folders, below the suite's
  /// The SHA-256, by name, of a result.json that lay there before: it is none of this suite.
  std::map<std::string, std::string> earlier;
  /// The reason, by name, why a run left no result without having failed: "cannot run here".
  std::map<std::string, std::string> not_run = {};
  /// "gmm16-ho-long@cpu": whose quality over seeds it judges. Empty means whatever has several.
  std::vector<std::string> judged = {};
  std::optional<SuitePart> part = {};  ///< is empty where it is whole
  /// The cause, by name, that a run has told. It is why there is no result.
  std::map<std::string, std::string> causes = {};
  /// Names of runs that the suite did not make yet, or whose folder another run had taken: a result
  /// there is none of this suite.
  std::vector<std::string> not_made = {};
};

namespace json {

inline constexpr Document kSuiteDocument{"noisemark.suite", "Several runs with a common report.",
                                         false};

template <>
struct Fields<SuitePart> {
  static constexpr About kAbout{"SuitePart", "The part of a suite that one machine runs."};
  static constexpr std::tuple kAll{
      field("suite", &SuitePart::suite, "the title of the whole"),
      field("number", &SuitePart::number, "from 1 on"),
      field("of", &SuitePart::of, "all parts"),
      field("program", &SuitePart::program, "SHA-256 of the program that runs it"),
      field("options", &SuitePart::options, "options that change what the suite is")
          .left_out_if_empty(),
      field("definitions", &SuitePart::definitions, "SHA-256 of the definitions of the whole")
          .left_out_if_empty()};
};

template <>
struct Fields<Suite> {
  static constexpr About kAbout{"Suite", "Several runs with a common report."};
  static constexpr std::tuple kAll{
      field("title", &Suite::title, "the heading of the report"),
      field("folders", &Suite::names, "the runs' folders, below this one"),
      field("earlier", &Suite::earlier, "SHA-256 of results that lay there before, by folder"),
      field("not_run", &Suite::not_run, "why runs cannot run here, by folder"),
      field("causes", &Suite::causes, "why runs left no result, by folder").left_out_if_empty(),
      field("not_made", &Suite::not_made, "folders in which a result is of another run")
          .left_out_if_empty(),
      field("judged", &Suite::judged, "benchmarks whose quality over seeds is judged")
          .left_out_if_empty(),
      field("part", &Suite::part, "the part that ran here").left_out_if_empty()};
};

}  // namespace json

/// Writes `folder`/suite.json. Call it before the runs, so that one that cannot begin is missed and
/// no earlier result is taken for its own. Throws Error (cannot write).
void write_suite(const std::filesystem::path& folder, const Suite& suite);

/// Returns nothing without a suite.json. Throws Error (bad input) when that is none of ours.
[[nodiscard]] std::optional<Suite> read_suite(const std::filesystem::path& folder);

/// The outcome of a run of a suite.
struct SuiteRun {
  std::string name;
  std::string lost;      ///< reason why it has no result of its own; empty: it has one
  bool not_run = false;  ///< it was never run, so that a missing result is no failure
  bool taken = false;    ///< its folder has the result of a run that is none of the suite's
};

/// Every run of the suite in `folder`, in its order: the one rule of which results are a suite's.
/// A result of a run that was not run, that lay there before, or that another run left there, is
/// none of it; where a run was to replace that one and did not, the reason says how it ended.
[[nodiscard]] std::vector<SuiteRun> suite_runs(const std::filesystem::path& folder,
                                               const Suite& suite);

/// Writes report.md by `folder`/suite.json, or by those of the parts below (suite_in()): the
/// results side by side. A run without a result of its own is named, and counts as failed where it
/// was run. `lost` as that of collect_suite(). Throws Error (bad input, cannot write).
void write_suite_report(const std::filesystem::path& folder, std::vector<Finding>* lost = nullptr);

/// Renders report.md and plots/ again from the result.json in `folder`, or those of every result
/// below it and then, where there is a suite, whole or in parts, its report. Returns the reports
/// that it wrote, the suite's last. What cannot be read, or is being written by another process,
/// goes to `lost`, and the others are rendered; without `lost` it is thrown. Throws Error (bad
/// input, cannot write).
std::vector<std::filesystem::path> rewrite_report(const std::filesystem::path& folder,
                                                  std::vector<Finding>* lost = nullptr);

/// Results that belong together.
struct CollectedResults {
  std::string title;  ///< title of the suite, else the path
  std::vector<NamedResult> results;
  std::vector<MissingRun> missing;  ///< runs of the suite without a result of their own
};

/// Reads the folder of a suite or of all its parts; else empty. Throws Error as suite_in(); with
/// `lost`, a result that cannot be read goes there and is also a run without one.
[[nodiscard]] std::optional<CollectedResults> collect_suite(const std::filesystem::path& folder,
                                                            std::vector<Finding>* lost = nullptr);

/// Reads a result.json, its folder, the folder of a suite, or a folder of results. Throws Error
/// (bad input); with `lost`, what cannot be read goes there and is also a run without a result.
[[nodiscard]] CollectedResults collect_results(const std::filesystem::path& path,
                                               std::vector<Finding>* lost = nullptr);

/// Throws Error where not every part of a suite that has one at `paths`, or right below one of
/// them, is there: exit code 3 for a part that is missing, or is of another program, number of
/// parts, options or definitions; exit code 2 for a part that is there twice.
void require_whole_suites(const std::vector<std::string>& paths);

/// The suite whose parts lie right below `folder`, with the folders' names before those of its
/// runs; empty where there is none, or more than one suite. Throws Error as above.
[[nodiscard]] std::optional<Suite> joined_suite(const std::filesystem::path& folder);

/// The suite in `folder`, whole or joined. Throws Error as read_suite() does, and as above.
[[nodiscard]] std::optional<Suite> suite_in(const std::filesystem::path& folder);

}  // namespace noisemark::reports
