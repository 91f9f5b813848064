#include "suite/sampling/folder.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/json_writer.h"
#include "suite/data/picture_files.h"
#include "suite/io/numpy.h"
#include "tests/suite/scratch.h"

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
    record.precision = "bf16";
    record.device = "cpu";
    record.baseline = "plain";
    test::put_bytes(record.weights.file, "weights");
    return record;
  }

  [[nodiscard]] fs::path out() const { return scratch_.path("out"); }
  [[nodiscard]] std::string pictures_sha256() const {
    return listing_of(find_pictures(out() / "pictures").pictures).sha256;
  }
  [[nodiscard]] std::optional<SamplingOrigin> of_pictures(int64_t count = 3) const {
    return sampling_origin(out() / "pictures", count, pictures_sha256());
  }

  test::TemporaryFolder scratch_;
};

TEST_F(Origin, tells_what_decides_the_samples) {
  write(record());
  const auto origin = of_pictures();
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->words,
            "ddim, 50 steps, eta 0.0, averaged (EMA) weights 0123456789ab, seed 7, bf16");
  const nlohmann::json json = reports::json::tree_of(origin->drawn);
  EXPECT_EQ(json["weights"]["sha256"], "0123456789abcdef");
  EXPECT_EQ(json["sampler"]["steps"], 50);
  EXPECT_EQ(json["execution"],
            (nlohmann::json{{"baseline", "plain"}, {"precision", "bf16"}, {"device", "cpu"}}))
      << "and not how long it took";
  EXPECT_EQ(sampling_origin(out() / "pictures" / "", 3, pictures_sha256())->words, origin->words);
  EXPECT_EQ(sampling_origin(out() / "samples.npy", 3)->words, origin->words);

  SamplingRecord other = record();
  other.sample.sampler = "ddpm";
  other.weights.kind = "";
  other.noise_file = "noise.npy";
  write(other);
  EXPECT_EQ(of_pictures()->words,
            "ddpm, 1000 steps, variance small, weights 0123456789ab, seed 7, initial noise of a "
            "file fedcba987654, bf16");
}

TEST_F(Origin, is_not_claimed_of_anything_else) {
  write(record());
  EXPECT_TRUE(of_pictures(2)) << "the first of them";
  EXPECT_FALSE(of_pictures(4)) << "more than were drawn";
  EXPECT_FALSE(sampling_origin(out(), 3));
  EXPECT_FALSE(sampling_origin("gmm16:exact", 0));
  fs::remove(out() / "sampling.json");
  EXPECT_FALSE(of_pictures());
}

TEST_F(Origin, is_bound_to_the_samples_themselves) {
  write(record());
  const auto refused = [](const auto& look) {
    const auto [code, message] = test::outcome(look);
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find("other samples than those that sampling.json speaks of"),
              std::string::npos)
        << message;
  };
  fs::copy_file(out() / "pictures" / "00001.png", out() / "pictures" / "00000.png",
                fs::copy_options::overwrite_existing);
  refused([&] { (void)of_pictures(); });
  EXPECT_TRUE(sampling_origin(out() / "samples.npy", 3)) << "that is as it was";
  write_npy((out() / "samples.npy").string(), at::randn({3, 1, 8, 8}));
  refused([&] { (void)sampling_origin(out() / "samples.npy", 3); });
}

TEST_F(Origin, of_another_version_is_an_error) {
  write(record());
  auto later = nlohmann::json::parse(test::file_bytes(out() / "sampling.json"));
  later["schema"]["version"] = "1.1.0";
  test::put_bytes(out() / "sampling.json", later.dump());
  const auto [code, message] = test::outcome([&] { (void)of_pictures(); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("sampling.json: schema.version: \"1.1.0\" (1.0.0)"), std::string::npos)
      << message;
}

TEST_F(Origin, that_cannot_be_understood_is_an_error) {
  write(record());
  const auto whole = nlohmann::json::parse(test::file_bytes(out() / "sampling.json"));
  nlohmann::json unbound = whole;
  ASSERT_EQ(unbound["samples"].erase("pictures_sha256"), 1U);
  nlohmann::json shapeless = whole;
  shapeless["samples"]["shape"] = nlohmann::json::array();
  nlohmann::json strange = whole;
  strange["execution"]["thread"] = 2;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "sampling.json: not JSON: "},
      {"{}", "sampling.json: schema: missing (every key must be there)"},
      {R"({"schema": {"name": "noisemark.sampling"}})", "sampling.json: schema.version: missing"},
      {unbound.dump(), "sampling.json: samples.pictures_sha256: missing (every key must be there)"},
      {shapeless.dump(), "sampling.json: samples.shape: [] (a size for each dimension)"},
      {strange.dump(), "sampling.json: execution.thread: unknown key (nearest \"threads\""}};
  for (const auto& [text, expected] : cases) {
    test::put_bytes(out() / "sampling.json", text);
    const auto [code, message] = test::outcome([&] { (void)of_pictures(); });
    EXPECT_EQ(code, ExitCode::kBadInput) << text;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace noisemark::suite
