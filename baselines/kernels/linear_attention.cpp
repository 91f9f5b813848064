// Compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come from CMake.
#include "baselines/kernels/linear_attention.h"

#include "baselines/kernels/math.h"

namespace noisemark::baselines::kernels::NOISEMARK_LEVEL {
namespace {

// Tokens are worked on in tiles [kTile, W] of float32, one row per token, W the head's channels
// rounded up to a power of two from 16, so that every inner loop has a constant length. Padding is
// zero in every tile and every matrix, and never stored.

constexpr int64_t kTile = 64;

template <int W>
using Tile = float[kTile][W];
template <int W>
using Square = float[W][W];

constexpr int kRows = 4;

/// c[m][n] += sum over k < depth of a(m, k) * b[k][n], for all m < height and n < W.
template <int W, typename A>
NOISEMARK_INLINE void multiply_add(float (*c)[W], int64_t height, int64_t depth, const A& a,
                                   const float (*b)[W]) {
  for (int64_t m = 0; m < height; m += kRows) {
    float sum[kRows][W];
    for (int r = 0; r < kRows; ++r) {
#pragma omp simd
      for (int n = 0; n < W; ++n) sum[r][n] = c[m + r][n];
    }
    for (int64_t k = 0; k < depth; ++k) {
      for (int r = 0; r < kRows; ++r) {
        const float factor = a(m + r, k);
#pragma omp simd
        for (int n = 0; n < W; ++n) sum[r][n] += factor * b[k][n];
      }
    }
    for (int r = 0; r < kRows; ++r) {
#pragma omp simd
      for (int n = 0; n < W; ++n) c[m + r][n] = sum[r][n];
    }
  }
}

/// c += transpose(a) * b over the rows of two tiles.
template <int W>
void add_outer_products(Square<W>& c, const Tile<W>& a, const Tile<W>& b, int64_t rows) {
  multiply_add<W>(
      c, W, rows, [&](int64_t m, int64_t k) { return a[k][m]; }, b);
}

/// c = a * b for all rows of a tile, the unused ones too.
template <int W>
void apply(Tile<W>& c, const Tile<W>& a, const Square<W>& b) {
  for (auto& row : c) {
#pragma omp simd
    for (int n = 0; n < W; ++n) row[n] = 0;
  }
  multiply_add<W>(
      c, kTile, W, [&](int64_t m, int64_t k) { return a[m][k]; }, b);
}

template <int W>
void transpose(Square<W>& to, const Square<W>& from) {
  for (int i = 0; i < W; ++i) {
    for (int j = 0; j < W; ++j) to[i][j] = from[j][i];
  }
}

/// Where one head's channels of one sample lie: channel c of pixel p is base[p * pixel + c *
/// channel].
template <typename T>
struct Part {
  T* base;
  int64_t pixel;
  int64_t channel;
};

/// Part `index` of `parts` (queries, keys, values; or the whole) of task's head.
template <typename T, typename Job>
Part<T> part_of(T* values, const Job& job, int64_t task, int64_t index, int64_t parts) {
  const int64_t sample = task / job.heads;
  const int64_t channels = parts * job.heads * job.width();
  const int64_t first = (index * job.heads + task % job.heads) * job.width();
  T* base = values + sample * channels * job.shape.pixels;
  if (job.shape.channels_last) return {base + first, channels, 1};
  return {base + first * job.shape.pixels, 1, job.shape.pixels};
}

/// Rows and columns beyond the part become zero.
template <int W, typename T>
void load_tile(Tile<W>& tile, const Part<const T>& part, int64_t first, int64_t rows,
               int64_t width) {
  for (int64_t t = 0; t < kTile; ++t) {
#pragma omp simd
    for (int c = 0; c < W; ++c) tile[t][c] = 0;
  }
  if (part.channel == 1) {
    for (int64_t t = 0; t < rows; ++t) {
      const T* row = part.base + (first + t) * part.pixel;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) tile[t][c] = load(row[c]);
    }
  } else {
    for (int64_t c = 0; c < width; ++c) {
      const T* column = part.base + first + c * part.channel;
      for (int64_t t = 0; t < rows; ++t) tile[t][c] = load(column[t]);
    }
  }
}

template <int W, typename T>
void store_tile(const Part<T>& part, const Tile<W>& tile, int64_t first, int64_t rows,
                int64_t width) {
  if (part.channel == 1) {
    for (int64_t t = 0; t < rows; ++t) {
      T* row = part.base + (first + t) * part.pixel;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) store(row[c], tile[t][c]);
    }
  } else {
    for (int64_t c = 0; c < width; ++c) {
      T* column = part.base + first + c * part.channel;
      for (int64_t t = 0; t < rows; ++t) store(column[t], tile[t][c]);
    }
  }
}

/// Softmax of every row over its first `width` channels, times `scale`.
template <int W>
void softmax_rows(Tile<W>& tile, int64_t rows, int64_t width, float scale) {
  for (int64_t t = 0; t < rows; ++t) {
    float largest = tile[t][0];
#pragma omp simd reduction(max : largest)
    for (int64_t c = 0; c < width; ++c) largest = tile[t][c] > largest ? tile[t][c] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; ++c) {
      tile[t][c] = exp_of(tile[t][c] - largest) + (tile[t][c] - tile[t][c]);
      sum += tile[t][c];
    }
    const float factor = scale / sum;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) tile[t][c] *= factor;
  }
}

/// One head of one sample.
template <typename T>
struct Head {
  const LinearAttention<T>& job;
  int64_t width, pixels, tokens;
  Part<const T> q, k, v;
  const float* memory_k;  // [width, tokens]
  const float* memory_v;
  float* context;
  float* key_max;
  float* key_sum;
  float scale;

  Head(const LinearAttention<T>& task_job, int64_t task)
      : job(task_job),
        width(job.width()),
        pixels(job.shape.pixels),
        tokens(job.tokens),
        q(part_of(job.qkv, job, task, 0, 3)),
        k(part_of(job.qkv, job, task, 1, 3)),
        v(part_of(job.qkv, job, task, 2, 3)),
        memory_k(job.memory + task % job.heads * width * tokens),
        memory_v(memory_k + job.heads * width * tokens),
        context(job.context + task * width * width),
        key_max(job.key_max + task * width),
        key_sum(job.key_sum + task * width),
        scale(1.0f / __builtin_sqrtf(static_cast<float>(width))) {}
};

/// A learned token's keys or values as a tile's rows.
template <int W>
int64_t load_memory(Tile<W>& tile, const float* memory, int64_t first, int64_t tokens,
                    int64_t width) {
  const int64_t rows = smaller(kTile, tokens - first);
  for (int64_t t = 0; t < kTile; ++t) {
    for (int c = 0; c < W; ++c) {
      tile[t][c] = t < rows && c < width ? memory[c * tokens + first + t] : 0.0f;
    }
  }
  return rows;
}

/// Calls body(keys or values tile loader) for every tile of tokens: the learned, then the pixels.
template <int W, typename T, typename Body>
void for_each_token_tile(const Head<T>& head, const Body& body) {
  Tile<W> k;
  Tile<W> v;
  for (int64_t first = 0; first < head.tokens; first += kTile) {
    const int64_t rows = load_memory<W>(k, head.memory_k, first, head.tokens, head.width);
    load_memory<W>(v, head.memory_v, first, head.tokens, head.width);
    body(k, v, first, rows, true);
  }
  for (int64_t first = 0; first < head.pixels; first += kTile) {
    const int64_t rows = smaller(kTile, head.pixels - first);
    load_tile<W>(k, head.k, first, rows, head.width);
    load_tile<W>(v, head.v, first, rows, head.width);
    body(k, v, first, rows, false);
  }
}

/// The largest key of every channel; may pass over a NaN, which exp_rows() brings back.
template <int W, typename T>
void find_key_max(const Head<T>& head, float (&largest)[W]) {
  for (int c = 0; c < W; ++c) largest[c] = -__builtin_inff();
  for_each_token_tile<W>(head, [&](const Tile<W>& k, const Tile<W>&, int64_t, int64_t rows, bool) {
    for (int64_t t = 0; t < rows; ++t) {
#pragma omp simd
      for (int c = 0; c < W; ++c) largest[c] = k[t][c] <= largest[c] ? largest[c] : k[t][c];
    }
  });
}

/// k becomes exp(k - largest).
template <int W>
void exp_rows(Tile<W>& k, const float (&largest)[W], int64_t rows, int64_t width) {
  for (int64_t t = 0; t < rows; ++t) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      const float d = k[t][c] - largest[c];
      k[t][c] = exp_of(d) + (d - d);  // d - d is zero, and NaN where exp_of would hide one
    }
  }
}

template <int W, typename T>
void forward_task(const LinearAttention<T>& job, int64_t task) {
  const Head<T> head(job, task);
  float largest[W];
  float sum[W] = {};
  Square<W> context = {};
  find_key_max<W>(head, largest);
  for_each_token_tile<W>(head, [&](Tile<W>& k, const Tile<W>& v, int64_t, int64_t rows, bool) {
    exp_rows<W>(k, largest, rows, head.width);
    for (int64_t t = 0; t < rows; ++t) {
#pragma omp simd
      for (int c = 0; c < W; ++c) sum[c] += k[t][c];
    }
    add_outer_products<W>(context, k, v, rows);
  });
  for (int64_t c = 0; c < head.width; ++c) {
    head.key_max[c] = largest[c];
    head.key_sum[c] = sum[c];
    for (int64_t e = 0; e < head.width; ++e) {
      context[c][e] /= sum[c];
      head.context[c * head.width + e] = context[c][e];
    }
  }
  const Part<T> out = part_of(job.out, job, task, 0, 1);
  Tile<W> q;
  Tile<W> result;
  for (int64_t first = 0; first < head.pixels; first += kTile) {
    const int64_t rows = smaller(kTile, head.pixels - first);
    load_tile<W>(q, head.q, first, rows, head.width);
    softmax_rows<W>(q, rows, head.width, head.scale);
    apply<W>(result, q, context);
    store_tile<W>(out, result, first, rows, head.width);
  }
}

/// Gradients of the queries; adds up that of the context.
template <int W, typename T>
void backward_queries(const Head<T>& head, int64_t task, const Square<W>& context_t,
                      Square<W>& dcontext) {
  const Part<const T> dout = part_of(head.job.dout, head.job, task, 0, 1);
  const Part<T> dq = part_of(head.job.dqkv, head.job, task, 0, 3);
  Tile<W> q;
  Tile<W> d;
  Tile<W> gradient;
  for (int64_t first = 0; first < head.pixels; first += kTile) {
    const int64_t rows = smaller(kTile, head.pixels - first);
    load_tile<W>(q, head.q, first, rows, head.width);
    load_tile<W>(d, dout, first, rows, head.width);
    softmax_rows<W>(q, rows, head.width, head.scale);
    add_outer_products<W>(dcontext, q, d, rows);
    apply<W>(gradient, d, context_t);
    const float unscale = 1.0f / head.scale;  // the softmax's rows sum to `scale` here
    for (int64_t t = 0; t < rows; ++t) {
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int c = 0; c < W; ++c) dot += gradient[t][c] * q[t][c];
      dot *= unscale;
#pragma omp simd
      for (int c = 0; c < W; ++c) gradient[t][c] = q[t][c] * (gradient[t][c] - dot);
    }
    store_tile<W>(dq, gradient, first, rows, head.width);
  }
}

/// A tile of gradients of learned tokens, [width, tokens].
template <int W>
void store_memory(float* memory, const Tile<W>& tile, int64_t first, int64_t rows, int64_t tokens,
                  int64_t width) {
  for (int64_t c = 0; c < width; ++c) {
    for (int64_t t = 0; t < rows; ++t) memory[c * tokens + first + t] = tile[t][c];
  }
}

/// Gradients of keys and values, learned ones too.
template <int W, typename T>
void backward_tokens(const Head<T>& head, int64_t task, const Square<W>& context,
                     const Square<W>& dcontext) {
  const LinearAttention<T>& job = head.job;
  const Part<T> dk_part = part_of(job.dqkv, job, task, 1, 3);
  const Part<T> dv_part = part_of(job.dqkv, job, task, 2, 3);
  const int64_t memory = head.width * head.tokens;
  float* dmemory_k = job.dmemory + (task / job.heads * 2 * job.heads + task % job.heads) * memory;
  float* dmemory_v = dmemory_k + job.heads * memory;
  Square<W> dcontext_t;
  transpose<W>(dcontext_t, dcontext);
  float largest[W] = {};
  float inverse_sum[W] = {};
  float pull[W] = {};  // sum over tokens of dk^ * k^
  for (int64_t c = 0; c < head.width; ++c) {
    largest[c] = head.key_max[c];
    inverse_sum[c] = 1.0f / head.key_sum[c];
    for (int64_t e = 0; e < head.width; ++e) pull[c] += dcontext[c][e] * context[c][e];
  }
  Tile<W> dk;
  Tile<W> dv;
  for_each_token_tile<W>(
      head, [&](Tile<W>& k, const Tile<W>& v, int64_t first, int64_t rows, bool learned) {
        exp_rows<W>(k, largest, rows, head.width);
        for (int64_t t = 0; t < rows; ++t) {
#pragma omp simd
          for (int c = 0; c < W; ++c) k[t][c] *= inverse_sum[c];
        }
        apply<W>(dk, v, dcontext_t);
        apply<W>(dv, k, dcontext);
        for (int64_t t = 0; t < rows; ++t) {
#pragma omp simd
          for (int c = 0; c < W; ++c) dk[t][c] = k[t][c] * (dk[t][c] - pull[c]);
        }
        if (learned) {
          store_memory<W>(dmemory_k, dk, first, rows, head.tokens, head.width);
          store_memory<W>(dmemory_v, dv, first, rows, head.tokens, head.width);
        } else {
          store_tile<W>(dk_part, dk, first, rows, head.width);
          store_tile<W>(dv_part, dv, first, rows, head.width);
        }
      });
}

template <int W, typename T>
void backward_task(const LinearAttention<T>& job, int64_t task) {
  const Head<T> head(job, task);
  Square<W> context = {};
  for (int64_t c = 0; c < head.width; ++c) {
    for (int64_t e = 0; e < head.width; ++e) context[c][e] = head.context[c * head.width + e];
  }
  Square<W> context_t;
  transpose<W>(context_t, context);
  Square<W> dcontext = {};
  backward_queries<W>(head, task, context_t, dcontext);
  backward_tokens<W>(head, task, context, dcontext);
}

template <typename T>
void forward(const LinearAttention<T>& job, int64_t begin, int64_t end) {
  const int64_t width = job.width();
  for (int64_t task = begin; task < end; ++task) {
    if (width <= 16) forward_task<16>(job, task);
    if (width > 16 && width <= 32) forward_task<32>(job, task);
    if (width > 32) forward_task<64>(job, task);
  }
}

template <typename T>
void backward(const LinearAttention<T>& job, int64_t begin, int64_t end) {
  const int64_t width = job.width();
  for (int64_t task = begin; task < end; ++task) {
    if (width <= 16) backward_task<16>(job, task);
    if (width > 16 && width <= 32) backward_task<32>(job, task);
    if (width > 32) backward_task<64>(job, task);
  }
}

}  // namespace

extern const LinearAttentionKernels kLinearAttention;
const LinearAttentionKernels kLinearAttention = {{forward<float>, backward<float>},
                                                 {forward<BFloat16>, backward<BFloat16>}};

}  // namespace noisemark::baselines::kernels::NOISEMARK_LEVEL
