#include "suite/sampling/origin.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "suite/sampling/folder.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// A folder of three samples.
class Origin : public ::testing::Test {
 protected:
  void write(const SamplingRecord& record) const {
    prepare_sampling_folder(out(), /*force=*/true);
    write_sampling_folder(out(), at::randn({3, 1, 8, 8}), record);
  }

  [[nodiscard]] SamplingRecord record() const {
    SamplingRecord record;
    record.definition.id = "mine";
    record.sample.sampler = "ddim";
    record.seed = 7;
    record.weights.file = scratch_.path("weights.safetensors");
    record.weights.kind = "ema";
    record.weights_sha256 = "0123456789abcdef";
    record.noise_sha256 = "fedcba9876543210";
    test::put_bytes(record.weights.file, "weights");
    return record;
  }

  [[nodiscard]] fs::path out() const { return scratch_.path("out"); }

  test::ScratchFolder scratch_;
};

TEST_F(Origin, tells_what_decides_the_samples) {
  write(record());
  const auto origin = sampling_origin(out() / "pictures", 3);
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->words, "ddim, 50 steps, eta 0.0, averaged (EMA) weights 0123456789ab, seed 7");
  const auto json = nlohmann::json::parse(origin->json);
  EXPECT_EQ(json["weights"]["sha256"], "0123456789abcdef");
  EXPECT_EQ(json["sampler"]["steps"], 50);
  EXPECT_EQ(sampling_origin(out() / "pictures" / "", 3)->words, origin->words);
  EXPECT_EQ(sampling_origin(out() / "samples.npy", 3)->words, origin->words);

  SamplingRecord other = record();
  other.sample.sampler = "ddpm";
  other.weights.kind = "";
  other.noise_file = "noise.npy";
  write(other);
  EXPECT_EQ(sampling_origin(out() / "pictures", 3)->words,
            "ddpm, 1000 steps, variance small, weights 0123456789ab, seed 7, initial noise of a "
            "file fedcba987654");
}

TEST_F(Origin, is_not_claimed_of_anything_else) {
  write(record());
  EXPECT_TRUE(sampling_origin(out() / "pictures", 2)) << "the first of them";
  EXPECT_FALSE(sampling_origin(out() / "pictures", 4)) << "more than were drawn";
  EXPECT_FALSE(sampling_origin(out(), 3));
  EXPECT_FALSE(sampling_origin("gmm16:exact", 0));
  fs::remove(out() / "sampling.json");
  EXPECT_FALSE(sampling_origin(out() / "pictures", 3));
}

TEST_F(Origin, that_cannot_be_understood_is_an_error) {
  write(record());
  for (const char* text : {"{", "{}", R"({"schema": "noisemark.sampling"})"}) {
    test::put_bytes(out() / "sampling.json", text);
    const auto [code, message] =
        test::outcome([&] { (void)sampling_origin(out() / "pictures", 3); });
    EXPECT_EQ(code, ExitCode::kBadInput) << text;
    EXPECT_NE(message.find("sampling.json: not what a sampling writes"), std::string::npos);
  }
}

}  // namespace
}  // namespace noisemark::suite
