#include "reports/render/insight.h"

#include <nlohmann/json.hpp>

#include "reports/base/file.h"
#include "reports/base/sealed_json.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "insight.json";
constexpr const char* kSchema = "noisemark.insight 1";

}  // namespace

Insight read_insight(const fs::path& folder, const std::string& result_sha256) {
  const fs::path file = folder / kFile;
  if (!fs::exists(file)) return {};
  const OrderedJson json = parse_json(read_file(file), file.string());
  const JsonFields fields(json, file.string());
  if (fields.text("schema") != kSchema) throw fields.refusal("schema", kSchema);
  const Insight insight{fields.text("limit"), fields.text("since")};
  return fields.text("result_sha256") == result_sha256 ? insight : Insight{};
}

void write_insight(const fs::path& folder, const std::string& result_sha256,
                   const Insight& insight) {
  const fs::path file = folder / kFile;
  if (insight.limit.empty() && insight.since.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const OrderedJson json{{"schema", kSchema},
                         {"result_sha256", result_sha256},
                         {"limit", insight.limit},
                         {"since", insight.since}};
  write_file_atomically(file,
                        json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace noisemark::reports
