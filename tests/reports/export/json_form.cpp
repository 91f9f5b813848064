#include "tests/reports/export/json_form.h"

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "reports/file.h"

namespace noisemark::reports::test {

bool follows(const std::string& name, const std::string& text) {
  using valijson::adapters::NlohmannJsonAdapter;
  const auto rules = nlohmann::json::parse(
      read_file(std::string(NOISEMARK_TEST_FOLDER "/schema/") + name + ".schema.json"));
  const auto json = nlohmann::json::parse(text);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(rules), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  return validator.validate(schema, NlohmannJsonAdapter(json), nullptr);
}

}  // namespace noisemark::reports::test
