#include "reports/render/scaling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "reports/render/check.h"
#include "reports/render/report_sections.h"
#include "reports/result/json_io.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

/// Columns of a table may be wider than their words.
bool says(std::string text, const std::string& words) {
  const auto both_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both_spaces), text.end());
  return text.find(words) != std::string::npos;
}

/// Two ranks of steps of 1 s, of which rank 0 waits `first_s` and rank 1 `second_s`.
Result of_two(double first_s, double second_s) {
  Result result = test::result_of_two_ranks();
  result.identity.hardware["cpu_threads"] = "64";
  const double waits[] = {first_s, second_s};
  for (size_t rank = 0; rank < 2; ++rank) {
    Samples& samples = result.ranks[rank].samples;
    samples.step_s.assign(samples.step_s.size(), 1.0);
    samples.exposed_s.assign(samples.step_s.size(), waits[rank]);
    samples.communication_s.assign(samples.step_s.size(), 0.5);
  }
  return result;
}

/// The same as stages of four micro-batches; passes of the longer one take 0.75 s.
Result of_two_stages(double first_s, double second_s) {
  Result result = of_two(first_s, second_s);
  result.identity.pipeline = "1f1b";
  result.identity.micro_batches = 4;
  for (RankRecord& record : result.ranks) {
    const double forward_s = record.rank == 0 ? 0.3 : 0.2;
    record.samples.forward_s.assign(record.samples.step_s.size(), forward_s);
    record.samples.backward_s.assign(record.samples.step_s.size(), 0.45);
  }
  return result;
}

void set_rate(Result& result, double rate) {
  for (Metric& metric : result.metrics) {
    if (metric.name == "images_per_s") metric.value = rate;
  }
}

TEST(Communication, is_whole_where_a_rank_told_of_it_and_its_result_is_checked) {
  const Result result = test::result_of_two_ranks();
  EXPECT_EQ(from_json(to_json(result), "it").ranks[1].samples.exposed_s,
            result.ranks[1].samples.exposed_s);
  EXPECT_TRUE(check_values(result, "it").empty());
  Result other = result;
  other.ranks[1].exchanged_bytes = 5;
  const auto findings = check_values(other, "it");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].words, "rank 1 exchanged 5 bytes in a step, by formula 1048576");
}

TEST(Communication, that_is_exposed_is_no_work_of_a_rank) {
  const auto times = rank_times(of_two(0.4, 0.2));
  ASSERT_EQ(times.size(), 2U);
  EXPECT_DOUBLE_EQ(times[0].own_s, 0.6);
  EXPECT_DOUBLE_EQ(times[1].own_s, 0.8);
  EXPECT_EQ(slowest_of(times)->rank, 1);
  EXPECT_EQ(median_of(times)->rank, 0);
}

TEST(Communication, names_a_straggler_beside_the_median_rank) {
  const std::string text = sections::ranks(of_two(0.4, 0.2));
  EXPECT_TRUE(says(text,
                   "**Rank 1 is a straggler: its own work takes 33.3 % more than that of "
                   "rank 0, the median.**"))
      << text;
  EXPECT_TRUE(says(text, "| phase | slowest, rank 1 (ms) | median, rank 0 (ms) |")) << text;
  EXPECT_TRUE(says(sections::ranks(of_two(0.2, 0.21)), "No rank is a straggler")) << text;
}

TEST(Communication, of_ranks_that_share_processors_says_so) {
  Result result = of_two(0.4, 0.2);
  EXPECT_EQ(shared_processors(result), "");
  result.identity.hardware["cpu_threads"] = "4";
  EXPECT_EQ(shared_processors(result),
            "2 ranks with 2 threads and 1 loader thread each share 4 processors");
  EXPECT_TRUE(says(sections::ranks(result), "share 4 processors, so these figures say nothing"));
  // One rank on each of two machines.
  for (RankRecord& record : result.ranks) record.local_rank = 0;
  EXPECT_EQ(shared_processors(result), "");
}

Sweep sweep_over_ranks(const Result& two) {
  Result one = test::full_result();
  set_rate(one, 100);
  Sweep sweep;
  sweep.title = "gmm16@cpu";
  sweep.keys = {"ranks"};
  sweep.rows = {{"ranks=1", {"1"}, one, 0, ""}, {"ranks=2", {"2"}, two, 0, ""}};
  return sweep;
}

TEST(ScalingTable, has_the_efficiency_and_what_it_would_be_without_the_exposed_part) {
  Result two = of_two(0.4, 0.2);
  set_rate(two, 160);
  const std::string text = scaling_table(sweep_over_ranks(two));
  // 160 / (2 * 100), and 160 * 1 / 0.8 = 200 of 200.
  EXPECT_TRUE(says(text, "| 2 | 160.00 | 20.0 % | 200.00 | 80.0 % | 100.0 % |")) << text;
}

TEST(ScalingTable, claims_no_efficiency_where_processors_are_shared_or_threads_differ) {
  Result two = of_two(0.4, 0.2);
  two.identity.threads = 1;
  EXPECT_TRUE(says(scaling_table(sweep_over_ranks(two)), "other threads than one rank"));
  two.identity.hardware["cpu_threads"] = "2";
  const std::string text = scaling_table(sweep_over_ranks(two));
  EXPECT_TRUE(says(text, "| shared processors | shared processors |")) << text;
  EXPECT_TRUE(says(text, "2 ranks with 1 thread and 1 loader thread each share 2 processors"));
}

TEST(ScalingTable, puts_stages_of_a_pipeline_beside_one_rank_which_has_none) {
  Result two = of_two(0.4, 0.2);
  set_rate(two, 160);
  Sweep sweep = sweep_over_ranks(two);
  sweep.keys = {"ranks", "pipeline"};
  for (SweepRow& row : sweep.rows) row.values.push_back("none");
  EXPECT_FALSE(says(scaling_table(sweep), "bubble"));
  Result stages = of_two_stages(0.4, 0.2);
  set_rate(stages, 160);
  sweep.rows.push_back({"ranks=2,pipeline=1f1b", {"2", "1f1b"}, stages, 0, ""});
  const std::string text = scaling_table(sweep);
  EXPECT_TRUE(says(text, "| efficiency without it | bubble | bubble of equal stages |")) << text;
  EXPECT_TRUE(says(text, "| 2 | none | 160.00 | 20.0 % | 200.00 | 80.0 % | 100.0 % | – | – |"));
  EXPECT_TRUE(
      says(text, "| 2 | 1f1b | 160.00 | 20.0 % | 200.00 | 80.0 % | 100.0 % | 40.0 % | 20.0 % |"))
      << text;
}

TEST(Bubble, is_the_mean_wait_over_the_longest_passes_beside_that_of_equal_stages) {
  EXPECT_FALSE(bubble_of(of_two(0.4, 0.2))) << "there is no pipeline";
  const Result result = of_two_stages(0.4, 0.2);
  const auto bubble = bubble_of(result);
  ASSERT_TRUE(bubble);
  EXPECT_DOUBLE_EQ(bubble->measured, (0.4 + 0.2) / 2 / (0.3 + 0.45));
  EXPECT_DOUBLE_EQ(bubble->ideal, 1.0 / 5);
  EXPECT_TRUE(says(sections::ranks(result), "The bubble is 40.0 %"));
}

TEST(Communication, of_gpus_has_bytes_and_says_why_it_has_no_seconds) {
  Result result = test::result_of_two_ranks();
  result.identity.backend = "nccl";
  for (RankRecord& record : result.ranks) {
    record.samples.communication_s.clear();
    record.samples.exposed_s.clear();
  }
  const std::string text = sections::ranks(result);
  EXPECT_TRUE(says(text, "| rank | exchanges | bytes | by formula |")) << text;
  EXPECT_TRUE(says(text, "| 1 | 3 | 1.00 MiB | 1.00 MiB |")) << text;
  EXPECT_TRUE(says(text, "Seconds are not known")) << text;
}

TEST(RankMemory, has_a_column_for_every_owner_that_holds_something_at_the_peak_of_any_rank) {
  Result result = test::result_of_two_ranks();
  result.memory.categories = {"weights", "ema", "input"};
  for (RankRecord& record : result.ranks) {
    record.peak.allocator_bytes = (3 + record.rank) << 20;
    record.peak.unattributed_bytes = 0;
    record.peak.by_category = {{"weights", 3 << 20}, {"ema", record.rank << 20}, {"input", 0}};
  }
  const std::string text = sections::ranks(result);
  EXPECT_TRUE(says(text, "| rank | peak (MiB) | weights (MiB) | ema (MiB) | without an owner |"))
      << text;
  EXPECT_TRUE(says(text, "| 0 | 3.00 | 3.00 | 0.00 | 0 B |")) << text;
  EXPECT_TRUE(says(text, "| 1 | 4.00 | 3.00 | 1.00 | 0 B |")) << text;
  for (RankRecord& record : result.ranks) record.boundaries.clear();
  EXPECT_EQ(sections::ranks(result).find("Memory of each rank"), std::string::npos);
}

TEST(ScalingTable, is_empty_where_ranks_are_no_axis) {
  Sweep sweep = sweep_over_ranks(of_two(0.4, 0.2));
  sweep.keys = {"threads"};
  EXPECT_EQ(scaling_table(sweep), "");
}

}  // namespace
}  // namespace noisemark::reports
