#include "suite/sampling/folder.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/config/lock.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"
#include "suite/io/numpy.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::file_bytes;
using test::outcome;
using test::TemporaryFolder;

Picture picture_at(const std::string& path) {
  const std::string bytes = file_bytes(path);
  return decode_image(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))
      .picture;
}

SamplingRecord record_in(const TemporaryFolder& folder) {
  SamplingRecord record;
  record.definition.id = "mine";
  record.definition.scale = "cpu";
  record.definition.overrides = {"train.steps=3"};
  record.definition.custom = true;
  record.sample.sampler = "ddim";
  record.sample.ddim_steps = 10;
  record.seed = 5;
  record.weights.file = folder.path("weights.safetensors");
  record.weights.kind = "ema";
  record.weights_sha256 = std::string(64, 'a');
  record.noise_sha256 = std::string(64, 'b');
  test::put_bytes(record.weights.file, "weights");
  return record;
}

TEST(SamplingFolder, holds_every_sample_as_it_is_and_as_a_picture) {
  const TemporaryFolder folder;
  const fs::path out = folder.path("out");
  for (const int64_t channels : {1, 3}) {
    const at::Tensor samples = at::randn({3, channels, 8, 8});
    prepare_sampling_folder(out, /*force=*/true);
    write_sampling_folder(out, samples, record_in(folder));
    EXPECT_TRUE(read_npy((out / "samples.npy").string()).equal(samples));
    const at::Tensor pixels = to_pixels(samples);
    for (int64_t i = 0; i < 3; ++i) {
      const Picture picture = picture_at(out / "pictures" / ("0000" + std::to_string(i) + ".png"));
      ASSERT_EQ(picture.width, 8);
      for (size_t at = 0; at < picture.pixels.size(); ++at) {
        const auto place = static_cast<int64_t>(at / 3);
        const auto channel = channels == 3 ? static_cast<int64_t>(at % 3) : 0;
        ASSERT_EQ(picture.pixels[at],
                  pixels[i].view({64, channels})[place][channel].item<uint8_t>());
      }
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(out / "pictures"), {}), 3);
    EXPECT_EQ(picture_at(out / "sheet.png").width, contact_sheet(pixels).size(1));
  }
}

TEST(SamplingFolder, says_where_the_samples_come_from) {
  const TemporaryFolder folder;
  const fs::path out = folder.path("out");
  const SamplingRecord record = record_in(folder);
  prepare_sampling_folder(out, false);
  write_sampling_folder(out, at::randn({2, 1, 8, 8}), record);
  const auto json = nlohmann::json::parse(file_bytes(out / "sampling.json"));
  EXPECT_EQ(json["definition"]["id"], "mine");
  EXPECT_EQ(json["definition"]["sha256"], definition_sha256(record.definition));
  EXPECT_EQ(json["definition"]["custom"], true);
  EXPECT_EQ(json["weights"]["file_sha256"], reports::sha256_of("weights"));
  EXPECT_EQ(json["weights"]["sha256"], record.weights_sha256);
  EXPECT_EQ(json["weights"]["kind"], "ema");
  EXPECT_TRUE(json["weights"]["step"].is_null());
  EXPECT_EQ(json["sampler"], (nlohmann::json{{"name", "ddim"}, {"steps", 10}, {"eta", 0.0}}));
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["noise"]["source"], "drawn");
  EXPECT_EQ(json["noise"]["sha256"], record.noise_sha256);
  EXPECT_EQ(json["samples"]["shape"], (std::vector<int64_t>{2, 1, 8, 8}));
  EXPECT_EQ(json["samples"]["sha256"], reports::sha256_of_file(out / "samples.npy"));
  EXPECT_EQ(json["samples"]["pictures_sha256"],
            listing_of(find_pictures(out / "pictures").pictures).sha256);
}

TEST(SamplingFolder, is_never_written_over_unless_it_holds_samples_and_force_says_so) {
  const TemporaryFolder folder;
  const fs::path out = folder.path("out");
  prepare_sampling_folder(out, false);
  prepare_sampling_folder(out, false);  // an empty one is as good as a new one
  write_sampling_folder(out, at::randn({4, 1, 8, 8}), record_in(folder));
  const auto refused = [&](bool force) {
    return outcome([&] { prepare_sampling_folder(out, force); }).first;
  };
  EXPECT_EQ(refused(false), ExitCode::kBadInput);
  EXPECT_EQ(refused(true), ExitCode::kPass);
  write_sampling_folder(out, at::randn({2, 1, 8, 8}), record_in(folder));
  EXPECT_EQ(std::distance(fs::directory_iterator(out / "pictures"), {}), 2) << "none of the four";
  test::put_bytes(out / "pictures" / "mine.png", "x");
  EXPECT_EQ(refused(true), ExitCode::kBadInput);
  fs::remove(out / "pictures" / "mine.png");
  test::put_bytes(out / "notes.txt", "x");
  EXPECT_EQ(refused(true), ExitCode::kBadInput);
  EXPECT_EQ(outcome([&] { prepare_sampling_folder(out / "notes.txt", true); }).first,
            ExitCode::kBadInput);
  EXPECT_EQ(file_bytes(out / "notes.txt"), "x");
}

/// Returns a number that no process has: one that had it was waited for.
pid_t ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(SamplingFolder, loses_what_a_killed_sampling_left_half_written) {
  const TemporaryFolder folder;
  const fs::path out = folder.path("out");
  const std::string dead = ".tmp-" + std::to_string(ended_process());
  fs::create_directories(out / "replacement");
  for (const char* name : {"samples.npy", "sampling.json"}) {
    test::put_bytes(out / (name + dead), "half");
    test::put_bytes(out / "replacement" / (name + dead), "half");
  }
  EXPECT_NO_THROW(prepare_sampling_folder(out, /*force=*/true));
  EXPECT_TRUE(fs::is_empty(out / "replacement"));
  write_sampling_folder(out, at::randn({2, 1, 8, 8}), record_in(folder));
  EXPECT_TRUE(fs::exists(out / "sampling.json"));
  EXPECT_FALSE(fs::exists(out / "replacement"));
}

TEST(SamplingFolder, is_for_gray_and_colour_pictures) {
  Definition definition;
  definition.id = "mine";
  definition.model.channels = 1;
  EXPECT_NO_THROW(require_picture_channels(definition));
  definition.model.channels = 4;
  EXPECT_EQ(outcome([&] { require_picture_channels(definition); }).second,
            "mine: model.channels: 4 (1 or 3, for images)");
}

}  // namespace
}  // namespace noisemark::suite
