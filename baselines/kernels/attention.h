#pragma once

#include "baselines/kernels/types.h"

namespace noisemark::baselines::kernels {

/// The one number of channels of a head that the kernels are written for.
inline constexpr int64_t kHeadChannels = 32;

/// Both kinds of attention of lucidrains' U-Net, without what a backward pass would need. A task is
/// one head of one sample; tasks are independent. Memory tokens are learned keys and values that
/// stand before the others.
struct Attention {
  int64_t samples = 0;
  int64_t heads = 0;
  int64_t tokens = 0;  ///< is at least 1
  int64_t memory_tokens = 0;
  float scale = 1;                  ///< factor of the queries, above 0
  const float* qkv = nullptr;       ///< [samples, tokens, 3, heads, 32]
  const float* memory_k = nullptr;  ///< linear: [heads, 32, memory_tokens], softmax: [heads,
                                    ///< memory_tokens, 32]
  const float* memory_v = nullptr;  ///< has memory_k's shapes
  float* out = nullptr;             ///< [samples, tokens, heads, 32]

  [[nodiscard]] constexpr int64_t tasks() const { return samples * heads; }
};

/// One kind: the tasks [begin, end), with `scratch_floats(job)` floats that nobody else uses.
struct AttentionKernel {
  int64_t (*scratch_floats)(const Attention& job);
  void (*forward)(const Attention& job, int64_t begin, int64_t end, float* scratch);
};

struct AttentionKernels {
  /// out = softmax_d(q) scale * (softmax_tokens(k) v^T), Shen et al. 2021.
  AttentionKernel linear;
  /// out = softmax_tokens(q k^T scale) v, Vaswani et al. 2017.
  AttentionKernel softmax;
};

/// `level` at most current_cpu_level().
[[nodiscard]] const AttentionKernels& attention_kernels(Level level);

}  // namespace noisemark::baselines::kernels
