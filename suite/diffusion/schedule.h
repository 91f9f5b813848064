#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "suite/config/definition.h"

namespace noisemark::suite {

/// The noise schedule: betas [T], float64 on the CPU, rounded exactly as the peer rounds them.
///   linear   Ho et al. 2020, section 4, stretched to T steps
///   cosine   Nichol & Dhariwal 2021, equation 17, s = 0.008
///   sigmoid  Jabri et al. 2022, from -3 to 3, tau = 1
/// Throws Error (exit code 2) for another name or T < 1.
[[nodiscard]] at::Tensor make_betas(const std::string& schedule, int64_t timesteps);

/// The 13 buffers of the peer's GaussianDiffusion, in its order: computed in float64, rounded to
/// float32, on the CPU. Throws Error (exit code 2) for an unknown schedule or objective, or a gamma
/// that is not positive.
[[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> make_schedule_buffers(
    const DiffusionConfig& config);

}  // namespace noisemark::suite
