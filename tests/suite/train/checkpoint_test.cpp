#include "suite/train/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "reports/base/error.h"
#include "suite/io/safetensors.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::tiny_definition;
using test::TinySession;

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');  // the name of a test with a parameter has
                                                       // them
    folder_ = fs::path(::testing::TempDir()) / ("checkpoint_" + name);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "checkpoint.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static CheckpointKey key() { return {"definition", "none-plain-fp32", ""}; }

  void write_after(int64_t steps, const Definition& definition = tiny_definition()) {
    const TinySession session(definition);
    while (session.trainer->next_step() < steps) (void)session.trainer->step();
    TrainingProgress progress;
    progress.samples.loss = {1.5, 0.25};
    progress.elapsed_s = 12.5;
    progress.init_weights_sha256 = "first";
    reports::Evaluation evaluation;
    evaluation.step = 2;
    evaluation.loss = 0.5;
    evaluation.timesteps = {62, 187};
    evaluation.per_timestep = {0.1, 0.9};
    evaluation.excess_frac = 0.75;
    progress.evaluations = {evaluation};
    progress.division = {{0.25, 1.0 / 3, 0.5}, {0, 2}};
    write_checkpoint(path_, *session.trainer, key(), progress);
  }

  ExitCode code_of_reading(const CheckpointKey& key) {
    const TinySession session(tiny_definition());
    try {
      (void)read_checkpoint(path_, *session.trainer, key);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kPass;
  }

  fs::path folder_;
  std::string path_;
};

class ResumedRun : public Checkpoint, public ::testing::WithParamInterface<EmaConfig> {};

// At the checkpoint the power average is past its warm-up, with one of its updates still to come.
TEST_P(ResumedRun, ends_with_the_same_bits) {
  constexpr int64_t kHalf = 5;
  constexpr int64_t kSteps = 8;
  Definition definition = tiny_definition();
  definition.ema = GetParam();
  const TinySession whole(definition);
  while (whole.trainer->next_step() < kSteps) (void)whole.trainer->step();

  write_after(kHalf, definition);
  const TinySession resumed(definition);
  (void)read_checkpoint(path_, *resumed.trainer, key());
  EXPECT_EQ(resumed.trainer->next_step(), kHalf);
  while (resumed.trainer->next_step() < kSteps) (void)resumed.trainer->step();

  EXPECT_EQ(tensors_sha256(resumed.trainer->weights()), tensors_sha256(whole.trainer->weights()));
  EXPECT_EQ(tensors_sha256(resumed.trainer->optimizer_state()),
            tensors_sha256(whole.trainer->optimizer_state()));
  EXPECT_EQ(tensors_sha256(resumed.trainer->ema().shadows()),
            tensors_sha256(whole.trainer->ema().shadows()));
}

INSTANTIATE_TEST_SUITE_P(Averages, ResumedRun, ::testing::ValuesIn(test::tiny_averages()),
                         [](const auto& info) { return info.param.kind; });

TEST_F(Checkpoint, carries_what_was_measured) {
  write_after(1);
  const TinySession session(tiny_definition());
  const TrainingProgress progress = read_checkpoint(path_, *session.trainer, key());
  EXPECT_EQ(progress.samples.loss, (std::vector<double>{1.5, 0.25}));
  EXPECT_EQ(progress.elapsed_s, 12.5);
  EXPECT_EQ(progress.init_weights_sha256, "first");
  ASSERT_EQ(progress.evaluations.size(), 1u);
  EXPECT_EQ(progress.evaluations[0].timesteps, (std::vector<int64_t>{62, 187}));
  EXPECT_EQ(progress.evaluations[0].per_timestep, (std::vector<double>{0.1, 0.9}));
  EXPECT_EQ(progress.evaluations[0].excess_frac, 0.75);
  const Division division = division_in_checkpoint(path_);
  EXPECT_EQ(division.part_s, (std::vector<double>{0.25, 1.0 / 3, 0.5}));
  EXPECT_EQ(division.firsts, (std::vector<size_t>{0, 2}));
}

TEST_F(Checkpoint, refuses_one_of_another_definition_variant_or_data) {
  write_after(1);
  EXPECT_EQ(code_of_reading(key()), ExitCode::kPass);
  EXPECT_EQ(code_of_reading({"other", key().variant, ""}), ExitCode::kNotComparable);
  EXPECT_EQ(code_of_reading({key().definition_sha256, "echo", ""}), ExitCode::kNotComparable);
  EXPECT_EQ(code_of_reading({key().definition_sha256, key().variant, "data"}),
            ExitCode::kNotComparable);
}

TEST_F(Checkpoint, refuses_one_that_began_with_other_weights_than_it_was_told_to_begin_with) {
  write_after(1);
  CheckpointKey told = key();
  told.init_weights_sha256 = "first";
  EXPECT_EQ(code_of_reading(told), ExitCode::kPass);
  told.init_weights_sha256 = "others";
  EXPECT_EQ(code_of_reading(told), ExitCode::kNotComparable);
}

TEST_F(Checkpoint, a_truncated_or_changed_file_is_never_taken_for_a_whole_one) {
  write_after(1);
  const auto size = fs::file_size(path_);
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(size) - 5)
      .put('\x55');
  EXPECT_EQ(code_of_reading(key()), ExitCode::kBadInput);
  for (const double part : {0.0, 0.001, 0.5, 0.999}) {
    fs::resize_file(path_, static_cast<uintmax_t>(part * static_cast<double>(size)));
    EXPECT_EQ(code_of_reading(key()), ExitCode::kBadInput) << part;
    write_after(1);
  }
}

TEST_F(Checkpoint, a_step_that_is_no_number_is_bad_input) {
  for (const char* step : {"x", "", "3x", "-1", "99999999999999999999"}) {
    write_after(1);
    SafetensorsFile file = read_safetensors(path_);
    file.metadata["step"] = step;
    write_safetensors(path_, file.tensors, file.metadata);
    EXPECT_EQ(code_of_reading(key()), ExitCode::kBadInput) << step;
  }
}

TEST_F(Checkpoint, weights_alone_are_no_checkpoint) {
  const TinySession session(tiny_definition());
  write_safetensors(path_, {{"model.x", session.trainer->weights()[0].second.detach()}});
  EXPECT_EQ(code_of_reading(key()), ExitCode::kBadInput);
}

}  // namespace
}  // namespace noisemark::suite
