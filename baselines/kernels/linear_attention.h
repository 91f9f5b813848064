#pragma once

#include "baselines/kernels/types.h"

namespace noisemark::baselines::kernels {

/// Linear attention (Katharopoulos et al. 2020; Shen et al. 2021) of every sample and head, with M
/// learned tokens in front of the P pixels:
///   q^ = softmax over channels of q, k^ = softmax over tokens of k,
///   context[c, e] = sum over tokens of k^[c] v[e], out[e] = scale * sum over c of context[c, e]
///   q^[c].
/// The queries, keys and values are three neighbouring parts of the channels of `qkv`, in each the
/// heads one after another. A task is one head of one sample; tasks are independent.
template <typename T>
struct LinearAttention {
  static constexpr int64_t kMaxWidth = 64;  ///< channels of a head at the most

  Shape shape;  ///< of qkv: channels = 3 * heads * width
  int64_t heads = 1;
  int64_t tokens = 0;  ///< M
  const T* qkv = nullptr;
  const float* memory = nullptr;  ///< [2, heads, width, M]: keys, values
  float* context = nullptr;       ///< [samples, heads, width, width], by forward, for backward
  float* key_max = nullptr;       ///< [samples, heads, width], the same
  float* key_sum = nullptr;       ///< [samples, heads, width], the same: of exp(k - key_max)
  T* out = nullptr;               ///< forward: like qkv with heads * width channels
  const T* dout = nullptr;        ///< backward: gradient of out
  T* dqkv = nullptr;              ///< backward
  float* dmemory = nullptr;       ///< backward, [samples, 2, heads, width, M]: to be summed

  [[nodiscard]] constexpr int64_t width() const { return shape.channels / (3 * heads); }
  [[nodiscard]] constexpr int64_t tasks_per_sample() const { return heads; }
};

/// Each function does the tasks [begin, end) of samples * tasks_per_sample().
template <typename T>
struct LinearAttentionPair {
  void (*forward)(const LinearAttention<T>& job, int64_t begin, int64_t end);
  void (*backward)(const LinearAttention<T>& job, int64_t begin, int64_t end);
};

struct LinearAttentionKernels {
  LinearAttentionPair<float> float32;
  LinearAttentionPair<BFloat16> bfloat16;

  template <typename T>
  [[nodiscard]] constexpr const LinearAttentionPair<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return float32;
    } else {
      return bfloat16;
    }
  }
};

/// `level` at most current_level().
[[nodiscard]] const LinearAttentionKernels& linear_attention_kernels(Level level);

}  // namespace noisemark::baselines::kernels
