#include "reports/result/json_io.h"

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "reports/base/fields.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {
namespace {

// valijson's «<root>», «[metrics]», «[3]», «[value]» as «metrics[3].value».
std::string path_of(const std::vector<std::string>& context) {
  std::string path;
  for (const std::string& step : context) {
    if (!step.starts_with('[') || !step.ends_with(']')) continue;
    const std::string name = step.substr(1, step.size() - 2);
    const bool index = name.find_first_not_of("0123456789") == std::string::npos;
    path += index ? step : (path.empty() ? "" : ".") + name;
  }
  return path.empty() ? "the file" : path;
}

}  // namespace

std::string result_schema() {
  return json::schema_text(json::kResultDocument, json::shape_of<Result>());
}

std::string result_fields_markdown() {
  return json::fields_markdown(json::kResultDocument, json::shape_of<Result>());
}

std::vector<std::string> schema_problems(std::string_view text) {
  const auto file = nlohmann::json::parse(text, nullptr, false);
  if (file.is_discarded()) return {"the file is not valid JSON"};
  const auto rules = nlohmann::json::parse(result_schema());
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(rules), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  std::vector<std::string> problems;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(file), &results)) {
    return problems;
  }
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    // Every enclosing object fails too, which says nothing new.
    if (error.description.starts_with("Failed to validate against schema associated")) continue;
    problems.push_back(path_of(error.context) + ": " + error.description);
  }
  if (problems.empty()) problems.emplace_back("the file does not follow the schema");
  return problems;
}

}  // namespace noisemark::reports
