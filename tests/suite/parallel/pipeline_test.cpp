#include "suite/train/pipeline.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suite/io/safetensors.h"
#include "suite/train/checkpoint.h"
#include "suite/train/trainer.h"
#include "tests/suite/parallel/ranks.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

using test::file_bytes;
using test::kLimit;
using test::put_bytes;
using test::Ranks;
using test::tiny_definition;
using test::TinySession;
using test::Words;

std::string words_of(const std::vector<StagePass>& passes) {
  std::string words;
  for (const StagePass& pass : passes) {
    words += fmt::format("{}{} ", pass.backward ? 'B' : 'F', pass.micro);
  }
  return words;
}

std::string schedule_of(PipelineSchedule schedule, int64_t stage, int64_t stages,
                        int64_t micro_batches) {
  return words_of(
      passes_of(passes_together(schedule, stage, stages, micro_batches), micro_batches));
}

TEST(Schedules, of_gpipe_are_all_forward_passes_and_then_all_backward_passes) {
  for (const int64_t stage : {0, 1}) {
    EXPECT_EQ(schedule_of(PipelineSchedule::kGpipe, stage, 2, 3), "F0 F1 F2 B0 B1 B2 ");
  }
}

TEST(Schedules, of_1f1b_alternate_after_as_many_forward_passes_as_stages_follow) {
  EXPECT_EQ(schedule_of(PipelineSchedule::k1F1B, 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(schedule_of(PipelineSchedule::k1F1B, 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(schedule_of(PipelineSchedule::k1F1B, 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3 ");
}

TEST(Schedules, of_1f1b_with_fewer_micro_batches_than_stages_are_those_of_gpipe_at_first) {
  EXPECT_EQ(schedule_of(PipelineSchedule::k1F1B, 0, 4, 2), "F0 F1 B0 B1 ");
}

TEST(Schedules, of_one_micro_batch_at_a_time_run_each_backward_pass_after_its_forward_pass) {
  EXPECT_EQ(words_of(passes_of(1, 3)), "F0 B0 F1 B1 F2 B2 ");
}

/// The longest of the groups that begin there.
double longest(const std::vector<double>& part_s, std::vector<size_t> firsts) {
  firsts.push_back(part_s.size());
  double most = 0;
  for (size_t group = 0; group + 1 < firsts.size(); ++group) {
    double sum = 0;
    for (size_t part = firsts[group]; part < firsts[group + 1]; ++part) sum += part_s[part];
    most = std::max(most, sum);
  }
  return most;
}

TEST(DivideParts, finds_the_shortest_longest_group_of_all_divisions) {
  const std::vector<double> part_s{3, 1, 4, 1, 5, 9, 2, 6};
  double best = 1e9;
  for (size_t second = 1; second < part_s.size(); ++second) {
    for (size_t third = second + 1; third < part_s.size(); ++third) {
      best = std::min(best, longest(part_s, {0, second, third}));
    }
  }
  EXPECT_EQ(longest(part_s, divide_parts(part_s, 3)), best);
  EXPECT_EQ(divide_parts({5, 1, 1}, 3), (std::vector<size_t>{0, 1, 2})) << "no group is empty";
  EXPECT_EQ(divide_parts({5, 1, 1}, 1), (std::vector<size_t>{0}));
}

Definition batch_of_eight() {
  Definition definition = tiny_definition();
  definition.train.batch = 8;
  return definition;
}

TrainerOptions options_in(std::shared_ptr<Group> group) {
  TrainerOptions options = TinySession::options_of(parse_precision("fp32", at::kCPU), at::kCPU);
  options.pipeline.micro_batches = group ? 4 : 0;
  options.group = std::move(group);
  return options;
}

/// The bytes of the memory that the parameters of the model have, whoever trains them.
int64_t held_bytes(Trainer& trainer) {
  int64_t bytes = 0;
  for (const at::Tensor& parameter : trainer.model().parameters()) {
    bytes += static_cast<int64_t>(parameter.storage().nbytes());
  }
  return bytes;
}

std::string digest_of(Trainer& trainer) {
  return tensors_sha256(trainer.whole_weights()) + tensors_sha256(trainer.averaged_weights());
}

/// Trains, and writes what it found: digests of weights and average, of both after a checkpoint was
/// taken up in the middle, and figures.
const test::NamedJob kStages{"stages", [](const Rank& rank, const Words&, const std::string& out) {
                               const auto group = Group::join(rank, kLimit);
                               const TinySession session(batch_of_eight(), options_in(group));
                               Trainer& trainer = *session.trainer;
                               for (int step = 0; step < 3; ++step) (void)trainer.step();
                               put_bytes(out + "/held", std::to_string(held_bytes(trainer)));
                               int64_t own = 0;
                               for (const auto& [name, weight] : trainer.parameters()) {
                                 own += static_cast<int64_t>(weight.nbytes());
                               }
                               put_bytes(out + "/own", std::to_string(own));
                               NamedTensors kept;
                               for (const auto& [name, tensor] : trainer.whole_state())
                                 kept.emplace_back(name, tensor.clone());
                               if (rank.rank == 0) write_safetensors(out + "/state", kept);
                               const Traffic before = group->traffic();
                               StepRecord record;
                               for (int step = 3; step < 6; ++step) record = trainer.step();
                               const Traffic made = group->traffic() - before;
                               put_bytes(out + "/counted", std::to_string(made.bytes / 3));
                               put_bytes(out + "/formula",
                                         std::to_string(trainer.exchanged_bytes()));
                               const int64_t open = trainer.pipeline()->bytes_of_open_pass();
                               put_bytes(out + "/open", std::to_string(open));
                               put_bytes(out + "/loss", std::to_string(record.loss));
                               put_bytes(out + "/weights", digest_of(trainer));
                               // The training goes on from the third step once more.
                               const NamedTensors whole = trainer.whole_state();
                               const at::NoGradGuard no_grad;
                               for (size_t i = 0; i < whole.size(); ++i)
                                 whole[i].second.copy_(kept[i].second);
                               trainer.restore(whole, 3);
                               {
                                 const at::AutoGradMode grad(true);
                                 for (int step = 3; step < 6; ++step) (void)trainer.step();
                               }
                               put_bytes(out + "/again", digest_of(trainer));
                             }};

class PipelineOfThree : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ranks = std::make_unique<Ranks>(3, "stages");
    for (int64_t rank = 0; rank < 3; ++rank) ranks->start(rank);
    ASSERT_EQ(ranks->wait(), (std::vector{0, 0, 0})) << ranks->words_of(0) << ranks->words_of(1);
  }
  static void TearDownTestSuite() { ranks.reset(); }
  static std::string found(int64_t rank, const std::string& name) {
    return file_bytes(ranks->out(rank) + "/" + name);
  }
  static int64_t number(int64_t rank, const std::string& name) {
    return std::stoll(found(rank, name));
  }

  static inline std::unique_ptr<Ranks> ranks;
};

TEST_F(PipelineOfThree, has_the_same_whole_weights_and_average_on_all_ranks) {
  EXPECT_EQ(found(0, "weights").size(), 128U);
  for (const int64_t rank : {1, 2}) EXPECT_EQ(found(rank, "weights"), found(0, "weights"));
}

TEST_F(PipelineOfThree, trains_to_the_loss_of_one_device) {
  const TinySession session(batch_of_eight(), options_in(nullptr));
  double loss = 0;
  for (int step = 0; step < 6; ++step) loss = session.trainer->step().loss;
  for (int64_t rank = 0; rank < 3; ++rank) {
    // Roundings of the gradient, which Adam's first steps make as large as the step: by trial.
    EXPECT_NEAR(std::stod(found(rank, "loss")), loss, 1e-4 * loss);
  }
}

TEST_F(PipelineOfThree, holds_every_weight_on_one_rank_alone) {
  int64_t all = 0;
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(number(rank, "held"), number(rank, "own"));
    all += number(rank, "own");
  }
  const TinySession session(batch_of_eight(), options_in(nullptr));
  EXPECT_EQ(held_bytes(*session.trainer), all);
}

TEST_F(PipelineOfThree, exchanges_the_bytes_of_the_formula) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(number(rank, "counted"), number(rank, "formula")) << rank;
    EXPECT_GT(number(rank, "formula"), 10000);
  }
}

/// Beside its inputs a stage holds of each micro-batch what it gave in forward, and was given, as
/// often as it is to give a gradient for that. The last stage gives nothing else.
TEST_F(PipelineOfThree, holds_of_an_open_pass_what_it_exchanges_and_its_input) {
  const Definition definition = batch_of_eight();
  const int64_t images = definition.train.batch / 4;
  const int64_t side = definition.model.resolution;
  const int64_t input = images * definition.model.channels * side * side * 4;
  const int64_t beside = number(2, "counted") - 4 * (number(2, "open") - input);
  EXPECT_GE(beside, 0);
  EXPECT_LT(beside, 64) << "the step's figures, such as its loss, go along";
}

TEST_F(PipelineOfThree, goes_on_from_a_whole_state_with_every_bit) {
  for (int64_t rank = 0; rank < 3; ++rank) EXPECT_EQ(found(rank, "again"), found(rank, "weights"));
}

TEST_F(PipelineOfThree, has_the_whole_state_of_one_device) {
  const TinySession session(batch_of_eight(), options_in(nullptr));
  std::map<std::string, at::Tensor> state;
  for (const auto& named : read_safetensors(ranks->out(0) + "/state").tensors) state.insert(named);
  for (const auto& [name, tensor] : session.trainer->whole_state()) {
    ASSERT_EQ(state.count(name), 1U) << name;
    EXPECT_EQ(state.at(name).sizes(), tensor.sizes()) << name;
  }
}

}  // namespace
}  // namespace noisemark::suite
