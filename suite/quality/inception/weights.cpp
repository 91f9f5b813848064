#include "suite/quality/inception/weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/io/tensors.h"

namespace noisemark::suite::inception {
namespace {

constexpr size_t kDigits = 8;

/// The converter's own record; empty where the file has none.
std::string recorded(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? "" : found->second;
}

void check_types(const NamedTensors& tensors, const std::string& path) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.scalar_type() == at::kFloat) continue;
    throw bad_input(path, name, std::string(dtype_name(tensor.scalar_type())), "F32");
  }
}

NamedTensors wanted_tensors() {
  NamedTensors tensors;
  for (const auto& [name, shape] : tensor_shapes()) tensors.emplace_back(name, at::empty(shape));
  return tensors;
}

std::string sha256_by_name(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return suite::tensors_sha256(tensors);
}

}  // namespace

std::string Weights::name() const {
  return is_official() ? std::string(kOfficialName)
                       : "inception-" + tensors_sha256.substr(0, kDigits);
}

std::vector<std::pair<std::string, std::vector<int64_t>>> tensor_shapes() {
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  for (const Convolution& c : kConvolutions) {
    const std::string name(c.name);
    shapes.push_back({name + ".conv.weight", {c.out, c.in, c.kernel_height, c.kernel_width}});
    for (const std::string_view norm : kNormTensors) {
      shapes.push_back({name + ".bn." + std::string(norm), {c.out}});
    }
  }
  shapes.push_back({"fc.weight", {kClasses, kFeatures}});
  shapes.push_back({"fc.bias", {kClasses}});
  return shapes;
}

std::string find_weights(const std::string& given, const std::string& data_folder) {
  std::error_code error;
  if (!given.empty()) {
    if (std::filesystem::exists(given, error)) return given;
    throw bad_input("--weights", given, "no such file", std::string(kHowToGetWeights));
  }
  const std::string path = (std::filesystem::path(data_folder) / kFileName).string();
  if (!data_folder.empty() && std::filesystem::exists(path, error)) return path;
  const std::string place =
      data_folder.empty() ? fmt::format("--data DIR with {}", kFileName) : path;
  throw Error(ExitCode::kCannotRunHere,
              fmt::format("extractor inception: weights: none ({}, or --weights FILE: {})", place,
                          kHowToGetWeights));
}

Weights read_weights(const std::string& path) {
  // A PyTorch file is a zip archive or a pickle: as safetensors it would only look damaged.
  if (std::filesystem::path(path).extension() == ".pth") {
    throw bad_input(path, "", "a PyTorch file", std::string(kHowToGetWeights));
  }
  Weights weights = weights_of(read_safetensors(path), path);
  weights.file_sha256 = reports::sha256_of_file(path);
  return weights;
}

Weights weights_of(const SafetensorsFile& file, const std::string& path) {
  Weights weights;
  weights.tensors = wanted_tensors();
  tell_of_conversion(file.tensors, path);
  copy_by_name(file.tensors, weights.tensors, path);
  check_types(file.tensors, path);
  require_finite(weights.tensors, path);
  weights.tensors_sha256 = sha256_by_name(weights.tensors);
  const std::string converted = recorded(file, "tensors_sha256");
  if (!converted.empty() && converted != weights.tensors_sha256) {
    throw bad_input(path, "tensors", "SHA-256 " + weights.tensors_sha256,
                    converted + ", which the converter recorded in the file");
  }
  // Nothing but the tensors' own hash ties them to the file that they are said to come from.
  if (!converted.empty()) weights.source_sha256 = recorded(file, "source_sha256");
  return weights;
}

}  // namespace noisemark::suite::inception
