#pragma once

#include <filesystem>
#include <string>

#include "suite/config/definition.h"
#include "suite/io/safetensors.h"

namespace noisemark::suite {

/// Weights to sample from, and where they come from.
struct SamplingWeights {
  NamedTensors tensors;           ///< one for each name of a parameter
  std::string file;               ///< file that was read
  std::string kind;               ///< "model" or "ema"; empty: the file does not say
  std::string definition_sha256;  ///< definition of their training; empty: the file does not say
  std::string step;               ///< number of steps taken; empty: the file does not say
};

/// Weights from a file under the peers' names, a checkpoint, or the folder of a run (its weights,
/// their average, or, of a run that did not end, its checkpoint). `kind`, "model" or "ema", says
/// which of those that a checkpoint or folder holds; for a file that holds one kind it must be
/// empty or that kind, as far as the file's name says so. Empty means `otherwise`, where there is a
/// choice. Throws Error, exit code 2, naming what is missing.
[[nodiscard]] SamplingWeights read_sampling_weights(const std::filesystem::path& source,
                                                    const std::string& kind,
                                                    const std::string& otherwise);

/// Says in which keys of its model and its diffusion the training of the weights differs from
/// `definition`, or that it had another definition where the result of its run is not beside the
/// weights. It is empty where nothing differs that drawing depends on, or nothing is known.
[[nodiscard]] std::string other_training(const SamplingWeights& weights,
                                         const Definition& definition);

}  // namespace noisemark::suite
