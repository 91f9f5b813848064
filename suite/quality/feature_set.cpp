#include "suite/quality/feature_set.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/io/numpy.h"
#include "suite/io/safetensors.h"
#include "suite/io/tensors.h"
#include "suite/quality/distance/measures.h"

namespace noisemark::suite {
namespace {

constexpr size_t kKeyDigits = 16;  // digits in the folder's name; the whole key is in the files
constexpr const char* kFeatures = "features";

std::map<std::string, std::string> metadata_of(const std::string& key, int64_t begin, int64_t end,
                                               const at::Tensor& features) {
  return {{"key", key},
          {"begin", std::to_string(begin)},
          {"end", std::to_string(end)},
          {"sha256", tensors_sha256({{kFeatures, features}})}};
}

}  // namespace

FeatureCache::FeatureCache(const std::filesystem::path& folder, std::string key)
    : folder_(folder / key.substr(0, kKeyDigits)), key_(std::move(key)) {
  reports::make_folder(folder_);
  reports::remove_leftovers(folder_);
}

std::filesystem::path FeatureCache::file(int64_t begin, int64_t end) const {
  return folder_ / fmt::format("{:010}-{:010}.safetensors", begin, end);
}

std::optional<at::Tensor> FeatureCache::load(int64_t begin, int64_t end) const {
  const std::string path = file(begin, end).string();
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const SafetensorsFile stored = read_safetensors(path);
    if (stored.tensors.size() != 1) return std::nullopt;
    const at::Tensor& features = stored.tensors.front().second;
    if (features.dim() != 2 || features.size(0) != end - begin) return std::nullopt;
    if (stored.metadata != metadata_of(key_, begin, end, features)) return std::nullopt;
    return features;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void FeatureCache::store(int64_t begin, int64_t end, const at::Tensor& features) const {
  write_safetensors(file(begin, end).string(), {{kFeatures, features}},
                    metadata_of(key_, begin, end, features));
}

namespace {

at::Tensor bytes_tensor(const std::string& text) {
  const at::Tensor bytes =
      at::empty({static_cast<int64_t>(text.size())}, at::TensorOptions().dtype(at::kByte));
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

int64_t read_samples(const NpzFile& file) {
  const at::Tensor n = file.array("n");
  if (n.scalar_type() != at::kLong || n.numel() != 1 || n.item<int64_t>() < 2) {
    throw bad_input(file.path(), "n", "no number of samples", "one int64 of at least 2");
  }
  return n.item<int64_t>();
}

/// Names one of the types of which a .npy file is read.
std::string numpy_name(const at::Tensor& array) {
  if (array.is_floating_point()) return array.scalar_type() == at::kDouble ? "float64" : "float32";
  return array.scalar_type() == at::kLong ? "int64" : "uint8";
}

at::Tensor read_moments(const NpzFile& file, const std::string& name) {
  at::Tensor moments = file.array(name);
  if (!moments.is_floating_point()) {
    throw bad_input(file.path(), name, numpy_name(moments), "float64 or float32");
  }
  return moments;
}

}  // namespace

bool has_statistics(const NpzFile& file) {
  const bool mean = file.has("mu");
  if (mean != file.has("sigma")) {
    throw bad_input(file.path(), mean ? "sigma" : "mu", "missing", "both mu and sigma, or neither");
  }
  return mean;
}

StatisticsFile read_statistics(const NpzFile& file) {
  StatisticsFile statistics;
  statistics.gaussian =
      checked_gaussian(read_moments(file, "mu"), read_moments(file, "sigma"), file.path());
  if (file.has("n")) statistics.gaussian.samples = read_samples(file);
  if (file.has("extractor")) {
    const at::Tensor json = file.array("extractor");
    if (json.scalar_type() != at::kByte) {
      throw bad_input(file.path(), "extractor", c10::toString(json.scalar_type()), "uint8");
    }
    statistics.extractor = parse_extractor(bytes_of(json), file.path());
  }
  return statistics;
}

void write_statistics(const std::string& path, const StatisticsFile& statistics) {
  NamedTensors arrays = {{"mu", statistics.gaussian.mean},
                         {"sigma", statistics.gaussian.covariance}};
  if (statistics.gaussian.samples > 0) {
    arrays.emplace_back(
        "n", at::scalar_tensor(statistics.gaussian.samples, at::TensorOptions().dtype(at::kLong)));
  }
  if (statistics.extractor) {
    arrays.emplace_back("extractor", bytes_tensor(extractor_json(*statistics.extractor)));
  }
  write_npz(path, arrays);
}

namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunk = 1024;  // images of a file in the cache; part of the key
constexpr const char* kAccepted =
    "a folder of images, FILE.npz, FILE.npy, ID:train, ID:test or gmm16:exact";

/// The key holds the device, the batch and the threads too: kernels are chosen by them, and round
/// otherwise.
std::string cache_key(const ExtractorInfo& info, const std::string& pictures_sha256,
                      at::Device device, int64_t batch) {
  return reports::sha256_of(fmt::format("features v3\n{}\n{}\n{}\n{}\n{}\n{}\n",
                                        extractor_json(info), pictures_sha256, kChunk, device.str(),
                                        batch, at::get_num_threads()));
}

at::Tensor extract_range(FeatureExtractor& extractor, const ImageSet& pictures, int64_t begin,
                         int64_t end, int64_t batch) {
  std::vector<at::Tensor> parts;
  for (int64_t from = begin; from < end; from += batch) {
    const int64_t to = std::min(from + batch, end);
    const at::Tensor features = extractor.extract(pictures.read(from, to)).to(at::kCPU);
    TORCH_CHECK(features.dim() == 2 && features.size(0) == to - from, "the extractor ",
                extractor.info().name, " gave other than one row per image");
    parts.push_back(features);
  }
  return at::cat(parts);
}

/// The part behind the colon of "gmm16:test"; empty where there is none.
std::string part_of(const std::string& given) {
  for (const char* part : {"train", "test", "exact"}) {
    if (given.ends_with(std::string(":") + part)) return part;
  }
  return "";
}

}  // namespace

Gaussian gaussian_of(const FeatureSet& set) {
  if (set.gaussian) return *set.gaussian;
  Moments moments(set.dimension, set.features.device());
  moments.add(set.features);
  if (moments.samples() < 2) {
    throw bad_input(set.name, "samples", std::to_string(moments.samples()), "at least 2");
  }
  return moments.gaussian();
}

void assert_extractor(FeatureSet& set, const FeatureSet& like, const std::string& resize) {
  if (set.extractor || !like.extractor) {
    throw bad_input("--resize", set.name, resize,
                    "only for a set whose extractor is not known, beside one whose extractor is");
  }
  set.extractor = like.extractor;
  set.extractor->resize = resize;
  set.extractor_asserted = true;
}

FeatureExtractor& FeatureSetReader::extractor() {
  if (!extractor_) extractor_ = make_extractor(options_.extractor, options_.extractor_options);
  return *extractor_;
}

FeatureSet FeatureSetReader::read(const std::string& given, bool keep_features) {
  const at::NoGradGuard no_grad;
  keep_features_ = keep_features || options_.keep_features;
  std::error_code error;
  if (fs::is_directory(given, error)) {
    const auto pictures = open_image_set(given);
    FeatureSet set = from_images(given, *pictures);
    set.contents_sha256 = pictures->checksum();
    return set;
  }
  if (fs::exists(given, error)) return read_file(given);
  if (const std::string part = part_of(given); !part.empty()) {
    return from_dataset(given, given.substr(0, given.size() - part.size() - 1), part);
  }
  throw bad_input(given, "", "no such file or folder", kAccepted);
}

at::Tensor FeatureSetReader::logits_of(const FeatureSet& set) {
  if (!set.extractor || !set.features.defined()) {
    throw bad_input(set.name, "", "no features of images", "images, for their classes");
  }
  if (!same_extractor(*set.extractor, extractor().info())) {
    throw bad_input(set.name, "", "features of another extractor", extractor().info().name);
  }
  const at::Tensor logits = extractor().logits(set.features);
  if (!logits.defined()) {
    throw bad_input("--extractor", "", set.extractor->name, "inception, which tells classes");
  }
  return logits;
}

FeatureSet FeatureSetReader::read_file(const std::string& path) {
  const std::string ending = reports::lower_case(fs::path(path).extension().string());
  if (ending == ".npy") return from_array(path, read_npy(path));
  if (ending != ".npz") throw bad_input(path, "", "neither .npz nor .npy", kAccepted);
  const NpzFile file(path);
  if (has_statistics(file)) {
    StatisticsFile statistics = read_statistics(file);
    FeatureSet set;
    set.name = path;
    set.samples = statistics.gaussian.samples;
    set.dimension = statistics.gaussian.dimension();
    set.gaussian = std::move(statistics.gaussian);
    set.extractor = std::move(statistics.extractor);
    return set;
  }
  const auto names = file.names();
  if (file.has("features")) return from_array(path, file.array("features"));
  if (names.size() == 1) return from_array(path, file.array(names.front()));
  throw bad_input(path, "arrays",
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                  "mu and sigma, or features, or one array");
}

FeatureSet FeatureSetReader::from_array(const std::string& given, const at::Tensor& array) {
  if (array.scalar_type() == at::kByte) {
    return from_images(given, *open_image_array(array, given));
  }
  if (!array.is_floating_point() || array.dim() < 2 || array.numel() == 0) {
    throw bad_input(given, "array",
                    fmt::format("{} [{}]", numpy_name(array), fmt::join(array.sizes(), ", ")),
                    "float [N, ...] or uint8 [N, 3, H, W]");
  }
  FeatureSet set;
  set.name = given;
  const at::Tensor rows = array.flatten(1);
  const int64_t n = options_.limit > 0 ? std::min(options_.limit, rows.size(0)) : rows.size(0);
  set.features = rows.slice(0, 0, n);
  set.samples = n;
  set.dimension = rows.size(1);
  require_finite_features(set.features, given);
  if (n > set.dimension) set.gaussian = gaussian_of(set);
  return set;
}

FeatureSet FeatureSetReader::from_dataset(const std::string& given, const std::string& id,
                                          const std::string& part) {
  const Definition definition = load_definition(id, "cpu");
  if (part == "exact" && definition.data.name != "gmm16") {
    throw bad_input(given, "", "the distribution of " + definition.data.name + " is not known",
                    "gmm16:exact");
  }
  const auto dataset = open_dataset(definition, options_.data);
  if (part == "exact") {
    TORCH_CHECK(dataset->mixture() != nullptr, "gmm16 without its mixture");
    FeatureSet set;
    set.name = given;
    set.exact = true;
    set.mixture = {dataset, dataset->mixture()};  // the dataset owns it
    set.gaussian = exact_gaussian(*set.mixture);
    set.dimension = set.gaussian->dimension();
    return set;
  }
  const Split split = part == "train" ? Split::kTrain : Split::kTest;
  return from_images(given, *open_dataset_images(dataset, split, definition_sha256(definition)));
}

FeatureSet FeatureSetReader::from_images(const std::string& given, const ImageSet& pictures) {
  FeatureSet set;
  set.name = given;
  set.channels = pictures.channels();
  set.extractor = extractor().info();
  set.samples = options_.limit > 0 ? std::min(options_.limit, pictures.size()) : pictures.size();
  if (!pictures.note().empty()) set.notes.push_back(given + ": " + pictures.note());
  std::optional<FeatureCache> cache;
  if (!options_.cache.empty()) {
    cache.emplace(options_.cache, cache_key(*set.extractor, pictures.checksum(),
                                            options_.extractor_options.device, options_.batch));
  }

  std::optional<Moments> moments;
  std::vector<at::Tensor> kept;
  bool keeps = true;
  int64_t reused = 0;
  for (int64_t begin = 0; begin < set.samples; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, set.samples);
    if (options_.say) options_.say(fmt::format("{}: {} of {}", given, begin, set.samples));
    std::optional<at::Tensor> features = cache ? cache->load(begin, end) : std::nullopt;
    reused += features ? end - begin : 0;
    if (!features) {
      features = extract_range(extractor(), pictures, begin, end, options_.batch);
      require_finite_features(*features, given, begin);
      if (cache) cache->store(begin, end, *features);
    }
    if (begin == 0) {
      set.dimension = features->size(1);
      keeps = keep_features_ || set.samples <= set.dimension;
      if (set.samples > set.dimension) moments.emplace(set.dimension);
    }
    if (moments) moments->add(*features);
    if (keeps) kept.push_back(*features);
  }
  if (keeps) set.features = at::cat(kept);
  if (moments) set.gaussian = moments->gaussian();
  if (reused > 0) {
    set.notes.push_back(
        fmt::format("{}: features of {} of {} images from the cache", given, reused, set.samples));
  }
  return set;
}

}  // namespace noisemark::suite
