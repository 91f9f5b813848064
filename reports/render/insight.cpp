#include "reports/render/report.h"

#include <fmt/format.h>

#include "reports/base/document.h"
#include "reports/base/fields.h"
#include "reports/base/file.h"
#include "reports/base/input_file.h"
#include "reports/base/json_writer.h"
#include "reports/render/run_folder.h"

namespace noisemark::reports {

/// insight.json as a value.
struct InsightFile {
  std::string result_sha256;
  std::string limit;
  std::string since;
};

namespace json {

constexpr Document kInsightDocument{"noisemark.insight",
                                    "Sentences of a report that its result alone cannot say."};

template <>
struct Fields<InsightFile> {
  static constexpr About kAbout{"InsightFile", ""};
  static constexpr std::tuple kAll{
      field("result_sha256", &InsightFile::result_sha256,
            "SHA-256 of the result.json of which the sentences are; of another they are not shown"),
      field("limit", &InsightFile::limit, "what limits the speed, by a profile; empty: none"),
      field("since", &InsightFile::since, "what changed since BASE; empty: nobody named one")};
};

}  // namespace json

namespace {

namespace fs = std::filesystem;

/// Names the way out too: the sentences can be found again.
InsightFile insight_from_json(const std::string& text, const std::string& where) {
  try {
    return read_document<InsightFile>(text, json::kInsightDocument, where);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; without the file `noisemark report` finds its "
                                          "sentences again",
                                          error.what()));
  }
}

}  // namespace

std::optional<std::string> read_addition(const fs::path& file, std::vector<Finding>* unread) {
  std::optional<std::string> text;
  std::vector<Finding> found;
  or_lost(file, unread == nullptr ? nullptr : &found, [&] {
    if (is_named(file)) text = read_file(file);
  });
  for (Finding& one : found) {
    one.code = ExitCode::kPass;
    unread->push_back(std::move(one));
  }
  return text;
}

Insight read_insight(const fs::path& folder, const std::string& result_sha256,
                     std::vector<Finding>* unread) {
  const fs::path file = folder / kInsightFile;
  const std::optional<std::string> text = read_addition(file, unread);
  if (!text) return {};
  const InsightFile noted = insight_from_json(*text, file.string());
  return noted.result_sha256 == result_sha256 ? Insight{noted.limit, noted.since} : Insight{};
}

void write_insight(const fs::path& folder, const std::string& result_sha256,
                   const Insight& insight) {
  const fs::path file = folder / kInsightFile;
  if (insight.limit.empty() && insight.since.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const InsightFile noted{result_sha256, insight.limit, insight.since};
  write_file_atomically(file, document_text(json::kInsightDocument, json::tree_of(noted)));
}

std::vector<json::Published> folder_documents() {
  return {{json::kInsightDocument, json::shape_of<InsightFile>()},
          {json::kSuiteDocument, json::shape_of<Suite>()}};
}

}  // namespace noisemark::reports
