#include "reports/base/json.h"

#include <gtest/gtest.h>

namespace noisemark::reports {
namespace {

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
