#include "reports/ab/record.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reports/ab/ab_fields.h"
#include "reports/ab/judge.h"
#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/result/environment_changes.h"
#include "tests/reports/ab/simulated.h"
#include "tests/reports/golden_file.h"

namespace noisemark::reports {
namespace {

std::string refusal(const std::string& text) {
  try {
    (void)ab_from_json(text, "ab.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "not refused";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_ab_test
TEST(AbRecord, is_published_with_its_documentation_as_its_fields_say) {
  test::expect_published(NOISEMARK_AB_ROOM,
                         {{json::kAbDocument, json::shape_of<AbRecord>()},
                          {json::kCalibrationDocument, json::shape_of<CalibrationFile>()},
                          {json::kPaceDocument, json::shape_of<PaceReady>()},
                          {json::kTurnDocument, json::shape_of<PaceTurn>()}});
}

TEST(AbRecord, reads_back_bit_for_bit) {
  test::Simulated machine;
  machine.made = 7;
  AbRecord record = test::simulate(machine);
  record.ended = "B (new): ended by signal 11";
  record.plan.slow_down_frac = 0.05;
  record.plan.noise_floor_frac = 0.0123;
  record.figures = {
      {"", "peak_bytes", "bytes", 3.0, 4.0, "", "", CompareVerdict::kRegression, "rose"},
      {"", "saved_bytes", "bytes", 3.0, {}, "", "", CompareVerdict::kNotComparable, "no longer"},
      {"", "loss trace", "", {}, {}, "aa", "aa", CompareVerdict::kEquivalent, ""}};
  EXPECT_EQ(ab_json(record).find("clock_reasons"), std::string::npos) << "on a processor";
  record.pairs[6].clock_reasons = "power cap";
  const std::string text = ab_json(record);
  const AbRecord again = ab_from_json(text, "ab.json");
  EXPECT_EQ(ab_json(again), text);
  EXPECT_EQ(again.pairs[6].clock_reasons, "power cap");
  ASSERT_EQ(again.figures.size(), 3U);
  EXPECT_EQ(again.figures[0].candidate, 4.0);
  EXPECT_EQ(again.figures[0].verdict, CompareVerdict::kRegression);
  EXPECT_EQ(again.figures[1].candidate, std::nullopt);
  EXPECT_EQ(again.figures[2].base_digest, "aa");
  EXPECT_EQ(again.pairs[6].turns[3].step_s, record.pairs[6].turns[3].step_s);
  EXPECT_EQ(again.pairs[6].first, record.pairs[6].first);
  EXPECT_EQ(again.b.identity, record.b.identity);
  EXPECT_EQ(again.ended, record.ended);
}

TEST(AbRecord, carries_the_environment_where_it_was_read) {
  AbRecord record = test::simulate({});
  EXPECT_EQ(ab_json(record).find("environment"), std::string::npos);
  EXPECT_TRUE(ab_from_json(ab_json(record), "ab.json").environment.empty());
  record.environment = {{"kernel", "Linux"}, {std::string(kChangedWhileItRan), "nothing"}};
  EXPECT_EQ(ab_from_json(ab_json(record), "ab.json").environment, record.environment);
}

TEST(AbRecord, says_that_the_machine_changed_meanwhile) {
  AbRecord record = test::simulate({});
  const auto says = [&](const std::string& changed) {
    record.environment = {{std::string(kChangedWhileItRan), changed}};
    return ab_markdown(record, judge_ab(record)).find("changed while it ran: cpu_governor") !=
           std::string::npos;
  };
  EXPECT_TRUE(says("cpu_governor"));
  EXPECT_FALSE(says("nothing"));
}

TEST(AbRecord, judged_again_says_the_same_byte_for_byte) {
  const AbRecord record = test::simulate({});
  const AbRecord again = ab_from_json(ab_json(record), "ab.json");
  EXPECT_EQ(ab_markdown(again, judge_ab(again)), ab_markdown(record, judge_ab(record)));
}

TEST(AbRecord, a_list_of_numbers_takes_one_line) {
  const std::string text = ab_json(test::simulate({}));
  EXPECT_NE(text.find("\"loss\": [1.0,0.5,0.3333333333333333,0.25,0.2]\n"), std::string::npos)
      << text.substr(0, 3000);
}

TEST(AbRecord, what_was_changed_or_cut_off_is_refused) {
  const std::string text = ab_json(test::simulate({}));
  EXPECT_EQ(refusal(with(text, "\"commit\": \"bbbb\"", "\"commit\": \"cccc\"")),
            "ab.json: checksum: does not hold: the file was changed or cut off");
  EXPECT_EQ(refusal(text.substr(0, text.size() / 2)).find("ab.json: not JSON: "), 0U);
  EXPECT_EQ(refusal(with(text, "noisemark.ab", "noisemark.xy")),
            "ab.json: schema.name: \"noisemark.xy\" (noisemark.ab)");
  EXPECT_EQ(refusal(with(text, "\"1.0.0\"", "\"2.0.0\"")),
            "ab.json: schema.version: \"2.0.0\" (1.0.0)");
  EXPECT_EQ(refusal(with(text, "\"1.0.0\"", "\"1.1.0\"")),
            "ab.json: schema.version: \"1.1.0\" (1.0.0)");
  EXPECT_EQ(refusal(with(text, "\"ended\"", "\"created_utc\"")),
            "ab.json: created_utc: this key twice in one object (every key once)");
}

TEST(AbRecord, what_departs_from_its_fields_is_refused) {
  const AbRecord record = test::simulate({});
  OrderedJson body = parse_json(ab_json(record), "ab.json");
  body.erase("schema");
  body.erase("checksum");
  const auto sealed = [&] { return document_text(json::kAbDocument, body); };
  EXPECT_EQ(ab_json(ab_from_json(sealed(), "ab.json")), ab_json(record));
  body["pairs"][1]["turns"][0]["mood"] = 1;
  EXPECT_EQ(refusal(sealed()),
            "ab.json: pairs[1].turns[0].mood: unknown key (one of: side, step_s, loss)");
  body["pairs"][1]["turns"][0].erase("mood");
  body["pairs"][1]["turns"][0]["step_s"][2] = 0;
  EXPECT_EQ(refusal(sealed()), "ab.json: pairs[1].turns[0].step_s[2]: 0 (a number above 0)");
  body["pairs"][1]["turns"][0]["step_s"][2] = 1;
  body["pairs"][1]["turns"][0]["loss"].erase(0);
  EXPECT_EQ(refusal(sealed()),
            "ab.json: pairs[1].turns[0].loss: 4 numbers (as many numbers as step_s, at least one)");
  body["plan"].erase("turn_s");
  EXPECT_EQ(refusal(sealed()), "ab.json: plan.turn_s: missing (every key must be there)");
}

TEST(AbRecord, is_read_from_its_folder_too_and_what_is_missing_is_named) {
  try {
    (void)read_ab("/nonexistent/ab.json");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/ab.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace noisemark::reports
