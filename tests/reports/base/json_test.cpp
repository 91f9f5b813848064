#include "reports/base/json.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "reports/base/fields.h"

namespace noisemark::reports {
namespace {

struct Room {
  int64_t beds = 0;
  int64_t windows = 0;
};

}  // namespace

template <>
struct json::Fields<Room> {
  static constexpr About kAbout{"Room", "A room."};
  static constexpr std::tuple kAll{
      field("beds", &Room::beds, "number of the beds"),
      field("windows", &Room::windows, "number of the windows").since("1.1.0")};
};

namespace {

TEST(Fields, without_a_text_are_refused) {
  EXPECT_NO_THROW((void)json::field("beds", &Room::beds, "number of the beds"));
  EXPECT_THROW((void)json::field("beds", &Room::beds, ""), std::logic_error);
  int64_t (*const of)(const Room&) = [](const Room& room) { return room.beds; };
  EXPECT_THROW((void)json::computed("beds", of, ""), std::logic_error);
}

TEST(Fields, that_came_later_say_since_which_version_in_the_schema_and_the_documentation) {
  const json::Document document{"noisemark.room", "1.1.0", "A room."};
  const json::Shape shape = json::shape_of<Room>();
  const std::string schema = json::schema_text(document, shape);
  EXPECT_NE(schema.find("\"number of the beds\""), std::string::npos) << schema;
  EXPECT_NE(schema.find("\"number of the windows (since 1.1.0)\""), std::string::npos) << schema;
  const std::string page = json::fields_markdown(document, shape);
  EXPECT_NE(page.find("| number of the beds "), std::string::npos) << page;
  EXPECT_NE(page.find("| number of the windows (since 1.1.0) |"), std::string::npos) << page;
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
