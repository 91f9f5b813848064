#include "reports/ab/same_work.h"

#include <gtest/gtest.h>

#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

TEST(SameWork, changes_with_definition_data_settings_hardware_and_weights) {
  const Result result = test::full_result();
  const auto differs = [&](void (*change)(Result&)) {
    Result other = result;
    change(other);
    return same_work(other) != same_work(result);
  };
  EXPECT_TRUE(differs([](Result& r) { r.identity.definition_sha256 = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.version += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.mode = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.threads += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.hardware["cpu"] = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.identity.data = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.seeds.base += 1; }));
  EXPECT_TRUE(differs([](Result& r) { r.provenance.init_weights_sha256 = "other"; }));
  EXPECT_TRUE(differs([](Result& r) { r.protocol.deterministic = !r.protocol.deterministic; }));
}

TEST(SameWork, does_not_change_with_the_build) {
  const Result result = test::full_result();
  Result other = result;
  other.identity.software["libtorch"] = "other";
  other.provenance.git_commit = "other";
  other.provenance.binary_sha256 = "other";
  EXPECT_EQ(same_work(other), same_work(result));
  EXPECT_NE(about_build(other), about_build(result));
}

}  // namespace
}  // namespace noisemark::reports
