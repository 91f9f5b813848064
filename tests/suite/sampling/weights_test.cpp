#include "suite/sampling/weights.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/base/error.h"
#include "suite/train/checkpoint.h"
#include "suite/train/trainer.h"
#include "tests/suite/scratch.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

using test::outcome;
using test::TemporaryFolder;

at::Tensor filled(double value) {
  return at::full({2, 3}, value);
}

void write_kind(const std::string& path, double value) {
  write_safetensors(path, {{"w", filled(value)}}, {{"definition_sha256", "abc"}, {"step", "7"}});
}

std::string refusal(const std::string& source, const std::string& kind,
                    const std::string& otherwise = "model") {
  const auto [code, message] =
      outcome([&] { (void)read_sampling_weights(source, kind, otherwise); });
  EXPECT_EQ(code, ExitCode::kBadInput) << message;
  return message;
}

TEST(SamplingWeights, of_a_file_come_with_what_it_says_of_them) {
  const TemporaryFolder folder;
  write_kind(folder.path("any.safetensors"), 1);
  const SamplingWeights weights = read_sampling_weights(folder.path("any.safetensors"), "", "ema");
  ASSERT_EQ(weights.tensors.size(), 1U);
  EXPECT_TRUE(weights.tensors[0].second.equal(filled(1)));
  EXPECT_EQ(weights.definition_sha256, "abc");
  EXPECT_EQ(weights.step, "7");
  EXPECT_EQ(weights.kind, "") << "its name does not say";
}

TEST(SamplingWeights, of_a_folder_are_the_kind_that_was_asked_for) {
  const TemporaryFolder folder;
  write_kind(folder.path("weights.safetensors"), 1);
  write_kind(folder.path("ema.safetensors"), 2);
  const auto value = [&](const std::string& kind, const std::string& otherwise) {
    const SamplingWeights weights = read_sampling_weights(folder.path(""), kind, otherwise);
    EXPECT_EQ(weights.kind, kind.empty() ? otherwise : kind);
    return weights.tensors[0].second[0][0].item<double>();
  };
  EXPECT_EQ(value("model", "ema"), 1);
  EXPECT_EQ(value("ema", "model"), 2);
  EXPECT_EQ(value("", "model"), 1);
  EXPECT_EQ(value("", "ema"), 2);
}

TEST(SamplingWeights, that_are_not_there_are_named) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path("."), ""), "--weights: " + folder.path(".") +
                                               ": holds no weights (the folder of one run that has "
                                               "been trained)");
  std::filesystem::create_directory(folder.path("run"));
  write_kind(folder.path("run/weights.safetensors"), 1);
  const std::string of_runs = refusal(folder.path("."), "ema");
  EXPECT_NE(of_runs.find("a folder of runs, 1 of them"), std::string::npos) << of_runs;
  EXPECT_NE(of_runs.find("/run)"), std::string::npos) << of_runs;
  write_kind(folder.path("weights.safetensors"), 1);
  EXPECT_NE(refusal(folder.path(""), "ema").find("ema.safetensors: not there"), std::string::npos);
  EXPECT_NE(refusal(folder.path("weights.safetensors"), "ema").find("holds the other kind"),
            std::string::npos);
  EXPECT_EQ(refusal(folder.path(""), "average"), "--use: average (model or ema)");
  (void)refusal(folder.path("absent.safetensors"), "");
}

class CheckpointWeights : public ::testing::Test {
 protected:
  explicit CheckpointWeights(const Definition& definition = test::tiny_definition())
      : session_(definition) {
    while (session_.trainer->next_step() < 3) (void)session_.trainer->step();
    write_checkpoint(path(), *session_.trainer, {"definition", "variant", ""}, {});
  }

  [[nodiscard]] std::string path() const { return folder_.path("checkpoint.safetensors"); }

  static void expect_equal(const NamedTensors& read, const NamedTensors& own) {
    ASSERT_EQ(read.size(), own.size());
    for (const auto& [name, tensor] : own) {
      bool found = false;
      for (const auto& [other, values] : read) {
        if (other == name) found = values.equal(tensor.detach());
      }
      EXPECT_TRUE(found) << name;
    }
  }

  TemporaryFolder folder_;
  test::TinySession session_;
};

TEST_F(CheckpointWeights, are_the_trainers) {
  const SamplingWeights model = read_sampling_weights(path(), "", "model");
  expect_equal(model.tensors, session_.trainer->weights());
  EXPECT_EQ(model.kind, "model");
  EXPECT_EQ(model.step, "3");
  const SamplingWeights average = read_sampling_weights(path(), "ema", "model");
  expect_equal(average.tensors, session_.trainer->averaged_weights());
  EXPECT_FALSE(average.tensors[0].second.equal(model.tensors[0].second));
}

TEST_F(CheckpointWeights, are_found_in_the_folder_of_a_run_that_did_not_end) {
  expect_equal(read_sampling_weights(folder_.path(""), "ema", "model").tensors,
               session_.trainer->averaged_weights());
}

TEST_F(CheckpointWeights, of_a_damaged_one_are_refused) {
  std::string bytes = test::file_bytes(path());
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  test::put_bytes(path(), bytes);
  EXPECT_NE(refusal(path(), "").find("damaged: its checksum does not match"), std::string::npos);
}

class CheckpointWithoutAverage : public CheckpointWeights {
 protected:
  CheckpointWithoutAverage() : CheckpointWeights(definition()) {}
  static Definition definition() {
    Definition definition = test::tiny_definition();
    definition.ema.kind = "none";
    return definition;
  }
};

TEST_F(CheckpointWithoutAverage, says_so) {
  EXPECT_EQ(refusal(path(), "ema"), path() + ": ema: no average in it (model, or another file)");
}

}  // namespace
}  // namespace noisemark::suite
