// `noisemark sample`, as a user meets it.

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/result/json_io.h"
#include "reports/result/result.h"
#include "suite/io/numpy.h"
#include "suite/io/safetensors.h"
#include "suite/sampling/sampler.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using Words = std::vector<std::string>;

/// A network that was trained for a moment, once for all of these tests.
class Sample : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained = new test::TemporaryFolder;
    const Finished finished = test::run_noisemark(
        {"run", "gmm16@cpu", "--device", "cpu", "--set", "train.steps=6", "--set", "train.batch=4",
         "--set", "eval.samples=8", "--set", "eval.every=0", "--no-memory", "--no-profile",
         "--checkpoint-every", "3", "--out", run_folder()});
    ASSERT_EQ(finished.code, 0) << finished.both();
  }
  static void TearDownTestSuite() { delete trained; }

  static std::string run_folder() { return (trained->path() / "run").string(); }
  static std::string weights() { return run_folder() + "/weights.safetensors"; }

  [[nodiscard]] fs::path out(const std::string& name = "out") const {
    return folder_.path() / name;
  }

  /// Draws 6 samples in 3 steps, unless `more` says otherwise.
  [[nodiscard]] static Words command(const Words& more) {
    Words words = {"sample", "gmm16", "--device", "cpu"};
    const auto add = [&](const std::string& flag, const std::string& value) {
      if (std::find(more.begin(), more.end(), flag) != more.end()) return;
      words.push_back(flag);
      words.push_back(value);
    };
    add("--weights", weights());
    if (std::find(more.begin(), more.end(), "--noise") == more.end()) add("--samples", "6");
    if (std::find(more.begin(), more.end(), "ddpm") == more.end()) add("--steps", "3");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static Finished sample(const Words& more) {
    return test::run_noisemark(command(more), {{"NOISEMARK_REQUIRE", ""}});
  }

  [[nodiscard]] at::Tensor drawn(const std::string& name, Words more = {}) const {
    more.insert(more.end(), {"--out", out(name).string()});
    const Finished finished = sample(more);
    EXPECT_EQ(finished.code, 0) << finished.both();
    return read_npy((out(name) / "samples.npy").string());
  }

  [[nodiscard]] nlohmann::json record(const std::string& name) const {
    return nlohmann::json::parse(std::ifstream(out(name) / "sampling.json"));
  }

  static void expect_refused(Words more, const std::string& message) {
    more.insert(more.end(), {"--out", (trained->path() / "refused").string()});
    const Finished finished = sample(more);
    EXPECT_EQ(finished.code, 2) << finished.both();
    EXPECT_EQ(finished.err.find("noisemark: " + message), 0U) << finished.err;
    EXPECT_FALSE(fs::exists(trained->path() / "refused"));
  }

  static double difference(const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
  }

  static test::TemporaryFolder* trained;
  test::TemporaryFolder folder_;
};

test::TemporaryFolder* Sample::trained = nullptr;

TEST_F(Sample, writes_pictures_raw_samples_a_sheet_and_where_they_come_from) {
  const at::Tensor samples = drawn("out");
  EXPECT_EQ(samples.sizes(), (at::IntArrayRef{6, 1, 16, 16}));
  EXPECT_EQ(std::distance(fs::directory_iterator(out() / "pictures"), {}), 6);
  EXPECT_TRUE(fs::exists(out() / "pictures" / "00005.png"));
  EXPECT_TRUE(fs::exists(out() / "sheet.png"));
  const auto json = record("out");
  EXPECT_EQ(json["sampler"], (nlohmann::json{{"name", "ddim"}, {"steps", 3}, {"eta", 0.0}}));
  EXPECT_EQ(json["definition"]["id"], "gmm16");
  EXPECT_EQ(json["execution"]["baseline"], "fused+channels-last");
}

/// A distance says which weights drew what it was taken of, as long as that is what was drawn.
TEST_F(Sample, leaves_pictures_that_a_distance_knows_and_notices_others_in_their_place) {
  (void)drawn("out");
  const auto fid = [&](const fs::path& samples, const std::string& reference) {
    return test::run_noisemark(
        {"fid", samples.string(), reference, "--device", "cpu", "--limit", "6", "--json"});
  };
  const Finished found = fid(out() / "pictures", "gmm16:test");
  ASSERT_EQ(found.code, 0) << found.both();
  const auto origin = nlohmann::json::parse(found.out)["a"]["drawn"];
  EXPECT_EQ(origin["weights"]["sha256"], record("out")["weights"]["sha256"]);
  EXPECT_EQ(origin["execution"]["precision"], "fp32");
  const Finished raw = fid(out() / "samples.npy", "gmm16:exact");
  ASSERT_EQ(raw.code, 0) << raw.both();
  EXPECT_EQ(nlohmann::json::parse(raw.out)["a"]["drawn"], origin);
  fs::copy_file(out() / "pictures" / "00001.png", out() / "pictures" / "00000.png",
                fs::copy_options::overwrite_existing);
  const Finished changed = fid(out() / "pictures", "gmm16:test");
  EXPECT_EQ(changed.code, 2) << changed.both();
  EXPECT_NE(changed.err.find("other samples than those that sampling.json speaks of"),
            std::string::npos)
      << changed.err;
}

TEST_F(Sample, takes_the_weights_or_their_average_of_a_run_or_its_checkpoint) {
  const auto result = reports::read_result(run_folder() + "/result.json");
  const std::string checkpoint = run_folder() + "/checkpoint.safetensors";
  const auto sha_of = [&](const std::string& name, const Words& more) {
    (void)drawn(name, more);
    return record(name)["weights"]["sha256"].get<std::string>();
  };
  EXPECT_EQ(sha_of("file", {}), result.determinism.weights_sha256);
  EXPECT_EQ(sha_of("folder", {"--weights", run_folder()}), result.determinism.weights_sha256)
      << "what the definition evaluates";
  EXPECT_EQ(sha_of("average", {"--weights", run_folder(), "--use", "ema"}),
            result.determinism.ema_sha256);
  EXPECT_EQ(sha_of("average file", {"--weights", run_folder() + "/ema.safetensors"}),
            result.determinism.ema_sha256);
  EXPECT_EQ(sha_of("checkpoint", {"--weights", checkpoint}), result.determinism.weights_sha256)
      << "that of step 6";
  EXPECT_EQ(sha_of("checkpoint average", {"--weights", checkpoint, "--use", "ema"}),
            result.determinism.ema_sha256);
  EXPECT_EQ(record("checkpoint")["weights"]["step"], "6");
}

TEST_F(Sample, is_decided_by_the_seed_and_not_by_the_batch) {
  const at::Tensor samples = drawn("first");
  EXPECT_TRUE(drawn("again").equal(samples));
  EXPECT_EQ(record("again")["noise"], record("first")["noise"]);
  // float32 through three steps of a small network; see Sampler.of_a_network_...
  EXPECT_LT(difference(drawn("split", {"--batch", "4"}), samples), 1e-4);
  EXPECT_LT(difference(drawn("plain", {"--baseline", "plain"}), samples), 1e-4);
  EXPECT_GT(difference(drawn("other", {"--seed", "1"}), samples), 0.1);
  EXPECT_EQ(record("other")["seed"], 1);
  EXPECT_TRUE(drawn("fewer", {"--samples", "2", "--batch", "2"}).size(0) == 2);
}

TEST_F(Sample, takes_initial_noise_from_a_file) {
  const at::Tensor samples = drawn("drawn");
  const at::Tensor noise = at::empty({6, 1, 16, 16}, at::kFloat);
  counter_noise(0)({0, 0}, noise);
  const std::string file = (folder_.path() / "noise.npy").string();
  write_npy(file, noise);
  EXPECT_TRUE(drawn("given", {"--noise", file}).equal(samples));
  EXPECT_EQ(record("given")["noise"]["sha256"], record("drawn")["noise"]["sha256"]);
  EXPECT_EQ(record("given")["noise"]["source"], "file");
  expect_refused({"--noise", file, "--samples", "7"},
                 "--samples: 7 (at most 6, what --noise holds)");
  write_npy(file, noise.view({6, 4, 8, 8}));
  expect_refused({"--noise", file}, file + ": numbers [6, 4, 8, 8] (float32 or float64 [N, 1, 16");
}

TEST_F(Sample, draws_as_ddpm_does_with_either_variance) {
  const Words few = {"--set", "diffusion.timesteps=12", "--sampler", "ddpm"};
  const auto with = [&](const std::string& variance) {
    Words words = few;
    words.insert(words.end(), {"--variance", variance});
    return words;
  };
  const at::Tensor small = drawn("small", few);
  EXPECT_TRUE(drawn("named", with("small")).equal(small));
  EXPECT_GT(difference(drawn("large", with("large")), small), 1e-3);
  EXPECT_EQ(record("large")["sampler"],
            (nlohmann::json{{"name", "ddpm"}, {"steps", 12}, {"variance", "large"}}));
  EXPECT_GT(difference(drawn("noisy", {"--eta", "1"}), drawn("quiet")), 1e-3);
}

TEST_F(Sample, refuses_what_it_cannot_do) {
  expect_refused({"--weights", "absent.safetensors"}, "absent.safetensors: ");
  expect_refused({"--use", "ema"}, "--use: ema: " + weights() + " holds the other kind");
  expect_refused({"--sampler", "dimd"}, "--sampler: sample.sampler: \"dimd\"");
  expect_refused({"--steps", "1001"}, "sample.ddim_steps: 1001 (an integer from 1 to 1000");
  expect_refused({"--eta", "1.5"}, "--eta: sample.ddim_eta: 1.5 (a number from 0.0 to 1.0)");
  expect_refused({"--variance", "large"}, "--variance: large: means nothing for ddim");
  expect_refused({"--sampler", "ddpm", "--steps", "3"}, "--steps: 3: means nothing for ddpm");
  expect_refused({"--set", "model.dim=32"},
                 weights() + ": tensors: init_conv.weight [16, 1, 7, 7], ");
  expect_refused({"--baseline", "plain", "--baseline", "fused"},
                 "sample: --baseline: given more than once");
  EXPECT_EQ(sample({}).err, "noisemark: --out: nothing given (a new folder)\n");
  EXPECT_EQ(test::run_noisemark({"sample", "smoke", "--weights", weights(), "--out", "x"}).err,
            "noisemark: sample: smoke: a suite (one benchmark, or a definition file)\n");
}

TEST_F(Sample, names_the_keys_of_model_and_diffusion_in_which_the_training_differs) {
  EXPECT_EQ(sample({"--out", out("same").string()}).said(), "")
      << "only training and evaluation were otherwise";
  const Finished finished = sample({"--out", out().string(), "--set", "diffusion.timesteps=500"});
  EXPECT_EQ(finished.code, 0) << finished.both();
  EXPECT_EQ(finished.said(), "noisemark: " + weights() +
                                 ": trained with diffusion.timesteps=1000 (here 500); to draw as "
                                 "it was trained, add --set "
                                 "diffusion.timesteps=1000\n");
  const fs::path alone = out("alone.safetensors");
  fs::copy(weights(), alone);
  const Finished unknown = sample({"--weights", alone.string(), "--out", out("unknown").string()});
  EXPECT_EQ(unknown.said(), "noisemark: " + alone.string() +
                                ": trained under another definition than gmm16, whose network "
                                "fits: a custom one\n")
      << "nothing beside the weights says in what";
}

TEST_F(Sample, says_of_which_benchmark_the_weights_are_that_do_not_fit) {
  const Finished finished = test::run_noisemark(
      {"sample", "gmm16-ho@cpu", "--weights", weights(), "--out", out().string()});
  EXPECT_EQ(finished.code, 2) << finished.both();
  EXPECT_TRUE(finished.err.ends_with("; they are weights of the network of gmm16\n"))
      << finished.err;
}

TEST_F(Sample, tells_that_weights_of_another_type_are_converted) {
  NamedTensors halved = read_safetensors(weights()).tensors;
  for (auto& [name, tensor] : halved) tensor = tensor.to(at::kHalf);
  const std::string file = (folder_.path() / "half.safetensors").string();
  write_safetensors(file, halved);
  const Finished finished = sample({"--weights", file, "--out", out().string()});
  EXPECT_EQ(finished.code, 0) << finished.both();
  EXPECT_NE(finished.err.find("tensors are F16 and are converted to F32"), std::string::npos)
      << finished.err;
}

TEST_F(Sample, on_a_full_disk_keeps_the_earlier_samples) {
  const at::Tensor first = drawn("out");
  const Finished finished = test::run_noisemark_after(
      "trap '' XFSZ; ulimit -f 8", command({"--out", out().string(), "--force", "--seed", "1"}));
  EXPECT_EQ(finished.code, 74) << finished.both();
  EXPECT_TRUE(read_npy((out() / "samples.npy").string()).equal(first));
  EXPECT_TRUE(fs::exists(out() / "sampling.json"));
  EXPECT_FALSE(fs::exists(out() / "replacement"));
}

TEST_F(Sample, never_writes_over_anything_without_force) {
  const at::Tensor first = drawn("out");
  const Finished again = sample({"--out", out().string(), "--seed", "1"});
  EXPECT_EQ(again.code, 2) << again.both();
  EXPECT_TRUE(read_npy((out() / "samples.npy").string()).equal(first));
  EXPECT_FALSE(drawn("out", {"--force", "--seed", "1"}).equal(first));
  const Finished of_a_run = sample({"--out", run_folder(), "--force"});
  EXPECT_EQ(of_a_run.code, 2) << "a run is no samples";
}

TEST_F(Sample, on_a_full_disk_ends_with_74_and_leaves_no_record) {
  const Finished finished =
      test::run_noisemark_after("trap '' XFSZ; ulimit -f 8", command({"--out", out().string()}));
  EXPECT_EQ(finished.code, 74) << finished.both();
  EXPECT_FALSE(fs::exists(out() / "sampling.json"));
  EXPECT_EQ(sample({"--out", out().string(), "--force"}).code, 0) << "what is left can be replaced";
}

TEST_F(Sample, can_be_interrupted_before_it_has_written_anything) {
  test::Process process(test::noisemark_command(
      command({"--samples", "4096", "--sampler", "ddpm", "--out", out().string()})));
  ASSERT_TRUE(test::wait_for_file(out()));
  process.signal(SIGINT);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 130) << finished.both();
  EXPECT_NE(finished.err.find("interrupted in the sampling after "), std::string::npos);
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(Sample, shows_on_a_terminal_how_far_it_is) {
  test::Process process(test::noisemark_command(command({"--out", out().string()})), {},
                        test::Process::StandardError::kTerminal);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.code, 0) << finished.both();
  EXPECT_NE(finished.err.find("gmm16@cpu: sampling, 0 of 6 images, step 1/3"), std::string::npos)
      << finished.err;
}

}  // namespace
}  // namespace noisemark::suite
