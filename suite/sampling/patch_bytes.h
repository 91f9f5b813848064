#pragma once

#include <cstdint>

#include "suite/config/definition.h"

namespace noisemark::suite {

/// The elements that one rank of `ranks` gives to the others in one evaluation of the network on
/// B = `batch` images [B, C, H, W], each computed in bands of rows. By layer, from the definition
/// alone:
/// - a convolution of reach p, but for the network's first: 2 B C_in p W
/// - a convolution of stride 2, padded below and to the right: B C_in (W + 1)
/// - a group norm: 2 B groups
/// - attention: B (H / ranks) W, times the channels of keys and values
/// - the output: B C (H / ranks) W
struct PatchElements {
  int64_t layers = 0;
  int64_t output = 0;
};

[[nodiscard]] PatchElements patch_elements(const ModelConfig& model, int64_t batch, int64_t ranks);

}  // namespace noisemark::suite
