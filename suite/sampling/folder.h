#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "reports/seeds/distance_file.h"
#include "suite/config/definition.h"
#include "suite/sampling/patches.h"
#include "suite/sampling/weights.h"

namespace noisemark::suite {

/// Samples [N, C, H, W] with values in [-1, 1] -> [N, H, W, C] uint8, row-major on the CPU: rounded
/// to the nearest of the 256 values that the data have, clamped to the first and last.
[[nodiscard]] at::Tensor to_pixels(const at::Tensor& samples);

inline constexpr int64_t kSheetTiles = 64;

/// The first kSheetTiles of `pixels` [N, H, W, C] as one image [H', W', C]: as many columns as
/// rows or one more, small images enlarged by a whole number without smoothing, on white.
[[nodiscard]] at::Tensor contact_sheet(const at::Tensor& pixels);

/// A folder of samples:
///   pictures/00000.png ...   one image a sample, and nothing else
///   sheet.png                the first of them side by side
///   samples.npy              all of them, float32 [N, C, H, W], not rounded
///   sampling.json            where they come from; the last to arrive

inline constexpr const char* kPicturesFolder = "pictures";
inline constexpr std::array<const char*, 3> kSamplingFiles = {"sampling.json", "samples.npy",
                                                              "sheet.png"};

/// The contents of sampling.json besides the files' checksums.
struct SamplingRecord {
  Definition definition;  ///< definition that was loaded
  SampleConfig sample;    ///< settings in force
  uint64_t seed = 0;      ///< seed in force
  SamplingWeights weights;
  std::string weights_sha256;  ///< hash of the tensors in the model's order
  std::string noise_file;      ///< file that x_T was read from; empty: drawn
  std::string noise_sha256;    ///< hash of x_T as float32, row-major
  std::string baseline;
  std::string precision;
  std::string device;
  int64_t threads = 0;
  int64_t batch = 0;
  std::optional<PatchRecord> patches;  ///< cost of several ranks; empty: one
  double sampling_s = 0;               ///< time without reading weights and writing files
};

/// Makes the folder ready. Throws Error: exit code 2 unless it is new, empty or, with `force`,
/// holds nothing but the files of earlier samplings, killed ones among them; exit code 74 when it
/// cannot be made.
void prepare_sampling_folder(const std::filesystem::path& folder, bool force);

/// Writes `samples` [N, C, H, W] with 1 or 3 channels into a folder that was made ready, in the
/// place of an earlier sampling's files, which go only when all is written. Throws Error, exit code
/// 74, when something cannot be written: then the folder is as it was.
void write_sampling_folder(const std::filesystem::path& folder, const at::Tensor& samples,
                           const SamplingRecord& record);

/// Throws Error (exit code 2) unless samples of this model can be written as images.
void require_picture_channels(const Definition& definition);

/// The origin of a set of samples, as the sampling.json beside it says.
struct SamplingOrigin {
  /// "ddim, 50 steps, eta 0, averaged (EMA) weights 0123456789ab, seed 7, fp32"
  std::string words;
  reports::DrawnSamples drawn;  ///< contents of sampling.json
};

/// Reads the origin of the pictures/ or samples.npy of a sampling's folder; nothing where there is
/// no sampling.json beside it, and where that is of fewer samples than `count`. `sha256` is that of
/// all the images in pictures/ (ImageSet::checksum()); samples.npy is read for its own. Throws
/// Error (exit code 2) where it cannot be understood, and where what is there now are not the
/// samples that it speaks of.
[[nodiscard]] std::optional<SamplingOrigin> sampling_origin(const std::filesystem::path& samples,
                                                            int64_t count,
                                                            const std::string& sha256 = "");

}  // namespace noisemark::suite
