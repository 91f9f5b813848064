#pragma once

#include <filesystem>
#include <string>

#include "suite/run/pass_watch.h"
#include "suite/run/session.h"

namespace noisemark::suite {

struct SamplingPassOptions {
  Definition definition;     ///< as it was loaded
  SampleConfig sample;       ///< in force
  uint64_t seed = 0;         ///< in force
  Variant variant;           ///< its mode plays no part: nothing is kept for backward
  std::string weights;       ///< what read_sampling_weights() takes
  std::string kind;          ///< "model", "ema", or empty: what the definition evaluates
  at::Tensor initial_noise;  ///< [N, C, H, W] on the CPU, undefined: drawn by `seed`
  std::string noise_file;    ///< where it was read from
  int64_t batch = 16;
  std::filesystem::path out;  ///< made ready by prepare_sampling_folder()
};

/// Draws samples from trained weights in a model of its own and writes them to `out`. Says on
/// standard error when the weights were trained under another definition. Throws Error (exit codes
/// 1, 2 and 74) and, before anything is written, Interrupted.
void sampling_pass(const SamplingPassOptions& options, const PassWatch& watch);

}  // namespace noisemark::suite
