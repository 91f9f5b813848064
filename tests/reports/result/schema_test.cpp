
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/result/json_io.h"
#include "reports/result/result_fields.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::json;

// Walks every object of the schema that has properties.
void for_each_object(const Json& schema, const std::function<void(const Json&)>& visit) {
  if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object()) {
    visit(schema);
  }
  if (!schema.is_structured()) return;
  for (const Json& part : schema) for_each_object(part, visit);
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_test
TEST(Schema, is_published_with_its_documentation_as_the_fields_of_the_result_say) {
  test::expect_published(NOISEMARK_RESULT_ROOM,
                         {{json::kResultDocument, json::shape_of<Result>()}});
}

TEST(Schema, accepts_a_full_and_a_minimal_result) {
  EXPECT_EQ(schema_problems(to_json(test::full_result())), std::vector<std::string>{});
  EXPECT_EQ(schema_problems(to_json(test::minimal_result())), std::vector<std::string>{});
  EXPECT_EQ(schema_problems(to_json(test::result_of_two_ranks())), std::vector<std::string>{});
}

TEST(Schema, accepts_a_memory_mode_with_every_verdict_of_its_certificate) {
  Result result = test::result_under_echo();
  for (const Verdict verdict :
       {Verdict::kPass, Verdict::kFail, Verdict::kNotApplied, Verdict::kUnavailable}) {
    result.memory_mode.certificate.verdict = verdict;
    EXPECT_EQ(schema_problems(to_json(result)), std::vector<std::string>{});
  }
}

TEST(Schema, accepts_what_a_gpu_did_and_refuses_another_unit) {
  Result result = test::result_on_a_gpu();
  EXPECT_EQ(schema_problems(to_json(result)), std::vector<std::string>{});
  EXPECT_EQ(to_json(from_json(to_json(result), "a GPU's")), to_json(result));
  result.utilization.device_use.columns.front().unit = "%";
  EXPECT_FALSE(schema_problems(to_json(result)).empty());
}

TEST(Schema, refuses_a_direction_of_a_convolution_that_is_none) {
  Result result = test::result_on_a_gpu();
  result.utilization.convolutions.kernels.front().direction = "backward";
  EXPECT_FALSE(schema_problems(to_json(result)).empty());
}

TEST(Schema, requires_every_key_and_allows_no_other) {
  int objects = 0;
  for_each_object(Json::parse(result_schema()), [&](const Json& object) {
    ++objects;
    EXPECT_EQ(object["additionalProperties"], false) << object.dump();
    std::vector<std::string> required = object["required"];
    std::sort(required.begin(), required.end());
    std::vector<std::string> properties;
    for (const auto& [key, value] : object["properties"].items()) properties.push_back(key);
    // A result of one process says nothing of ranks, and a pass without a budget nothing of one.
    const std::set<std::string> not_in_all{
        "ranks",     "backend",    "reduction",     "shards",          "communication_s",
        "exposed_s", "local_rank", "exchanges",     "exchanged_bytes", "expected_bytes",
        "budget",    "pipeline",   "micro_batches", "first_block",     "last_block",
        "blocks",    "blocks_s",   "fallbacks",     "peak_saved_bytes"};
    std::erase_if(properties, [&](const std::string& key) {
      return not_in_all.contains(key) &&
             std::find(required.begin(), required.end(), key) == required.end();
    });
    EXPECT_EQ(required, properties);
  });
  EXPECT_EQ(objects, 44) << "the file, its schema entry and 42 structs of result.h";
}

TEST(Schema, refuses_every_kind_of_error_and_names_the_place) {
  struct Case {
    std::string pointer;
    Json value;
    std::string place;
  };
  const std::vector<Case> cases{
      {"/identity/threads", "two", "identity.threads"},
      {"/identity/scale", "tpu", "identity.scale"},
      {"/identity/definition_sha256", "abc", "identity.definition_sha256"},
      {"/identity/device", "gpu", "identity.device"},
      {"/run_id", "0123", "run_id"},
      {"/created_utc", "yesterday", "created_utc"},
      {"/protocol/steps", -1, "protocol.steps"},
      {"/samples/loss/3", "x", "samples.loss[3]"},
      {"/samples/forward_s/3", nullptr, "samples.forward_s[3]"},
      {"/samples/step_s/0", -0.5, "samples.step_s[0]"},
      {"/metrics/0/direction", "up", "metrics[0].direction"},
      {"/metrics/0/ci95/low", "x", "metrics[0].ci95"},
      {"/gates/0/verdict", "maybe", "gates[0].verdict"},
      {"/gates/0/relation", "near", "gates[0].relation"},
      {"/memory/peak/by_category/weights", 1.5, "memory.peak.by_category.weights"},
      {"/exit/code", 9, "exit.code"},
      {"/schema/version", "2.0.0", "schema.version"},
      {"/environment/kernel", 6, "environment.kernel"}};
  for (const Case& one : cases) {
    Json file = Json::parse(to_json(test::full_result()));
    file[Json::json_pointer(one.pointer)] = one.value;
    const auto problems = schema_problems(file.dump());
    const bool named = std::any_of(problems.begin(), problems.end(), [&](const std::string& words) {
      return words.starts_with(one.place);
    });
    EXPECT_TRUE(named) << one.pointer << ": " << (problems.empty() ? "accepted" : problems.front());
  }
}

TEST(Schema, words_every_kind_of_error_as_the_reader_does) {
  struct Case {
    std::string pointer;
    Json value;
    std::string words;
  };
  const std::vector<Case> cases{
      {"/gates/0/relation", "near",
       "gates[0].relation: \"near\" (one of: at most, at least, equals)"},
      {"/exit/code", 9, "exit.code: 9 (one of: 0, 1, 2, 3, 4, 5, 70, 71, 74, 77, 130)"},
      {"/identity/threads", "two", "identity.threads: \"two\" (an integer)"},
      {"/protocol/steps", -1, "protocol.steps: -1 (an integer of at least 0)"},
      {"/samples/step_s/0", -0.5, "samples.step_s[0]: -0.5 (a number of at least 0)"},
      {"/samples/loss/3", "x", "samples.loss[3]: \"x\" (a number or null)"},
      {"/samples/loss", 3, "samples.loss: 3 (a list)"},
      {"/run_id", "0123", "run_id: \"0123\" (a string of the form ^[0-9a-f]{16}$)"},
      {"/identity/benchmark", "", "identity.benchmark: \"\" (a string that is not empty)"},
      {"/identity/custom", 1, "identity.custom: 1 (true or false)"},
      {"/metrics/0/ci95", 3, "metrics[0].ci95: 3 (an object)"},
      {"/metrics/0/ci95", Json::object(),
       "metrics[0].ci95.high: missing (every key must be there)"},
      {"/memory", nullptr, "memory: null (an object)"},
      {"/schema/version", "2.0.0", "schema.version: \"2.0.0\" (\"1.0.0\")"},
      {"/environment/kernel", 6, "environment.kernel: 6 (a string)"},
      {"/exit/status", 6, "exit.status: 6 (a string)"},
      {"/exit/colour", 6, "exit.colour: unknown key (one of: code, reasons, status)"}};
  for (const Case& one : cases) {
    Json file = Json::parse(to_json(test::full_result()));
    file[Json::json_pointer(one.pointer)] = one.value;
    const auto problems = schema_problems(file.dump());
    EXPECT_NE(std::find(problems.begin(), problems.end(), one.words), problems.end())
        << one.words << " is not: " << (problems.empty() ? "accepted" : problems.front());
    for (const std::string& words : problems) EXPECT_TRUE(words.ends_with(')')) << words;
  }
}

TEST(Schema, refuses_a_missing_and_an_unknown_key_of_every_object) {
  const Json whole = Json::parse(to_json(test::full_result()));
  for (const auto& [section, value] : whole.items()) {
    Json file = whole;
    file.erase(section);
    EXPECT_FALSE(schema_problems(file.dump()).empty()) << section;
    const bool free_keys = section == "environment";
    if (!value.is_object() || free_keys) continue;
    file = whole;
    file[section]["no_such_key"] = 1;
    EXPECT_FALSE(schema_problems(file.dump()).empty()) << section;
    file = whole;
    const std::string first = file[section].begin().key();
    file[section].erase(first);
    EXPECT_FALSE(schema_problems(file.dump()).empty()) << section;
  }
  EXPECT_EQ(schema_problems("{"), std::vector<std::string>{"the file is not valid JSON"});
}

}  // namespace
}  // namespace noisemark::reports
