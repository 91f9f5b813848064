#include "reports/base/json.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "reports/base/fields.h"

namespace noisemark::reports {
namespace {

struct Room {
  int64_t beds = 0;
  int64_t opened_ns = 0;
};

}  // namespace

template <>
struct json::Fields<Room> {
  static constexpr About kAbout{"Room", "A room."};
  static constexpr std::tuple kAll{
      field("beds", &Room::beds, "number of the beds"),
      field("opened_ns", &Room::opened_ns, "time for which the door is open")};
};

namespace {

TEST(Fields, without_a_text_are_refused) {
  EXPECT_NO_THROW((void)json::field("beds", &Room::beds, "number of the beds"));
  EXPECT_THROW((void)json::field("beds", &Room::beds, ""), std::logic_error);
  int64_t (*const of)(const Room&) = [](const Room& room) { return room.beds; };
  EXPECT_THROW((void)json::computed("beds", of, ""), std::logic_error);
}

TEST(Fields, of_a_document_that_is_a_list_are_those_of_its_entries_with_their_units) {
  const json::Document document{"noisemark.rooms", "All rooms.", false, "noisemark rooms"};
  const json::Shape shape = json::shape_of<std::vector<Room>>();
  const auto schema = nlohmann::json::parse(json::schema_text(document, shape));
  EXPECT_EQ(schema["items"]["$ref"], "#/definitions/Room");
  EXPECT_EQ(schema["definitions"]["Room"]["required"].size(), 2U);
  const std::string page = json::fields_markdown(document, shape);
  EXPECT_NE(page.find("| nanoseconds |"), std::string::npos) << page;
  EXPECT_NE(page.find("(rooms.schema.json)"), std::string::npos) << page;
}

TEST(JsonFault, is_nothing_in_json) {
  EXPECT_EQ(json_fault("{\"a\": [1, 2.5, null]}\n"), "");
}

TEST(JsonFault, names_line_and_column) {
  EXPECT_EQ(json_fault("# Report\n"), "from line 1, column 1 on");
  EXPECT_EQ(json_fault("{\n  \"a\": 1,\n  \"b\": @\n}\n"), "from line 3, column 8 on");
}

TEST(JsonFault, tells_what_is_cut_off_from_what_is_wrong) {
  for (const char* text : {"{", "{\"a\": \"cut", "[1, 2"}) {
    EXPECT_EQ(json_fault(text), "it ends too early") << text;
  }
  EXPECT_EQ(json_fault(""), "it is empty");
}

TEST(JsonFault, knows_what_is_nested_too_deeply_and_no_bracket_of_a_text) {
  const std::string open(kMostNested, '[');
  const std::string close(kMostNested, ']');
  EXPECT_EQ(json_fault(open + close), "");
  EXPECT_EQ(json_fault("[" + open + close + "]"), "it is nested too deeply");
  EXPECT_EQ(json_fault("[\"\\\"" + open + open + "\"]"), "");
}

TEST(JsonFault, knows_a_number_that_no_double_holds) {
  EXPECT_EQ(json_fault("[1e999]"), "a number is too large");
}

}  // namespace
}  // namespace noisemark::reports
