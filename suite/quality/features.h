#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <string_view>

#include "reports/seeds/distance_file.h"

namespace noisemark::suite {

/// The identity of an extractor: two sets of features are comparable where it is equal.
using ExtractorInfo = reports::DistanceFile::Extractor;

/// Says whether features of both may be compared: all but `provenance`.
[[nodiscard]] bool same_extractor(const ExtractorInfo& a, const ExtractorInfo& b);
/// One line of JSON, and back. Throws Error, exit code 2, beginning with `where`.
[[nodiscard]] std::string extractor_json(const ExtractorInfo& info);
[[nodiscard]] ExtractorInfo parse_extractor(std::string_view json, const std::string& where);

/// Images to vectors. One thread at a time.
class FeatureExtractor {
 public:
  virtual ~FeatureExtractor() = default;

  [[nodiscard]] virtual const ExtractorInfo& info() const = 0;

  /// `pictures` uint8 [N, 3, H, W] on the CPU, row-major (gray images have three equal channels) ->
  /// [N, d], float32 or float64, on any device. Row i depends on image i alone, whatever N is.
  /// Throws Error, exit code 2, for a size that it does not take.
  [[nodiscard]] virtual at::Tensor extract(const at::Tensor& images) = 0;

  /// Class logits [N, classes] of features [N, d] that extract() gave, without the last layer's
  /// bias, for the Inception score. It is undefined where the network tells no classes.
  [[nodiscard]] virtual at::Tensor logits(const at::Tensor& /*features*/) const { return {}; }
};

struct ExtractorOptions {
  std::string weights;  ///< file; empty: what the extractor ships, or finds in `data`
  std::string data;     ///< folder of a dataset's files, where weights may lie too
  std::string resize;   ///< is empty for the extractor's own
  at::Device device = at::kCPU;
};

/// Makes one of kExtractors (suite/config/definition.h). Throws Error: exit code 2 for another
/// name, with the nearest, for options that it has no use for or weights that are not its own; exit
/// code 77 where weights are needed and none are given, saying where they come from.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_extractor(const std::string& name,
                                                               const ExtractorOptions& options);

/// "pixels": the image itself, channel by channel, u / 255 * 2 - 1, as the model sees it;
/// float32. d = 3 H W. Nothing is learned, so its distance sees brightness, colour and blur, and no
/// content.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_pixels(const ExtractorOptions& options);

/// Extractors with learned weights.

/// "inception": the 2048 features of FID's Inception network, of weights that
/// the user supplies: `options.weights`, or a file of the usual name in `options.data`. Resize
/// "tf1-bilinear" (the default, as torch-fidelity) or "bilinear" (as pytorch-fid). The distance is
/// called FID with the weights of 2015-12-05 alone.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_inception(const ExtractorOptions& options);

/// "cifarnet": the 144 features of a small network that is part of the program,
/// for small photographs. Nothing is resized. The distance is never FID.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_cifarnet(const ExtractorOptions& options);

}  // namespace noisemark::suite
