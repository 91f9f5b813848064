#include "suite/quality/learned_features.h"

#include <utility>

#include "reports/error.h"
#include "suite/quality/cifarnet/network.h"
#include "suite/quality/inception/extractor.h"

namespace noisemark::suite {
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
