#include "reports/compare/comparable.h"

#include <gtest/gtest.h>

#include "tests/reports/compare/runs.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

std::vector<std::string> names_of(const std::vector<FieldDifference>& differences) {
  std::vector<std::string> names;
  for (const FieldDifference& one : differences) names.push_back(one.field);
  return names;
}

TEST(DifferingFields, are_those_of_other_values_and_those_that_one_side_lacks) {
  const Strings a = {{"both", "1"}, {"clocks", "default"}, {"same", "x"}};
  const Strings b = {{"both", "2"}, {"later", "y"}, {"same", "x"}};
  const std::vector<FieldDifference> found = differing_fields(a, b, "cell");
  EXPECT_EQ(names_of(found), (std::vector<std::string>{"both", "clocks", "later"}));
  EXPECT_EQ(found[0].cell, "cell");
  EXPECT_EQ(found[0].base, "1");
  EXPECT_EQ(found[0].candidate, "2");
  EXPECT_EQ(found[1].candidate, "") << "unknown";
  EXPECT_EQ(found[2].base, "") << "unknown";
  EXPECT_EQ(names_of(differing_fields(b, a)), names_of(found));
  EXPECT_TRUE(differing_fields(a, a).empty());
}

TEST(DifferingFields, include_one_that_is_empty_on_one_side_and_lacking_on_the_other) {
  EXPECT_EQ(differing_fields({{"x", ""}}, {}).size(), 1U);
}

TEST(DifferingFields, are_named_by_the_first_and_how_many_more) {
  EXPECT_EQ(first_of({}), "");
  EXPECT_EQ(first_of({{"", "a", "", ""}}), "a");
  EXPECT_EQ(first_of({{"", "a", "", ""}, {"", "b", "", ""}, {"", "c", "", ""}}), "a and 2 more");
}

TEST(IdentityFields, include_the_clocks_policy_and_leave_out_what_belongs_to_the_seed) {
  Result result = test::full_result();
  result.identity.hardware["gpu_clocks"] = "default";
  const Strings fields = identity_fields(result);
  EXPECT_EQ(fields.at("identity.hardware.gpu_clocks"), "default");
  Result other = result;
  other.seeds.base += 1;
  other.provenance.init_weights_sha256 = std::string(64, 'a');
  EXPECT_EQ(identity_fields(other), fields);
}

TEST(IdentityDifferences, look_at_initial_weights_of_equal_seeds_alone) {
  const auto differences = [](uint64_t seed) {
    const Side base = test::side("a", {1});
    const Side candidate = test::side("b", {1}, [=](Result& r, size_t) {
      r.seeds.base = seed;
      r.provenance.init_weights_sha256 = std::string(64, 'a');
    });
    return identity_differences({"cell", {{&base.runs[0], &candidate.runs[0]}}});
  };
  EXPECT_TRUE(differences(8).empty());
  EXPECT_EQ(names_of(differences(7)),
            std::vector<std::string>{"provenance.init_weights_sha256 (seed 7)"});
}

}  // namespace
}  // namespace noisemark::reports
