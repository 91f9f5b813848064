// `noisemark fid`, as a user or a script meets it.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "suite/data/gaussian_mixture.h"
#include "suite/io/numpy.h"
#include "tests/suite/process.h"
#include "tests/suite/quality/distance/gaussians.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::json;

const test::Variables kNoData = {{"NOISEMARK_DATA", ""}, {"NOISEMARK_REQUIRE", ""}};

std::vector<std::string> words(std::vector<std::string> arguments) {
  const std::vector<std::string> first = {"fid", "--device", "cpu"};
  arguments.insert(arguments.begin(), first.begin(), first.end());
  return arguments;
}

test::Finished fid(const std::vector<std::string>& arguments) {
  return test::run_noisemark(words(arguments), kNoData);
}

/// Files of one test.
class Fid : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() / name; }
  std::string save(const std::string& name, const at::Tensor& array) const {
    write_npy(path(name), array);
    return path(name);
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Fid, prints_both_n_beside_every_value) {
  const std::string a = save("a.npy", test::normals(1, 100, 4));
  const std::string b = save("b.npy", test::normals(2, 2000, 4) + 1);
  const test::Finished text = fid({a, b, "--kid", "--subset-size", "50", "--prc"});
  ASSERT_EQ(text.code, 0) << text.both();
  for (const char* figure :
       {"| Fréchet distance", "| kernel distance, 100 subsets of 50", "| precision", "| recall"}) {
    const size_t at = text.out.find(figure);
    ASSERT_NE(at, std::string::npos) << figure << "\n" << text.out;
    const std::string line = text.out.substr(at, text.out.find('\n', at) - at);
    EXPECT_NE(line.find(" 100 |"), std::string::npos) << line;
    EXPECT_NE(line.find(" 2,000 |"), std::string::npos) << line;
  }
  EXPECT_EQ(text.out.find("FID"), std::string::npos) << text.out;
  const test::Finished json = fid({a, b, "--json"});
  ASSERT_EQ(json.code, 0) << json.both();
  const Json parsed = Json::parse(json.out);
  EXPECT_EQ(parsed["a"]["n"], 100);
  EXPECT_EQ(parsed["b"]["n"], 2000);
  EXPECT_EQ(parsed["b"]["moments_sha256"].get<std::string>().size(), 64U);
  EXPECT_NE(parsed["b"]["moments_sha256"], parsed["a"]["moments_sha256"]);
  EXPECT_EQ(parsed["d"], 4);
  EXPECT_NEAR(parsed["value"].get<double>(), 4, 1.5);
}

TEST_F(Fid, gates_and_refuses_a_gate_of_fewer_than_2_d_samples) {
  const std::string many = save("many.npy", test::normals(1, 40, 10));
  const std::string also = save("also.npy", test::normals(2, 50, 10));
  const std::string few = save("few.npy", test::normals(3, 19, 10));
  EXPECT_EQ(fid({many, also, "--max", "1000"}).code, 0);
  const test::Finished red = fid({many, also, "--max", "0.001"});
  EXPECT_EQ(red.code, 1) << red.both();
  EXPECT_NE(red.out.find("FAIL"), std::string::npos) << red.out;
  for (const auto& [a, b] : {std::pair(few, many), std::pair(many, few)}) {
    const test::Finished refused = fid({a, b, "--max", "1000"});
    EXPECT_EQ(refused.code, 2) << refused.both();
    EXPECT_NE(refused.err.find("few.npy: N = 19, and with fewer than 2 d = 20 samples"),
              std::string::npos)
        << refused.err;
  }
  const test::Finished told = fid({few, many});
  EXPECT_EQ(told.code, 0) << told.both();
  EXPECT_NE(told.out.find("N = 19"), std::string::npos) << told.out;
}

TEST_F(Fid, writes_statistics_that_give_the_same_distance) {
  const std::string a = save("a.npy", test::normals(1, 100, 4));
  const std::string b = save("b.npy", test::normals(2, 90, 4) * 2);
  const test::Finished written = fid({a, "--out", path("a.npz")});
  ASSERT_EQ(written.code, 0) << written.both();
  EXPECT_NE(written.out.find("100 samples, d = 4"), std::string::npos) << written.out;
  const Json first = Json::parse(fid({a, b, "--json"}).out);
  const Json second = Json::parse(fid({path("a.npz"), b, "--json"}).out);
  EXPECT_NEAR(first["value"].get<double>(), second["value"].get<double>(), 1e-12);
  EXPECT_EQ(second["a"]["n"], 100);
}

TEST_F(Fid, gates_with_statistics_of_the_peers_when_told_their_n) {
  const std::string a = save("a.npy", test::normals(1, 100, 4));
  fid({a, "--out", path("ours.npz")});
  const NpzFile ours(path("ours.npz"));
  write_npz(path("peer.npz"), {{"mu", ours.array("mu")}, {"sigma", ours.array("sigma")}});
  const test::Finished refused = fid({a, path("peer.npz"), "--max", "1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("N is not known"), std::string::npos) << refused.err;
  EXPECT_EQ(fid({a, path("peer.npz"), "--max", "1", "--reference-samples", "100"}).code, 0);
  EXPECT_EQ(fid({a, path("peer.npz"), "--max", "1", "--reference-samples", "7"}).code, 2);
  EXPECT_EQ(fid({a, a, "--reference-samples", "100"}).code, 2);
}

/// 30 images of 12 values, more than 2 d, no two alike.
at::Tensor few_pictures() {
  return (at::arange(30 * 12) * 37 % 251).to(at::kByte).view({30, 3, 2, 2});
}

TEST_F(Fid, of_one_set_of_unknown_make_has_no_name_and_decides_no_gate) {
  const std::string a = save("a.npy", few_pictures());
  ASSERT_EQ(fid({a, "--out", path("ours.npz")}).code, 0);
  const NpzFile ours(path("ours.npz"));
  write_npz(path("peer.npz"), {{"mu", ours.array("mu")}, {"sigma", ours.array("sigma")}});
  const std::vector<std::string> asked = {a, path("peer.npz"), "--reference-samples", "30"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return fid(more);
  };
  const Json unknown = Json::parse(with({"--json"}).out);
  EXPECT_EQ(unknown["name"], "Fréchet distance");
  EXPECT_TRUE(unknown["a"]["gateable"]);
  EXPECT_FALSE(unknown["b"]["gateable"]);
  EXPECT_NE(unknown["b"]["why_no_gate"].get<std::string>().find("--resize"), std::string::npos);
  const test::Finished refused = with({"--max", "1000"});
  EXPECT_EQ(refused.code, 2) << refused.both();
  EXPECT_NE(refused.err.find("peer.npz: nobody says which extractor and resize made it"),
            std::string::npos)
      << refused.err;
  const Json told = Json::parse(with({"--json", "--resize", "none"}).out);
  EXPECT_EQ(told["name"], "pixel Fréchet distance");
  EXPECT_TRUE(told["b"]["extractor_asserted"]);
  EXPECT_FALSE(told["a"]["extractor_asserted"]);
  EXPECT_EQ(with({"--max", "1000", "--resize", "none"}).code, 0);
}

TEST_F(Fid, gate_is_judged_by_an_interval_and_not_by_the_value) {
  const std::string a = save("a.npy", test::normals(1, 200, 4));
  const std::string b = save("b.npy", test::normals(2, 2000, 4) + 1);
  const Json found = Json::parse(fid({a, b, "--json", "--bootstrap", "100", "--seed", "5"}).out);
  const auto value = found["value"].get<double>();
  const auto low = found["bootstrap"]["low"].get<double>();
  const auto high = found["bootstrap"]["high"].get<double>();
  EXPECT_LT(low, value);
  EXPECT_GT(high, value);
  EXPECT_EQ(found["bootstrap"]["replicates"], 100);
  EXPECT_EQ(found["bootstrap"]["seed"], 5);
  const auto gated = [&](double min, double max, const std::vector<std::string>& more = {}) {
    std::vector<std::string> asked = {
        a, b, "--seed", "5", "--min", std::to_string(min), "--max", std::to_string(max)};
    asked.insert(asked.end(), more.begin(), more.end());
    return fid(asked);
  };
  const double wide = 0.1 * value;
  const test::Finished within = gated(low - wide, high + wide);
  EXPECT_EQ(within.code, 0) << within.both();
  EXPECT_NE(within.out.find("judged by the interval: PASS"), std::string::npos) << within.out;
  EXPECT_EQ(gated(high + wide, 2 * high + wide).code, 1) << "too near is as wrong as too far";
  EXPECT_EQ(gated(0, low - wide).code, 1);
  const test::Finished across = gated(0, value * 1.0001);
  EXPECT_EQ(across.code, 4) << across.both();
  EXPECT_NE(across.out.find("INCONCLUSIVE"), std::string::npos) << across.out;
  EXPECT_EQ(gated(0, value * 1.0001, {"--inconclusive", "warn"}).code, 0);
  const test::Finished alone = gated(0, value * 1.0001, {"--bootstrap", "0"});
  EXPECT_EQ(alone.code, 0) << alone.both();
  EXPECT_NE(alone.out.find("judged by the value alone"), std::string::npos) << alone.out;
}

TEST_F(Fid, interval_needs_features_and_a_range_that_holds_something) {
  const std::string a = save("a.npy", test::normals(1, 30, 4));
  ASSERT_EQ(fid({a, "--out", path("a.npz")}).code, 0);
  const test::Finished moments = fid({path("a.npz"), a, "--max", "10"});
  EXPECT_EQ(moments.code, 2) << moments.both();
  EXPECT_NE(moments.err.find("--bootstrap 0"), std::string::npos) << moments.err;
  EXPECT_EQ(fid({path("a.npz"), a, "--max", "10", "--bootstrap", "0"}).code, 0);
  const test::Finished few = fid({a, a, "--bootstrap", "5"});
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("--bootstrap: 5 (0, or at least 20)"), std::string::npos) << few.err;
  EXPECT_EQ(fid({a, a, "--min", "3", "--max", "2"}).code, 2);
}

TEST_F(Fid, kernel_distance_says_which_samples_it_looked_at) {
  const std::string a = save("a.npy", test::normals(1, 100, 4));
  const std::vector<std::string> asked = {a,           a,    "--kid",  "--subset-size", "40",
                                          "--subsets", "10", "--json", "--draws",       "numpy"};
  const Json kernel = Json::parse(fid(asked).out)["kernel"];
  EXPECT_EQ(kernel["draws"], "numpy");
  EXPECT_EQ(kernel["seed"], 2020);
  EXPECT_EQ(kernel["subsets"], 10);
  EXPECT_EQ(kernel["subset_size"], 40);
}

/// Draws of the mixture beside the mixture itself: no further than as many perfect samples are,
/// and their components as often as they should be.
TEST_F(Fid, of_raw_samples_to_the_mixture_has_its_floor_and_the_components_shares) {
  const GaussianMixture mixture = GaussianMixture::gmm16();
  const at::Tensor drawn = at::empty({1024, 1, 16, 16}, at::kFloat);
  for (int64_t i = 0; i < drawn.size(0); ++i) {
    mixture.sample(CounterRng(3, Stream::kData, 0, static_cast<uint64_t>(i)),
                   std::span(drawn.mutable_data_ptr<float>() + i * 256, 256));
  }
  const std::string samples = save("samples.npy", drawn);
  const Json found = Json::parse(fid({samples, "gmm16:exact", "--json"}).out);
  const Json& mixed = found["mixture"];
  EXPECT_LT(found["value"].get<double>(), 2 * mixed["floor_largest"].get<double>());
  EXPECT_EQ(mixed["component_share_frac"].size(), 8U);
  EXPECT_EQ(mixed["degrees"], 7);
  EXPECT_GT(mixed["p"].get<double>(), 1e-3);
  EXPECT_TRUE(found["b"]["extractor"].is_null());
  EXPECT_TRUE(found["b"]["gateable"]);
  const test::Finished text = fid({samples, "gmm16:exact"});
  EXPECT_NE(text.out.find("as many perfect samples"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("B: gmm16:exact, the distribution itself"), std::string::npos)
      << text.out;
}

TEST_F(Fid, refuses_stale_statistics_of_another_extractor) {
  const std::string a = save("a.npy", few_pictures());
  ASSERT_EQ(fid({a, "--out", path("now.npz")}).code, 0);
  EXPECT_EQ(fid({a, path("now.npz")}).code, 0);
  // The same with the checksum that an earlier extractor had.
  const NpzFile now(path("now.npz"));
  const at::Tensor extractor = now.array("extractor").clone();
  auto* json = extractor.mutable_data_ptr<uint8_t>();
  const std::string text(json, json + extractor.numel());
  const size_t digit = text.find("\"checksum\":\"") + 12;
  json[digit] = json[digit] == '0' ? '1' : '0';
  write_npz(path("stale.npz"), {{"mu", now.array("mu")},
                                {"sigma", now.array("sigma")},
                                {"n", now.array("n")},
                                {"extractor", extractor}});
  const test::Finished stale = fid({a, path("stale.npz")});
  EXPECT_EQ(stale.code, 3) << stale.both();
  EXPECT_NE(stale.err.find("features of different extractors"), std::string::npos) << stale.err;
}

TEST_F(Fid, refuses_bad_input_with_the_reason) {
  const std::string a = save("a.npy", test::normals(1, 30, 4));
  at::Tensor nan = test::normals(2, 30, 4);
  nan[7][1] = std::numeric_limits<double>::quiet_NaN();
  std::filesystem::create_directory(path("empty"));
  std::filesystem::create_directory(path("damaged"));
  std::ofstream(path("damaged/a.png")) << "no image at all";
  std::ofstream(path("cut.npz")) << "PK";
  std::filesystem::create_directories(path("drawn/pictures"));
  const std::string drawn = save("drawn/samples.npy", test::normals(1, 30, 4));
  write_npz(path("other.npz"),
            {{"mu", test::normals(1, 1, 3)[0]},
             {"sigma", test::covariance_of(test::rotation(1, 4), test::spectrum(4, 1))}});
  const at::Tensor pictures = (at::arange(8 * 12) * 37 % 251).to(at::kByte).view({8, 3, 2, 2});
  const std::string coloured = save("coloured.npy", pictures);
  const std::string gray = save("gray.npy", pictures.slice(1, 0, 1));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{coloured, gray}, "channels: 3 and 1 per image"},
      {{a, save("five.npy", test::normals(1, 30, 5))}, "features: 4 and 5 per sample"},
      {{a, save("nan.npy", nan)}, "the first is row 7"},
      {{drawn, save("six.npy", test::normals(1, 30, 6))},
       "drawn/pictures are these samples as images)"},
      {{a, path("empty")}, "empty: no images"},
      {{a, path("damaged")}, "damaged/a.png: "},
      {{a, path("cut.npz")}, "cut.npz: truncated, or no ZIP archive"},
      {{a, path("other.npz")}, "other.npz: covariance: [4, 4] ([3, 3])"},
      {{a, path("absent")}, "no such file or folder"},
      {{a}, "A and B, or A and --out FILE.npz"},
      {{a, a, "--kid"},
       "samples: 30 and 30 (at least 1000, the size of a subset; or --subset-size 30)"},
      {{a, a, "--draws", "dice"}, "one of: counter, numpy"},
      {{a, a, "--max", "-1"}, "a finite number of at least 0"},
  };
  for (const auto& [arguments, reason] : cases) {
    const test::Finished refused = fid(arguments);
    EXPECT_EQ(refused.code, 2) << refused.both();
    EXPECT_NE(refused.err.find(reason), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, "");
  }
  EXPECT_EQ(fid({"ho-cifar10:test", a}).code, 77);
}

TEST_F(Fid, of_a_learned_network_is_named_after_it) {
  const at::Tensor values = at::arange(40 * 3 * 32 * 32);
  const std::string a = save("a.npy", (values * 37 % 251).to(at::kByte).view({40, 3, 32, 32}));
  const std::string b = save("b.npy", (values * 41 % 239).to(at::kByte).view({40, 3, 32, 32}));
  const test::Finished found = fid({a, b, "--extractor", "cifarnet", "--json"});
  ASSERT_EQ(found.code, 0) << found.both();
  const Json json = Json::parse(found.out);
  EXPECT_EQ(json["name"], "cifarnet-v1 Fréchet distance");
  EXPECT_EQ(json["d"], 144);
  EXPECT_GT(json["value"].get<double>(), 0);
  EXPECT_EQ(json["a"]["extractor"]["name"], "cifarnet");
  EXPECT_FALSE(json["a"]["gateable"]);
  const test::Finished absent = fid({a, b, "--extractor", "inception"});
  EXPECT_EQ(absent.code, 77) << absent.both();
  EXPECT_NE(absent.err.find("convert_inception.py"), std::string::npos) << absent.err;
}

TEST_F(Fid, of_samples_of_the_mixture_is_small_and_of_others_is_not) {
  const Json same =
      Json::parse(fid({"gmm16:test", "gmm16:train", "--limit", "2000", "--json"}).out);
  EXPECT_EQ(same["name"], "pixel Fréchet distance");
  const std::string noise = save("noise.npy", test::normals(1, 2000, 256).to(at::kFloat));
  const test::Finished far = fid({noise, "gmm16:exact", "--max", "10"});
  EXPECT_EQ(far.code, 1) << far.both();
  EXPECT_NE(far.out.find(" exact |"), std::string::npos) << far.out;
}

/// It is killed as soon as it has written something; what it wrote is used, and the value is that
/// of an evaluation in one go.
TEST_F(Fid, goes_on_after_a_kill_with_the_features_that_were_written) {
  const std::vector<std::string> arguments = {"gmm16:test",       "gmm16:train", "--limit", "6000",
                                              "--features-cache", path("cache"), "--json"};
  {
    test::Process killed(test::noisemark_command(words(arguments)), kNoData);
    const auto written = [&] {
      std::error_code error;
      for (const auto& entry :
           std::filesystem::recursive_directory_iterator(path("cache"), error)) {
        if (entry.path().extension() == ".safetensors") return true;
      }
      return false;
    };
    for (int i = 0; i < 6000 && !written(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(written());
    killed.signal(SIGKILL);
    EXPECT_EQ(killed.wait().code, 128 + SIGKILL);
  }
  const test::Finished resumed = fid(arguments);
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_NE(resumed.err.find("images from the cache"), std::string::npos) << resumed.err;
  const test::Finished whole = fid({"gmm16:test", "gmm16:train", "--limit", "6000", "--json"});
  EXPECT_EQ(Json::parse(resumed.out)["value"], Json::parse(whole.out)["value"]);
}

}  // namespace
}  // namespace noisemark::suite
