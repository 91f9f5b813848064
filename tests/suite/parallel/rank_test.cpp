#include "suite/parallel/rank.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/suite/scratch.h"

namespace noisemark::suite {
namespace {

using Variables = std::map<std::string, std::string>;
using test::outcome;

Variables by_torchrun() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "node0"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "3"}};
}

TEST(RankOfEnvironment, is_read_from_the_variables_of_torchrun) {
  const auto rank = rank_from(by_torchrun());
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 2);
  EXPECT_EQ(rank->ranks, 4);
  EXPECT_EQ(rank->local_rank, 1);
  EXPECT_EQ(rank->address, "node0");
  EXPECT_EQ(rank->port, 29500);
  EXPECT_TRUE(rank->agent_store);
  EXPECT_EQ(rank->attempt, 3);
}

TEST(RankOfEnvironment, is_read_from_those_of_srun_and_mpirun) {
  const Variables where{{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1"}};
  Variables srun{{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "7"}, {"SLURM_LOCALID", "3"}};
  Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "8"},
                   {"OMPI_COMM_WORLD_RANK", "7"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
  for (Variables* variables : {&srun, &mpirun}) {
    variables->insert(where.begin(), where.end());
    const auto rank = rank_from(*variables);
    ASSERT_TRUE(rank);
    EXPECT_EQ(rank->rank, 7);
    EXPECT_EQ(rank->ranks, 8);
    EXPECT_EQ(rank->local_rank, 3);
    EXPECT_FALSE(rank->agent_store);
  }
}

TEST(RankOfEnvironment, is_none_for_a_process_that_was_started_alone) {
  EXPECT_FALSE(rank_from({}));
  EXPECT_FALSE(rank_from({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));  // a job's script
  EXPECT_FALSE(rank_from({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
}

TEST(RankOfEnvironment, names_the_variable_that_is_missing_or_wrong) {
  for (const char* name : {"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = by_torchrun();
    variables.erase(name);
    const auto [code, words] = outcome([&] { (void)rank_from(variables); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_TRUE(words.starts_with(std::string(name) + ": not set (")) << words;
  }
  Variables beyond = by_torchrun();
  beyond["RANK"] = "4";
  EXPECT_EQ(outcome([&] { (void)rank_from(beyond); }).second, "RANK: 4 (an integer from 0 to 3)");
}

TEST(BatchShare, of_all_ranks_together_are_each_micro_batch_in_order) {
  constexpr int64_t kBatch = 24;
  constexpr int64_t kRanks = 3;
  for (const int64_t accumulation : {1, 2, 4}) {
    std::vector<int64_t> all;
    const int64_t part = kBatch / (accumulation * kRanks);
    for (int64_t micro = 0; micro < accumulation; ++micro) {
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        for (int64_t i = 0; i < part; ++i) {
          all.push_back(BatchShare{rank, kRanks}.sample(micro * part + i, kBatch, accumulation));
        }
      }
    }
    for (int64_t i = 0; i < kBatch; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
  }
}

TEST(BatchShare, refuses_ranks_that_do_not_divide_a_micro_batch) {
  EXPECT_EQ(outcome([] { require_equal_shares(3, 16, 2); }),
            std::pair(ExitCode::kBadInput,
                      std::string("ranks: 3 (a divisor of the 8 samples of a micro-batch; or "
                                  "--set train.batch=18)")));
  EXPECT_EQ(outcome([] { require_equal_shares(4, 16, 2); }).first, ExitCode::kPass);
}

}  // namespace
}  // namespace noisemark::suite
