#pragma once

#include <memory>

#include "suite/quality/features.h"

/// Extractors with learned weights.
namespace noisemark::suite {

/// "inception": the 2048 features of FID's Inception network, of weights that
/// the user supplies: `options.weights`, or a file of the usual name in `options.data`. Resize
/// "tf1-bilinear" (the default, as torch-fidelity) or "bilinear" (as pytorch-fid). The distance is
/// called FID with the weights of 2015-12-05 alone.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_inception(const ExtractorOptions& options);

/// "cifarnet": the 144 features of a small network that is part of the program,
/// for small photographs. Nothing is resized. The distance is never FID.
[[nodiscard]] std::unique_ptr<FeatureExtractor> make_cifarnet(const ExtractorOptions& options);

}  // namespace noisemark::suite
