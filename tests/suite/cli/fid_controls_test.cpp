// Negative controls of the gate of `noisemark fid`: images, the shipped network and the program
// itself, and references that are not what they should be. Each has its sound twin.

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/repeat_interleave.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/data/generated.h"
#include "suite/io/numpy.h"
#include "suite/io/safetensors.h"
#include "suite/quality/image_set.h"
#include "suite/quality/inception/weights.h"
#include "tests/suite/process.h"
#include "tests/suite/quality/inception/random_weights.h"
#include "tests/suite/real_pictures.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 2 * 144 are the fewest that may be gated.
constexpr int64_t kPictures = 400;

test::Finished control(Words words) {
  const Words first = {"fid", "--device", "cpu"};
  words.insert(words.begin(), first.begin(), first.end());
  return test::noisemark(words);
}

/// Smooth colours with grain, 64 x 64.
at::Tensor generated_pictures(int64_t begin) {
  constexpr int64_t kSide = 64;
  constexpr int64_t kValues = 3 * kSide * kSide;
  constexpr uint64_t kSeed = 7;
  const at::Tensor values = at::empty({kPictures, 3, kSide, kSide}, at::kDouble);
  const at::Tensor grain = at::empty({kPictures, 3, kSide, kSide}, at::kDouble);
  for (int64_t i = 0; i < kPictures; ++i) {
    const auto number = static_cast<uint64_t>(begin + i);
    CounterRng rng(kSeed, Stream::kData, 0, number);
    const SmoothField field(rng, {3, kSide, 6, 4});
    field.fill(std::span(values.mutable_data_ptr<double>() + i * kValues, kValues));
    CounterRng(kSeed, Stream::kNoise, 0, number)
        .fill_normal(std::span(grain.mutable_data_ptr<double>() + i * kValues, kValues));
  }
  return (values * 80 + grain * 30 + 128).round().clamp(0, 255).to(at::kByte);
}

/// Returns images of the test split of CIFAR-10, 32 x 32.
at::Tensor photographs(int64_t begin) {
  const Definition definition = load_definition("ho-cifar10", "cpu");
  const auto dataset = open_dataset(definition, test::real_pictures());
  return open_dataset_images(dataset, Split::kTest, "controls")->read(begin, begin + kPictures);
}

/// Shrinks to half of the size, each pixel the average of four.
at::Tensor halved(const at::Tensor& pictures) {
  return at::avg_pool2d(pictures.to(at::kFloat), {2, 2}).round().to(at::kByte);
}

/// Shrinks to half of the size by leaving pixels out, which is what `bilinear` without antialiasing
/// does.
at::Tensor halved_wrongly(const at::Tensor& pictures) {
  return pictures.slice(2, 0, pictures.size(2), 2).slice(3, 0, pictures.size(3), 2).contiguous();
}

/// Makes the images paler, as a model draws them that has not learned it all. The sound distance
/// is then one that few hundred samples can tell from 0 and from a larger one.
at::Tensor paler(const at::Tensor& pictures) {
  return (pictures.to(at::kFloat) * 0.85 + 19.2).round().to(at::kByte);
}

/// Shrinks to half of the size and back, as if somebody had forgotten that nothing is to be
/// resized.
at::Tensor blocky(const at::Tensor& pictures) {
  return halved(pictures).repeat_interleave(2, 2).repeat_interleave(2, 3);
}

/// A gate around what sound samples are from a sound reference.
class FidControls : public ::testing::Test {
 protected:
  void begin(const at::Tensor& samples, const at::Tensor& wrongly_resized,
             const at::Tensor& reference) {
    samples_ = save("samples.npy", paler(samples));
    wrong_samples_ = save("wrong.npy", paler(wrongly_resized));
    reference_ = save("reference.npy", reference);
    // This is the file before somebody corrected its contrast.
    const std::string older =
        save("older.npy", (reference.to(at::kFloat) * 0.5 + 64).to(at::kByte));
    write_statistics(reference_, "now.npz");
    write_statistics(older, "stale.npz");
    const Json sound = Json::parse(measured(samples_, "now.npz", {"--json"}).out);
    ASSERT_EQ(sound["name"], "cifarnet-v1 Fréchet distance");
    const auto value = sound["value"].get<double>();
    gate_ = {"--min", std::to_string(0.5 * value), "--max", std::to_string(1.5 * value)};
  }

  [[nodiscard]] test::Finished gated(const std::string& samples,
                                     const std::string& reference) const {
    return measured(samples, reference, gate_);
  }

  void expect_sound_passes() const {
    const test::Finished sound = gated(samples_, "now.npz");
    EXPECT_EQ(sound.code, 0) << sound.both();
    EXPECT_NE(sound.out.find("PASS (within the range)"), std::string::npos) << sound.out;
  }

  static void expect_red(const test::Finished& finished, const std::string& words) {
    EXPECT_EQ(finished.code, 1) << finished.both();
    EXPECT_NE(finished.out.find(words), std::string::npos) << finished.out;
  }

  void expect_stale_statistics_are_red() const {
    expect_sound_passes();
    expect_red(gated(samples_, "stale.npz"), "FAIL (above the range)");
  }

  void expect_a_wrong_resize_is_red() const {
    expect_sound_passes();
    expect_red(gated(wrong_samples_, "now.npz"), "FAIL (above the range)");
  }

  void expect_the_reference_itself_is_red() const {
    expect_red(gated(reference_, "now.npz"), "FAIL (below the range)");
  }

  /// The peers' file of the very same images says nothing of its making.
  void expect_statistics_of_unknown_make_are_refused() const {
    const NpzFile now(path("now.npz"));
    write_npz(path("peer.npz"), {{"mu", now.array("mu")}, {"sigma", now.array("sigma")}});
    Words words = gate_;
    words.insert(words.end(), {"--reference-samples", std::to_string(kPictures)});
    const test::Finished refused = measured(samples_, "peer.npz", words);
    EXPECT_EQ(refused.code, 2) << refused.both();
    EXPECT_NE(refused.err.find("nobody says which extractor and resize made it"), std::string::npos)
        << refused.err;
    words.insert(words.end(), {"--resize", "none"});
    EXPECT_EQ(measured(samples_, "peer.npz", words).code, 0);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }

 private:
  [[nodiscard]] std::string save(const std::string& name, const at::Tensor& array) const {
    write_npy(path(name), array);
    return path(name);
  }

  [[nodiscard]] test::Finished measured(const std::string& samples, const std::string& reference,
                                        const Words& more) const {
    Words words = {samples, path(reference), "--extractor", "cifarnet"};
    words.insert(words.end(), more.begin(), more.end());
    return control(words);
  }

  void write_statistics(const std::string& pictures, const std::string& name) const {
    const test::Finished written =
        control({pictures, "--extractor", "cifarnet", "--out", path(name)});
    ASSERT_EQ(written.code, 0) << written.both();
  }

  test::TemporaryFolder folder_;
  std::string samples_;
  std::string wrong_samples_;
  std::string reference_;
  Words gate_;
};

class FidControlsOfGeneratedPictures : public FidControls {
 protected:
  void SetUp() override {
    const at::Tensor large = generated_pictures(0);
    begin(halved(large), halved_wrongly(large), halved(generated_pictures(kPictures)));
  }
};

TEST_F(FidControlsOfGeneratedPictures, statistics_of_an_older_reference_are_red) {
  expect_stale_statistics_are_red();
}

TEST_F(FidControlsOfGeneratedPictures, a_wrong_resize_is_red) {
  expect_a_wrong_resize_is_red();
}

TEST_F(FidControlsOfGeneratedPictures, samples_that_are_the_reference_itself_are_red) {
  expect_the_reference_itself_is_red();
}

TEST_F(FidControlsOfGeneratedPictures, statistics_of_unknown_make_decide_nothing) {
  expect_statistics_of_unknown_make_are_refused();
}

class FidControlsOfPhotographs : public FidControls {
 protected:
  void SetUp() override {
    const bool missing = test::real_pictures() == nullptr;
    if (missing && test::pictures_are_required()) FAIL() << test::kPicturesMissing;
    if (missing) GTEST_SKIP() << test::kNoPictures;
    const at::Tensor samples = photographs(0);
    begin(samples, blocky(samples), photographs(kPictures));
  }
};

TEST_F(FidControlsOfPhotographs, statistics_of_an_older_reference_are_red) {
  expect_stale_statistics_are_red();
}

TEST_F(FidControlsOfPhotographs, a_wrong_resize_is_red) {
  expect_a_wrong_resize_is_red();
}

TEST_F(FidControlsOfPhotographs, samples_that_are_the_reference_itself_are_red) {
  expect_the_reference_itself_is_red();
}

/// The network of FID, with random weights: what it computes is beside the point here.
class FidControlsOfInception : public FidControls {
 protected:
  void SetUp() override {
    write_safetensors(path("weights.safetensors"), inception::test::random_tensors(),
                      {{"source_sha256", std::string(64, 'a')},
                       {"tensors_sha256", inception::test::random_weights().tensors_sha256}});
    const at::Tensor pictures = halved(generated_pictures(0));
    write_npy(path("a.npy"), pictures.slice(0, 0, 10).contiguous());
    write_npy(path("b.npy"), pictures.slice(0, 10, 13).contiguous());
  }

  [[nodiscard]] test::Finished measured(const Words& more) const {
    Words words = {"--extractor", "inception", "--weights", path("weights.safetensors")};
    words.insert(words.begin(), more.begin(), more.end());
    return control(words);
  }
};

TEST_F(FidControlsOfInception, statistics_of_another_resize_are_not_comparable) {
  ASSERT_EQ(measured({path("b.npy"), "--resize", "bilinear", "--out", path("b.npz")}).code, 0);
  const test::Finished refused =
      measured({path("b.npy"), path("b.npz"), "--resize", "tf1-bilinear"});
  EXPECT_EQ(refused.code, 3) << refused.both();
  EXPECT_NE(refused.err.find("features of different extractors"), std::string::npos) << refused.err;
  const test::Finished same = measured({path("b.npy"), path("b.npz"), "--resize", "bilinear"});
  EXPECT_EQ(same.code, 0) << same.both();
  EXPECT_EQ(same.out.find("| FID"), std::string::npos) << "of random weights: " << same.out;
}

TEST_F(FidControlsOfInception, has_a_class_score_that_is_called_after_the_weights) {
  const test::Finished found = measured({path("a.npy"), path("b.npy"), "--inception-score"});
  ASSERT_EQ(found.code, 0) << found.both();
  EXPECT_NE(found.out.find("| class score of other weights, no Inception score"), std::string::npos)
      << found.out;
  EXPECT_EQ(found.out.find("| Inception score"), std::string::npos) << found.out;
  const test::Finished none = control({path("a.npy"), path("b.npy"), "--inception-score"});
  EXPECT_EQ(none.code, 2) << none.both();
  EXPECT_NE(none.err.find("inception, which tells classes"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace noisemark::suite
