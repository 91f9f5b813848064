// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include "baselines/kernels/attention.h"

#include "baselines/kernels/math.h"

namespace noisemark::baselines::kernels::NOISEMARK_LEVEL {
namespace {

// 16 numbers: one register of AVX-512, two of AVX2, four of SSE. Pass it by reference: how such a
// value would be passed depends on the instruction set.
using Vector = float __attribute__((vector_size(64)));
using VectorInMemory = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int64_t kLanes = 16;
constexpr int kParts = kHeadChannels / kLanes;
constexpr int kRows = 4;  // rows summed together, for which a row of `b` is read once
static_assert(kHeadChannels % kRows == 0);

/// e^difference; unlike exp_of(), NaN where the difference is not finite, so that one such query
/// or key shows in the result.
NOISEMARK_INLINE float weight_of(float difference) {
  return exp_of(difference) + 0.0f * difference;
}

template <int rows>
struct Sums {
  Vector of[rows][kParts] = {};

  /// Adds: of[r] += sum over j of w[j * w_step + r * w_row] * b[j * b_step + 0 ... 31]
  NOISEMARK_INLINE void add(const float* w, int64_t w_step, int64_t w_row, const float* b,
                            int64_t b_step, int64_t count) {
    for (int64_t j = 0; j < count; ++j, b += b_step, w += w_step) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const Vector values = *reinterpret_cast<const VectorInMemory*>(b + part * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) of[r][part] += values * w[r * w_row];
      }
    }
  }

  NOISEMARK_INLINE void store(float* to, int64_t row_step) const {
    for (int r = 0; r < rows; ++r) {
      for (int part = 0; part < kParts; ++part) {
        *reinterpret_cast<VectorInMemory*>(to + r * row_step + part * kLanes) = of[r][part];
      }
    }
  }
};

/// Calls `body` with the number of rows as a constant: kRows at a time, then one by one.
template <typename Body>
NOISEMARK_INLINE void in_groups(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kRows <= count; i += kRows) body.template operator()<kRows>(i);
  for (; i < count; ++i) body.template operator()<1>(i);
}

/// Says where one task's tokens are.
struct Head {
  Head(const Attention& job, int64_t task)
      : row(3 * job.heads * kHeadChannels),
        out_row(job.heads * kHeadChannels),
        q(job.qkv + task / job.heads * job.tokens * row + task % job.heads * kHeadChannels),
        k(q + out_row),
        v(k + out_row),
        memory_k(job.memory_k + task % job.heads * job.memory_tokens * kHeadChannels),
        memory_v(job.memory_v + task % job.heads * job.memory_tokens * kHeadChannels),
        out(job.out + task / job.heads * job.tokens * out_row + task % job.heads * kHeadChannels) {}

  int64_t row;      ///< floats from one token to the next
  int64_t out_row;  ///< the same of `out`
  const float* q;
  const float* k;
  const float* v;
  const float* memory_k;
  const float* memory_v;
  float* out;
};

// Linear attention. `weights` is [tokens, 32]: first e^(k - its largest), then softmax(q).

int64_t linear_scratch(const Attention& job) {
  return job.tokens * kHeadChannels;
}

/// e^(k - top) of all tokens, and its sums over them.
void weigh_keys(const Attention& job, const Head& head, float* weights, float* top, float* sum) {
  for (int64_t d = 0; d < kHeadChannels; ++d) {
    top[d] = head.k[d];
    sum[d] = 0;
    for (int64_t j = 0; j < job.memory_tokens; ++j) {
      const float key = head.memory_k[d * job.memory_tokens + j];
      top[d] = top[d] < key ? key : top[d];
    }
  }
  for (int64_t p = 0; p < job.tokens; ++p) {
    const float* k = head.k + p * head.row;
#pragma omp simd
    for (int64_t d = 0; d < kHeadChannels; ++d) top[d] = top[d] < k[d] ? k[d] : top[d];
  }
  for (int64_t p = 0; p < job.tokens; ++p) {
    const float* k = head.k + p * head.row;
    float* w = weights + p * kHeadChannels;
#pragma omp simd
    for (int64_t d = 0; d < kHeadChannels; ++d) {
      w[d] = weight_of(k[d] - top[d]);
      sum[d] += w[d];
    }
  }
}

/// context [32, 32]: softmax_tokens(k) v^T, with the memory's tokens, times scale.
void linear_context(const Attention& job, const Head& head, float* weights, float* context) {
  float top[kHeadChannels];
  float sum[kHeadChannels];
  weigh_keys(job, head, weights, top, sum);
  for (int64_t d = 0; d < kHeadChannels; d += kRows) {
    Sums<kRows> sums;
    sums.add(weights + d, kHeadChannels, 1, head.v, head.row, job.tokens);
    sums.store(context + d * kHeadChannels, kHeadChannels);
  }
  for (int64_t d = 0; d < kHeadChannels; ++d) {
    float* to = context + d * kHeadChannels;
    for (int64_t j = 0; j < job.memory_tokens; ++j) {
      const float w = weight_of(head.memory_k[d * job.memory_tokens + j] - top[d]);
      sum[d] += w;
      for (int64_t e = 0; e < kHeadChannels; ++e) {
        to[e] += w * head.memory_v[e * job.memory_tokens + j];
      }
    }
    const float factor = job.scale / sum[d];
    for (int64_t e = 0; e < kHeadChannels; ++e) to[e] *= factor;
  }
}

void softmax_of_queries(const Attention& job, const Head& head, float* weights) {
  for (int64_t p = 0; p < job.tokens; ++p) {
    const float* q = head.q + p * head.row;
    float* w = weights + p * kHeadChannels;
    float top = q[0];
#pragma omp simd reduction(max : top)
    for (int64_t d = 0; d < kHeadChannels; ++d) top = top < q[d] ? q[d] : top;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < kHeadChannels; ++d) {
      w[d] = weight_of(q[d] - top);
      sum += w[d];
    }
    const float factor = 1.0f / sum;
#pragma omp simd
    for (int64_t d = 0; d < kHeadChannels; ++d) w[d] *= factor;
  }
}

void linear(const Attention& job, int64_t begin, int64_t end, float* scratch) {
  float context[kHeadChannels * kHeadChannels];
  for (int64_t task = begin; task < end; ++task) {
    const Head head(job, task);
    linear_context(job, head, scratch, context);
    softmax_of_queries(job, head, scratch);
    in_groups(job.tokens, [&]<int rows>(int64_t p) {
      Sums<rows> sums;
      sums.add(scratch + p * kHeadChannels, 1, kHeadChannels, context, kHeadChannels,
               kHeadChannels);
      sums.store(head.out + p * head.out_row, head.out_row);
    });
  }
}

// Softmax attention. Keys are turned to [32, keys], so that the scores of a query are sums of rows.

int64_t padded_keys(const Attention& job) {
  const int64_t keys = job.memory_tokens + job.tokens;
  return (keys + kHeadChannels - 1) / kHeadChannels * kHeadChannels;
}

int64_t softmax_scratch(const Attention& job) {
  return padded_keys(job) * (kHeadChannels + kRows);
}

void turn_keys(const Attention& job, const Head& head, float* turned) {
  const int64_t padded = padded_keys(job);
  for (int64_t d = 0; d < kHeadChannels; ++d) {
    float* to = turned + d * padded;
    int64_t at = 0;
    for (int64_t j = 0; j < job.memory_tokens; ++j) to[at++] = head.memory_k[j * kHeadChannels + d];
    for (int64_t p = 0; p < job.tokens; ++p) to[at++] = head.k[p * head.row + d];
    while (at < padded) to[at++] = 0;
  }
}

void softmax_of_scores(float* scores, int64_t keys, float scale) {
  float top = scores[0];
#pragma omp simd reduction(max : top)
  for (int64_t j = 0; j < keys; ++j) top = top < scores[j] ? scores[j] : top;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < keys; ++j) {
    scores[j] = weight_of((scores[j] - top) * scale);
    sum += scores[j];
  }
  const float factor = 1.0f / sum;
#pragma omp simd
  for (int64_t j = 0; j < keys; ++j) scores[j] *= factor;
}

/// Holds the queries p ... p + rows - 1.
template <int rows>
NOISEMARK_INLINE void answer(const Attention& job, const Head& head, int64_t p, const float* turned,
                             float* scores) {
  const int64_t padded = padded_keys(job);
  for (int64_t first = 0; first < padded; first += kHeadChannels) {
    Sums<rows> sums;
    sums.add(head.q + p * head.row, 1, head.row, turned + first, padded, kHeadChannels);
    sums.store(scores + first, padded);
  }
  for (int r = 0; r < rows; ++r) {
    softmax_of_scores(scores + r * padded, job.memory_tokens + job.tokens, job.scale);
  }
  Sums<rows> sums;
  sums.add(scores, 1, padded, head.memory_v, kHeadChannels, job.memory_tokens);
  sums.add(scores + job.memory_tokens, 1, padded, head.v, head.row, job.tokens);
  sums.store(head.out + p * head.out_row, head.out_row);
}

void softmax(const Attention& job, int64_t begin, int64_t end, float* scratch) {
  float* scores = scratch + padded_keys(job) * kHeadChannels;
  for (int64_t task = begin; task < end; ++task) {
    const Head head(job, task);
    turn_keys(job, head, scratch);
    in_groups(job.tokens,
              [&]<int rows>(int64_t p) { answer<rows>(job, head, p, scratch, scores); });
  }
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {{linear_scratch, linear}, {softmax_scratch, softmax}};

}  // namespace noisemark::baselines::kernels::NOISEMARK_LEVEL
