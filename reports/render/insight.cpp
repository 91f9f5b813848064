#include "reports/render/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/base/file.h"
#include "reports/base/input_file.h"
#include "reports/base/sealed_json.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr json::Document kDocument{"noisemark.insight", "1.0.0",
                                   "Sentences of a report that its result alone cannot say."};

/// Names the way out too: the sentences can be found again.
OrderedJson unseal(const std::string& text, const std::string& where) {
  try {
    return unseal_json(text, kDocument, where);
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
  const OrderedJson json = unseal(*text, file.string());
  const JsonFields fields(json, file.string());
  const Insight insight{fields.text("limit"), fields.text("since")};
  return fields.text("result_sha256") == result_sha256 ? insight : Insight{};
}

void write_insight(const fs::path& folder, const std::string& result_sha256,
                   const Insight& insight) {
  const fs::path file = folder / kInsightFile;
  if (insight.limit.empty() && insight.since.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const OrderedJson body{
      {"result_sha256", result_sha256}, {"limit", insight.limit}, {"since", insight.since}};
  write_file_atomically(file, sealed_json(kDocument, body));
}

}  // namespace noisemark::reports
