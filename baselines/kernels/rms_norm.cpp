// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include "baselines/kernels/rms_norm.h"

#include "baselines/kernels/math.h"

namespace noisemark::baselines::kernels::NOISEMARK_LEVEL {
namespace {

struct Range {
  int64_t sample;
  int64_t first_pixel;
  int64_t count;
};

template <typename T>
Range range_of(const RmsNorm<T>& job, int64_t task) {
  const int64_t first = task % job.tasks_per_sample() * RmsNorm<T>::kPixelsPerTask;
  return {task / job.tasks_per_sample(), first,
          smaller(RmsNorm<T>::kPixelsPerTask, job.shape.pixels - first)};
}

NOISEMARK_INLINE float inverse_of_norm(float square_sum, float eps) {
  const float norm = __builtin_sqrtf(square_sum);
  return 1.0f / (norm < eps ? eps : norm);
}

// dx = inverse * (dunit - unit * sum over channels of dunit * unit), dunit = dz * alpha. Where the
// norm was below eps it is a constant, and the second term is absent.
NOISEMARK_INLINE bool norm_is_constant(float inverse, float eps) {
  return inverse * eps >= 1.0f;
}

// Planes: [samples, channels, pixels]. One sweep over the channels for the norms of all pixels of
// the task, another to apply them.

/// y of the task's pixels.
template <Act act, typename T>
NOISEMARK_APART void apply_planes(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t pixels = job.shape.pixels;
  const int64_t begin = range.sample * job.shape.channels * pixels + range.first_pixel;
  const float* alpha = job.alpha + range.sample * job.row_stride;
  const float* beta = job.beta + range.sample * job.row_stride;
  const float* inverse = job.inverse_norm + range.sample * pixels + range.first_pixel;
  for (int64_t c = 0; c < job.shape.channels; ++c) {
    const T* x = job.x + begin + c * pixels;
    T* y = job.y + begin + c * pixels;
#pragma omp simd
    for (int64_t p = 0; p < range.count; ++p) {
      store(y[p], activate<act>(load(x[p]) * inverse[p] * alpha[c] + beta[c]));
    }
  }
}

template <Act act, typename T>
void forward_planes(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t pixels = job.shape.pixels;
  const float eps = static_cast<float>(job.eps);
  const int64_t begin = range.sample * job.shape.channels * pixels + range.first_pixel;
  float* inverse = job.inverse_norm + range.sample * pixels + range.first_pixel;
  float square_sum[RmsNorm<T>::kPixelsPerTask] = {};
  for (int64_t c = 0; c < job.shape.channels; ++c) {
    const T* x = job.x + begin + c * pixels;
#pragma omp simd
    for (int64_t p = 0; p < range.count; ++p) square_sum[p] += load(x[p]) * load(x[p]);
  }
#pragma omp simd
  for (int64_t p = 0; p < range.count; ++p) inverse[p] = inverse_of_norm(square_sum[p], eps);
  apply_planes<act>(job, task);
}

template <Act act, typename T>
void backward_planes(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t channels = job.shape.channels;
  const int64_t pixels = job.shape.pixels;
  const float eps = static_cast<float>(job.eps);
  const int64_t begin = range.sample * channels * pixels + range.first_pixel;
  const float* alpha = job.alpha + range.sample * job.row_stride;
  const float* beta = job.beta + range.sample * job.row_stride;
  const float* inverse = job.inverse_norm + range.sample * pixels + range.first_pixel;
  float dot[RmsNorm<T>::kPixelsPerTask] = {};
  for (int64_t c = 0; c < channels; ++c) {
    const T* x = job.x + begin + c * pixels;
    const T* dy = job.dy + begin + c * pixels;
    float sum = 0;
    float unit_sum = 0;
#pragma omp simd reduction(+ : sum, unit_sum)
    for (int64_t p = 0; p < range.count; ++p) {
      const float unit = load(x[p]) * inverse[p];
      const float dz = load(dy[p]) * slope<act>(unit * alpha[c] + beta[c]);
      sum += dz;
      unit_sum += dz * unit;
      dot[p] += dz * alpha[c] * unit;
    }
    job.dbeta[task * channels + c] = sum;
    job.dalpha[task * channels + c] = unit_sum;
  }
#pragma omp simd
  for (int64_t p = 0; p < range.count; ++p) {
    dot[p] = norm_is_constant(inverse[p], eps) ? 0.0f : dot[p];
  }
  for (int64_t c = 0; c < channels; ++c) {
    const T* x = job.x + begin + c * pixels;
    const T* dy = job.dy + begin + c * pixels;
    T* dx = job.dx + begin + c * pixels;
#pragma omp simd
    for (int64_t p = 0; p < range.count; ++p) {
      const float unit = load(x[p]) * inverse[p];
      const float dz = load(dy[p]) * slope<act>(unit * alpha[c] + beta[c]);
      store(dx[p], inverse[p] * (dz * alpha[c] - unit * dot[p]));
    }
  }
}

// Pixels: [samples, pixels, channels]. One pixel's channels are one run of memory.

/// y of one pixel.
template <Act act, typename T>
NOISEMARK_INLINE void apply_pixel(const T* x, T* y, int64_t channels, float inverse,
                                  const float* alpha, const float* beta) {
#pragma omp simd
  for (int64_t c = 0; c < channels; ++c) {
    store(y[c], activate<act>(load(x[c]) * inverse * alpha[c] + beta[c]));
  }
}

template <Act act, typename T>
void pixels_from_statistics(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t channels = job.shape.channels;
  const float* alpha = job.alpha + range.sample * job.row_stride;
  const float* beta = job.beta + range.sample * job.row_stride;
  const int64_t first = range.sample * job.shape.pixels + range.first_pixel;
  for (int64_t pixel = first; pixel < first + range.count; ++pixel) {
    apply_pixel<act>(job.x + pixel * channels, job.y + pixel * channels, channels,
                     job.inverse_norm[pixel], alpha, beta);
  }
}

template <Act act, typename T>
void forward_pixels(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t channels = job.shape.channels;
  const float eps = static_cast<float>(job.eps);
  const float* alpha = job.alpha + range.sample * job.row_stride;
  const float* beta = job.beta + range.sample * job.row_stride;
  const int64_t first = range.sample * job.shape.pixels + range.first_pixel;
  for (int64_t pixel = first; pixel < first + range.count; ++pixel) {
    const T* x = job.x + pixel * channels;
    float square_sum = 0;
#pragma omp simd reduction(+ : square_sum)
    for (int64_t c = 0; c < channels; ++c) square_sum += load(x[c]) * load(x[c]);
    const float inverse = inverse_of_norm(square_sum, eps);
    job.inverse_norm[pixel] = inverse;
    apply_pixel<act>(x, job.y + pixel * channels, channels, inverse, alpha, beta);
  }
}

template <Act act, typename T>
void backward_pixels(const RmsNorm<T>& job, int64_t task) {
  const Range range = range_of(job, task);
  const int64_t channels = job.shape.channels;
  const float eps = static_cast<float>(job.eps);
  const float* alpha = job.alpha + range.sample * job.row_stride;
  const float* beta = job.beta + range.sample * job.row_stride;
  float* dunit = job.scratch + task * channels;
  float* dbeta = job.dbeta + task * channels;
  float* dalpha = job.dalpha + task * channels;
#pragma omp simd
  for (int64_t c = 0; c < channels; ++c) dbeta[c] = dalpha[c] = 0;
  const int64_t first = range.sample * job.shape.pixels + range.first_pixel;
  for (int64_t pixel = first; pixel < first + range.count; ++pixel) {
    const T* x = job.x + pixel * channels;
    const T* dy = job.dy + pixel * channels;
    T* dx = job.dx + pixel * channels;
    const float inverse = job.inverse_norm[pixel];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t c = 0; c < channels; ++c) {
      const float unit = load(x[c]) * inverse;
      const float dz = load(dy[c]) * slope<act>(unit * alpha[c] + beta[c]);
      dbeta[c] += dz;
      dalpha[c] += dz * unit;
      dunit[c] = dz * alpha[c];
      dot += dunit[c] * unit;
    }
    const float pull = norm_is_constant(inverse, eps) ? 0.0f : dot * inverse;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      store(dx[c], inverse * (dunit[c] - load(x[c]) * pull));
    }
  }
}

template <typename T>
void forward(const RmsNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? forward_pixels<act.value>(job, task)
                              : forward_planes<act.value>(job, task);
    }
  });
}

template <typename T>
void from_statistics(const RmsNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? pixels_from_statistics<act.value>(job, task)
                              : apply_planes<act.value>(job, task);
    }
  });
}

template <typename T>
void backward(const RmsNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? backward_pixels<act.value>(job, task)
                              : backward_planes<act.value>(job, task);
    }
  });
}

}  // namespace

extern const RmsNormKernels kRmsNorm;
const RmsNormKernels kRmsNorm = {
    {forward<float>, from_statistics<float>, backward<float>},
    {forward<BFloat16>, from_statistics<BFloat16>, backward<BFloat16>}};

}  // namespace noisemark::baselines::kernels::NOISEMARK_LEVEL
