#include "baselines/baseline.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace noisemark::baselines {
namespace {

std::string complaint(const std::string& spelling) {
  try {
    (void)parse_baseline(spelling);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

void expect_nearest(const std::string& spelling, const std::string& nearest) {
  const std::string message = complaint(spelling);
  EXPECT_NE(message.find("\"" + spelling + "\""), std::string::npos) << message;
  EXPECT_NE(message.find("nearest: \"" + nearest + "\""), std::string::npos) << message;
}

TEST(Baseline, lists_plain_first_and_every_name_parses_to_its_own_execution) {
  ASSERT_FALSE(baselines().empty());
  EXPECT_EQ(baselines().front().name, "plain");
  for (const BaselineEntry& entry : baselines()) {
    const Execution execution = parse_baseline(entry.name);
    EXPECT_EQ(execution.channels_last, entry.execution.channels_last) << entry.name;
    EXPECT_EQ(execution.fused, entry.execution.fused) << entry.name;
    EXPECT_EQ(execution.cuda_graph, entry.execution.cuda_graph) << entry.name;
    EXPECT_EQ(execution.autotuned, entry.execution.autotuned) << entry.name;
    EXPECT_EQ(execution.pooled_memory, entry.execution.pooled_memory) << entry.name;
    EXPECT_EQ(execution.precision, entry.execution.precision) << entry.name;
  }
}

TEST(Baseline, plain_changes_nothing) {
  const Execution plain = parse_baseline("plain");
  EXPECT_FALSE(plain.channels_last || plain.fused || plain.cuda_graph || plain.autotuned ||
               plain.pooled_memory);
  EXPECT_TRUE(plain.precision.empty());
  EXPECT_EQ(&plain.ops(), &plain_ops());
}

TEST(Baseline, combines_names_in_table_order) {
  const Execution all = parse_baseline("fused+channels-last+cuda-graph+autotuned+pooled+bf16");
  EXPECT_TRUE(all.channels_last && all.fused && all.cuda_graph && all.autotuned &&
              all.pooled_memory);
  EXPECT_EQ(all.precision, "bf16");
  EXPECT_EQ(&all.ops(), &fused_ops());
}

TEST(Baseline, refuses_other_spellings_and_names_the_nearest) {
  expect_nearest("fusd", "fused");
  expect_nearest("channels_last", "channels-last");
  expect_nearest("channels-last+fused", "fused+channels-last");
  expect_nearest("fused+fused", "fused");
  expect_nearest("cuda-graph+fused", "fused+cuda-graph");
  expect_nearest("plain+fused", "fused");
  expect_nearest("bf16+chanels-last", "channels-last+bf16");
  expect_nearest("Plain", "plain");
}

TEST(Baseline, refuses_empty_parts) {
  for (const char* spelling : {"", "+", "fused+", "+fused", "fused++pooled", " fused"}) {
    EXPECT_NE(complaint(spelling), "accepted") << '"' << spelling << '"';
  }
}

}  // namespace
}  // namespace noisemark::baselines
