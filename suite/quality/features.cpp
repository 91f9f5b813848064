#include "suite/quality/features.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/json_writer.h"
#include "reports/base/sha256.h"
#include "suite/config/definition.h"
#include "suite/quality/cifarnet/network.h"
#include "suite/quality/inception/extractor.h"

namespace noisemark::suite {
namespace {

/// The makers in the order of kExtractors.
constexpr std::array kMakers{make_pixels, make_cifarnet, make_inception};
static_assert(kMakers.size() == kExtractors.size(), "there is an extractor that nobody makes");

class Pixels final : public FeatureExtractor {
 public:
  Pixels() {
    info_.name = "pixels";
    info_.distance = "pixel Fréchet distance";
    info_.checksum = reports::sha256_of("pixels v1: uint8 [3, H, W] / 255 * 2 - 1 in float32");
    info_.resize = "none";
    info_.provenance = "no weights";
  }
  [[nodiscard]] const ExtractorInfo& info() const override { return info_; }
  // The order is that of pixel_value() in suite/data/image_file.h, so the bits are the same.
  [[nodiscard]] at::Tensor extract(const at::Tensor& images) override {
    return images.flatten(1).to(at::kFloat) / 255.0 * 2.0 - 1.0;
  }

 private:
  ExtractorInfo info_;
};

}  // namespace

bool same_extractor(const ExtractorInfo& a, const ExtractorInfo& b) {
  return std::tie(a.name, a.distance, a.checksum, a.resize) ==
         std::tie(b.name, b.distance, b.checksum, b.resize);
}

std::string extractor_json(const ExtractorInfo& info) {
  return reports::json::tree_of(info).dump();
}

ExtractorInfo parse_extractor(std::string_view text, const std::string& where) {
  namespace json = reports::json;
  ExtractorInfo info;
  json::Reader(where, json::Bounds::kIgnored, json::UnknownKeys::kIgnored)
      .value(reports::parse_json(text, where), info, json::Path{nullptr, "extractor"});
  return info;
}

std::unique_ptr<FeatureExtractor> make_extractor(const std::string& name,
                                                 const ExtractorOptions& options) {
  for (size_t i = 0; i < kExtractors.size(); ++i) {
    if (kExtractors.at(i) == name) return kMakers.at(i)(options);
  }
  const std::vector<std::string> names(kExtractors.begin(), kExtractors.end());
  throw bad_input("--extractor", "", name, reports::accepted_names(name, names));
}

std::unique_ptr<FeatureExtractor> make_pixels(const ExtractorOptions& options) {
  if (!options.weights.empty()) {
    throw bad_input("--weights", "", options.weights, "none: the extractor pixels has no weights");
  }
  if (!options.resize.empty() && options.resize != "none") {
    throw bad_input("--resize", "", options.resize, "none, for the extractor pixels");
  }
  return std::make_unique<Pixels>();
}

namespace {

ExtractorInfo inception_info(const inception::Weights& weights, inception::Resize resize) {
  ExtractorInfo info;
  info.name = "inception";
  info.distance =
      weights.is_official() ? "FID" : "Fréchet distance on " + weights.name() + ", not FID";
  info.checksum = weights.tensors_sha256;
  info.resize = inception::resize_name(resize);
  info.provenance = weights.name();
  if (!weights.source_sha256.empty()) {
    info.provenance += ", converted from a file with SHA-256 " + weights.source_sha256;
  }
  return info;
}

class Inception final : public FeatureExtractor {
 public:
  Inception(const inception::Weights& weights, const inception::Settings& settings)
      : info_(inception_info(weights, settings.resize)), extractor_(weights, settings) {}

  [[nodiscard]] const ExtractorInfo& info() const override { return info_; }
  [[nodiscard]] at::Tensor extract(const at::Tensor& images) override {
    return extractor_.features(images);
  }
  [[nodiscard]] at::Tensor logits(const at::Tensor& features) const override {
    return extractor_.logits(features);
  }

 private:
  ExtractorInfo info_;
  inception::Extractor extractor_;
};

class CifarNet final : public FeatureExtractor {
 public:
  explicit CifarNet(at::Device device) : network_(cifarnet::Network::shipped(device)) {
    info_.name = "cifarnet";
    info_.distance = "cifarnet-v1 Fréchet distance";
    info_.checksum = cifarnet::kSha256;
    info_.resize = "none";
    info_.provenance = "part of Noisemark: suite/quality/cifarnet/README.md";
  }

  [[nodiscard]] const ExtractorInfo& info() const override { return info_; }
  [[nodiscard]] at::Tensor extract(const at::Tensor& images) override {
    return network_.features(images);
  }

 private:
  ExtractorInfo info_;
  cifarnet::Network network_;
};

}  // namespace

std::unique_ptr<FeatureExtractor> make_inception(const ExtractorOptions& options) {
  inception::Settings settings;
  settings.device = options.device;
  if (!options.resize.empty()) settings.resize = inception::resize_named(options.resize);
  const std::string path = inception::find_weights(options.weights, options.data);
  return std::make_unique<Inception>(inception::read_weights(path), settings);
}

std::unique_ptr<FeatureExtractor> make_cifarnet(const ExtractorOptions& options) {
  if (!options.weights.empty()) {
    throw bad_input("--weights", "", options.weights,
                    "none: the weights of the extractor cifarnet are part of the program");
  }
  if (!options.resize.empty() && options.resize != "none") {
    throw bad_input("--resize", "", options.resize, "none, for the extractor cifarnet");
  }
  return std::make_unique<CifarNet>(options.device);
}

}  // namespace noisemark::suite
