#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "suite/config/definition.h"
#include "suite/sampling/weights.h"

/// A folder of samples:
///   pictures/00000.png ...   one picture a sample, and nothing else
///   sheet.png                the first of them side by side
///   samples.npy              all of them, float32 [N, C, H, W], not rounded
///   sampling.json            where they come from; the last to arrive
namespace noisemark::suite {

/// What sampling.json says besides the files' checksums.
struct SamplingRecord {
  Definition definition;  ///< as it was loaded
  SampleConfig sample;    ///< in force
  uint64_t seed = 0;      ///< in force
  SamplingWeights weights;
  std::string weights_sha256;  ///< of the tensors in the model's order
  std::string noise_file;      ///< where x_T was read from; empty: drawn
  std::string noise_sha256;    ///< of x_T as float32, row-major
  std::string baseline;
  std::string precision;
  std::string device;
  int64_t threads = 0;
  int64_t batch = 0;
  double sampling_s = 0;  ///< without reading weights and writing files
};

/// Makes the folder ready. Throws Error: exit code 2 unless it is new, empty or, with `force`,
/// holds nothing but an earlier sampling's files; exit code 74 when it cannot be made.
void prepare_sampling_folder(const std::filesystem::path& folder, bool force);

/// Writes `samples` [N, C, H, W] with 1 or 3 channels into a folder that was made ready, in the
/// place of an earlier sampling's files. Throws Error, exit code 74, when something cannot be
/// written: then there is no sampling.json.
void write_sampling_folder(const std::filesystem::path& folder, const at::Tensor& samples,
                           const SamplingRecord& record);

/// Throws Error (exit code 2) unless samples of this model can be written as pictures.
void require_picture_channels(const Definition& definition);

}  // namespace noisemark::suite
