#include "suite/quality/inception/weights.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "tests/suite/quality/inception/random_weights.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::inception::test {
namespace {

using suite::test::outcome;
using suite::test::put_bytes;
using suite::test::TemporaryFolder;

/// Returns what weights_of() says of the tensors with one of them changed.
template <typename Change>
std::pair<ExitCode, std::string> refusal(const Change& change) {
  SafetensorsFile file{random_tensors(), {}};
  change(file);
  return outcome([&] { static_cast<void>(weights_of(file, "w.safetensors")); });
}

at::Tensor& tensor_named(SafetensorsFile& file, const std::string& name) {
  return std::find_if(file.tensors.begin(), file.tensors.end(),
                      [&](const auto& entry) { return entry.first == name; })
      ->second;
}

std::map<std::string, std::string> converters_record(const std::string& source) {
  return {{"source_sha256", source}, {"tensors_sha256", random_weights().tensors_sha256}};
}

/// 23,834,568 is what torchvision and Keras count for Inception v3 with 1000 classes and without
/// the auxiliary classifier; eight more classes have 2049 parameters each. Means and variances of
/// the norms are no parameters.
TEST(InceptionWeights, are_the_parameters_of_inception_v3_with_1008_classes) {
  std::set<std::string> names;
  int64_t parameters = 0;
  for (const auto& [name, shape] : tensor_shapes()) {
    names.insert(name);
    if (name.find("running_") != std::string::npos) continue;
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    parameters += count;
  }
  EXPECT_EQ(names.size(), 94U * 5 + 2);
  EXPECT_EQ(parameters, 23'834'568 + 8 * 2049);
}

TEST(InceptionWeights, come_back_from_a_file_in_order) {
  const TemporaryFolder folder;
  NamedTensors backwards = random_tensors();
  std::reverse(backwards.begin(), backwards.end());
  write_safetensors(folder.path("w.safetensors"), backwards);
  const Weights weights = read_weights(folder.path("w.safetensors"));
  ASSERT_EQ(weights.tensors.size(), random_tensors().size());
  for (size_t i = 0; i < weights.tensors.size(); ++i) {
    EXPECT_EQ(weights.tensors[i].first, random_tensors()[i].first);
    EXPECT_TRUE(weights.tensors[i].second.equal(random_tensors()[i].second));
  }
  EXPECT_EQ(weights.file_sha256, reports::sha256_of_file(folder.path("w.safetensors")));
  EXPECT_EQ(weights.tensors_sha256, random_weights().tensors_sha256);
}

TEST(InceptionWeights, are_official_only_as_the_converter_made_them_of_the_official_file) {
  const std::string official(kOfficialSourceSha256);
  EXPECT_FALSE(random_weights().is_official());
  EXPECT_EQ(random_weights().name(), "inception-" + random_weights().tensors_sha256.substr(0, 8));

  const Weights converted = weights_of({random_tensors(), converters_record(official)}, "w");
  EXPECT_TRUE(converted.is_official());
  EXPECT_EQ(converted.name(), "inception-2015-12-05");

  const std::string other(64, 'a');
  EXPECT_FALSE(weights_of({random_tensors(), converters_record(other)}, "w").is_official());
  EXPECT_FALSE(weights_of({random_tensors(), {{"source_sha256", official}}}, "w").is_official());
}

TEST(InceptionWeights, of_another_tensor_than_the_converters_are_refused) {
  const auto [code, message] = refusal([](SafetensorsFile& file) {
    file.metadata = converters_record(std::string(kOfficialSourceSha256));
    at::Tensor& bias = tensor_named(file, "fc.bias");
    bias = bias + 1;
  });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("w.safetensors: tensors: SHA-256"), std::string::npos) << message;
  EXPECT_NE(message.find("the converter recorded"), std::string::npos) << message;
}

TEST(InceptionWeights, name_what_is_missing_unexpected_and_misshapen) {
  const auto [code, message] = refusal([](SafetensorsFile& file) {
    tensor_named(file, "fc.weight") = at::zeros({1000, 2048});
    file.tensors.back().first = "fc.other";
  });
  EXPECT_EQ(code, ExitCode::kBadInput);
  for (const char* words : {"missing fc.bias", "unexpected fc.other", "; fc.weight [1000, 2048] (",
                            "; fc.weight [1008, 2048])"}) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(InceptionWeights, that_are_no_float32_or_not_finite_are_refused) {
  const std::string name = "Mixed_6a.branch3x3.bn.bias";
  EXPECT_EQ(refusal([&](SafetensorsFile& file) {
              tensor_named(file, name) = tensor_named(file, name).to(at::kHalf);
            }),
            std::pair(ExitCode::kBadInput, "w.safetensors: " + name + ": F16 (F32)"));
  EXPECT_EQ(refusal([&](SafetensorsFile& file) {
              tensor_named(file, name) = at::full({384}, std::numeric_limits<double>::quiet_NaN());
            }),
            std::pair(ExitCode::kBadInput,
                      "w.safetensors: " + name + ": values that are not finite (numbers)"));
}

TEST(InceptionWeights, that_are_not_there_are_said_where_to_put_and_how_to_get) {
  const TemporaryFolder folder;
  const std::string usual(kFileName);
  const std::string mine = folder.path("mine.safetensors");
  struct Case {
    std::string given, data;
    ExitCode code;
    std::string named;
  };
  for (const Case& c :
       {Case{"", "", ExitCode::kCannotRunHere, "--data DIR with " + usual},
        Case{"", folder.path(""), ExitCode::kCannotRunHere, folder.path(usual)},
        Case{mine, folder.path(""), ExitCode::kBadInput, mine + ": no such file"}}) {
    const auto [code, message] = outcome([&] { static_cast<void>(find_weights(c.given, c.data)); });
    EXPECT_EQ(code, c.code) << message;
    EXPECT_NE(message.find("convert_inception.py"), std::string::npos) << message;
    EXPECT_NE(message.find(c.named), std::string::npos) << message;
  }
  put_bytes(folder.path(usual), "");
  EXPECT_EQ(find_weights("", folder.path("")), folder.path(usual));
}

TEST(InceptionWeights, of_the_peers_own_file_are_sent_to_the_converter) {
  const auto [code, message] = outcome([] { static_cast<void>(read_weights("pt_inception.pth")); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("pt_inception.pth: a PyTorch file"), std::string::npos) << message;
  EXPECT_NE(message.find("convert_inception.py"), std::string::npos) << message;
}

}  // namespace
}  // namespace noisemark::suite::inception::test
