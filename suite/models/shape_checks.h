#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "suite/config/definition.h"

/// Checks that both U-Nets need. The first two throw Error (exit code 2) naming the key.
namespace noisemark::suite {

void check_positive(const std::string& key, int64_t value);

/// channels, dim (even, at least 4), dim_mults, dropout, and a resolution that can be halved once
/// per stage but the last.
void check_common_shape(const ModelConfig& config);

/// Programming errors: x is not [N, channels, H, W] with H and W multiples of `factor`, or t not
/// [N] int64.
void check_input(const at::Tensor& x, const at::Tensor& t, int64_t channels, int64_t factor);

}  // namespace noisemark::suite
