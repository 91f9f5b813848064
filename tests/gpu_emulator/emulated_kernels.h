#pragma once

#include <cstdint>

#include "baselines/kernels/group_norm.h"
#include "baselines/kernels/rms_norm.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/replay/kernels/norm_chain.h"
#include "memopt/replay/sample_device.h"

/// The kernels' sources as emulated, under names of their own: memopt/cuda/*.h and
/// baselines/cuda/norms.h have the contracts.

namespace noisemark::memopt::codecs {
[[nodiscard]] const CodecDevice& emulated_codec_device();
}  // namespace noisemark::memopt::codecs

namespace noisemark::memopt::replay {
void run_emulated_norm_chain(const NormChain& job);
[[nodiscard]] const SampleDevice& emulated_sample_device();
}  // namespace noisemark::memopt::replay

namespace noisemark::baselines::kernels::emulated {

void forward(const GroupNorm<float>& job);
void forward(const GroupNorm<BFloat16>& job);
void from_statistics(const GroupNorm<float>& job);
void from_statistics(const GroupNorm<BFloat16>& job);
void backward(const GroupNorm<float>& job);
void backward(const GroupNorm<BFloat16>& job);

void forward(const RmsNorm<float>& job);
void forward(const RmsNorm<BFloat16>& job);
void from_statistics(const RmsNorm<float>& job);
void from_statistics(const RmsNorm<BFloat16>& job);
void backward(const RmsNorm<float>& job);
void backward(const RmsNorm<BFloat16>& job);

[[nodiscard]] int64_t groups_per_task(const Shape& shape, int64_t groups, int64_t element_bytes);

}  // namespace noisemark::baselines::kernels::emulated
