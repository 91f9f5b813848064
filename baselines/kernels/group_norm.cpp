// This file is compiled once per instruction set: the flags and the namespace NOISEMARK_LEVEL come
// from CMake.
#include "baselines/kernels/group_norm.h"

#include "baselines/kernels/math.h"

namespace noisemark::baselines::kernels::NOISEMARK_LEVEL {
namespace {

struct Range {
  int64_t sample;
  int64_t first_group;
  int64_t last_group;  // the first group beyond
};

template <typename T>
Range range_of(const GroupNorm<T>& job, int64_t task) {
  const int64_t first = task % job.tasks_per_sample() * job.groups_per_task;
  return {task / job.tasks_per_sample(), first, smaller(first + job.groups_per_task, job.groups)};
}

float rstd_of(double variance, double eps) {
  return static_cast<float>(1.0 / __builtin_sqrt((variance > 0 ? variance : 0) + eps));
}

// Sums are taken of x minus the first value (Chan, Golub and LeVeque, 1983): what cancels in the
// variance is then of the order of the deviation, not of the mean.

template <typename T>
void moments_of_row(const T* x, int64_t count, double eps, float* mean, float* rstd) {
  const float origin = load(x[0]);
  float sum = 0;
  float square_sum = 0;
#pragma omp simd reduction(+ : sum, square_sum)
  for (int64_t i = 0; i < count; ++i) {
    const float d = load(x[i]) - origin;
    sum += d;
    square_sum += d * d;
  }
  const double centre = double{sum} / static_cast<double>(count);
  *mean = static_cast<float>(double{origin} + centre);
  *rstd = rstd_of(double{square_sum} / static_cast<double>(count) - centre * centre, eps);
}

// Planes: [samples, channels, pixels]. A group is one run of memory.

/// y of one group. A function of its own, as apply_pixels() is: what forward() gives and what
/// from_statistics() gives again have the bits of the same instructions.
template <Act act, typename T>
NOISEMARK_APART void apply_planes(const GroupNorm<T>& job, int64_t sample, int64_t group) {
  const int64_t pixels = job.shape.pixels;
  const int64_t width = job.shape.channels / job.groups;
  const int64_t statistic = sample * job.groups + group;
  for (int64_t c = 0; c < width; ++c) {
    const float scale = job.rstd[statistic] * job.weight[group * width + c];
    const float offset = job.bias[group * width + c] - job.mean[statistic] * scale;
    const T* x = job.x + (statistic * width + c) * pixels;
    T* y = job.y + (statistic * width + c) * pixels;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) store(y[p], activate<act>(load(x[p]) * scale + offset));
  }
}

template <Act act, typename T>
void forward_planes(const GroupNorm<T>& job, const Range& range) {
  const int64_t count = job.shape.channels / job.groups * job.shape.pixels;
  for (int64_t group = range.first_group; group < range.last_group; ++group) {
    const int64_t statistic = range.sample * job.groups + group;
    moments_of_row(job.x + statistic * count, count, job.eps, job.mean + statistic,
                   job.rstd + statistic);
    apply_planes<act>(job, range.sample, group);
  }
}

template <Act act, typename T>
void planes_from_statistics(const GroupNorm<T>& job, const Range& range) {
  for (int64_t group = range.first_group; group < range.last_group; ++group) {
    apply_planes<act>(job, range.sample, group);
  }
}

/// Holds all that the backward pass of one channel needs besides x and dy.
struct Channel {
  float mean, rstd, weight, bias;

  NOISEMARK_INLINE float unit(float x) const { return (x - mean) * rstd; }
  template <Act act>
  NOISEMARK_INLINE float dz(float dy, float unit) const {
    return dy * slope<act>(unit * weight + bias);
  }
};

/// Adds up dz and dz * unit over one channel.
template <Act act, typename T>
void sum_plane(const T* x, const T* dy, int64_t pixels, Channel channel, float* dbias,
               float* dweight) {
  float sum = 0;
  float unit_sum = 0;
#pragma omp simd reduction(+ : sum, unit_sum)
  for (int64_t p = 0; p < pixels; ++p) {
    const float unit = channel.unit(load(x[p]));
    const float dz = channel.dz<act>(load(dy[p]), unit);
    sum += dz;
    unit_sum += dz * unit;
  }
  *dbias = sum;
  *dweight = unit_sum;
}

/// Means over one group of the gradient of the normalised values, and of it times them.
struct GroupMeans {
  float dunit, dunit_unit;
};

GroupMeans group_means(const float* weight, const float* dbias, const float* dweight, int64_t width,
                       int64_t pixels) {
  double dunit = 0;
  double dunit_unit = 0;
  for (int64_t c = 0; c < width; ++c) {
    dunit += double{weight[c]} * double{dbias[c]};
    dunit_unit += double{weight[c]} * double{dweight[c]};
  }
  const double count = static_cast<double>(width * pixels);
  return {static_cast<float>(dunit / count), static_cast<float>(dunit_unit / count)};
}

template <Act act, typename T>
void backward_planes(const GroupNorm<T>& job, const Range& range) {
  const int64_t pixels = job.shape.pixels;
  const int64_t width = job.shape.channels / job.groups;
  for (int64_t group = range.first_group; group < range.last_group; ++group) {
    const int64_t statistic = range.sample * job.groups + group;
    const float* weight = job.weight + group * width;
    float* dbias = job.dbias + statistic * width;
    float* dweight = job.dweight + statistic * width;
    const auto channel = [&](int64_t c) {
      return Channel{job.mean[statistic], job.rstd[statistic], weight[c],
                     job.bias[group * width + c]};
    };
    const auto begin = [&](int64_t c) { return (statistic * width + c) * pixels; };
    for (int64_t c = 0; c < width; ++c) {
      sum_plane<act>(job.x + begin(c), job.dy + begin(c), pixels, channel(c), dbias + c,
                     dweight + c);
    }
    const GroupMeans means = group_means(weight, dbias, dweight, width, pixels);
    for (int64_t c = 0; c < width; ++c) {
      const Channel here = channel(c);
      const T* x = job.x + begin(c);
      const T* dy = job.dy + begin(c);
      T* dx = job.dx + begin(c);
#pragma omp simd
      for (int64_t p = 0; p < pixels; ++p) {
        const float unit = here.unit(load(x[p]));
        const float dunit = here.dz<act>(load(dy[p]), unit) * here.weight;
        store(dx[p], here.rstd * (dunit - means.dunit - unit * means.dunit_unit));
      }
    }
  }
}

// Pixels: [samples, pixels, channels]. Sums run over pixels for all channels of the task at once;
// what belongs to a group is spread over its channels in scratch.

/// Sums and sums of squares over pixels of x minus the first pixel, for `count` channels.
template <typename T>
void sum_channels(const T* x, const Shape& shape, int64_t count, float* sum, float* square_sum) {
#pragma omp simd
  for (int64_t c = 0; c < count; ++c) sum[c] = square_sum[c] = 0;
  for (int64_t p = 1; p < shape.pixels; ++p) {
    const T* row = x + p * shape.channels;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) {
      const float d = load(row[c]) - load(x[c]);
      sum[c] += d;
      square_sum[c] += d * d;
    }
  }
}

/// Moments of one group of `width` channels from their sums.
template <typename T>
void combine_channels(const T* origin, const float* sum, const float* square_sum, int64_t width,
                      int64_t pixels, double eps, float* mean, float* rstd) {
  const double count = static_cast<double>(pixels);
  double centre = 0;
  for (int64_t c = 0; c < width; ++c) centre += double{load(origin[c])} + double{sum[c]} / count;
  centre /= static_cast<double>(width);
  double variance = 0;
  for (int64_t c = 0; c < width; ++c) {
    const double shift = double{sum[c]} / count;
    const double deviation = double{load(origin[c])} + shift - centre;
    variance += double{square_sum[c]} / count - shift * shift + deviation * deviation;
  }
  *mean = static_cast<float>(centre);
  *rstd = rstd_of(variance / static_cast<double>(width), eps);
}

/// y of the range's groups, by way of a scale and an offset per channel in scratch.
template <Act act, typename T>
NOISEMARK_APART void apply_pixels(const GroupNorm<T>& job, const Range& range) {
  const int64_t channels = job.shape.channels;
  const int64_t width = channels / job.groups;
  const int64_t first = range.first_group * width;
  const int64_t count = range.last_group * width - first;
  const int64_t begin = range.sample * job.shape.pixels * channels + first;
  float* scale = job.scratch + range.sample * 4 * channels + first;
  float* offset = scale + channels;
  const int64_t statistics = range.sample * job.groups + range.first_group;
  for (int64_t at = 0; at < count; at += width) {
    const float mean = job.mean[statistics + at / width];
    const float rstd = job.rstd[statistics + at / width];
    for (int64_t c = at; c < at + width; ++c) {
      scale[c] = rstd * job.weight[first + c];
      offset[c] = job.bias[first + c] - mean * scale[c];
    }
  }
  for (int64_t p = 0; p < job.shape.pixels; ++p) {
    const T* x = job.x + begin + p * channels;
    T* y = job.y + begin + p * channels;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) {
      store(y[c], activate<act>(load(x[c]) * scale[c] + offset[c]));
    }
  }
}

template <Act act, typename T>
void forward_pixels(const GroupNorm<T>& job, const Range& range) {
  const int64_t channels = job.shape.channels;
  const int64_t width = channels / job.groups;
  const int64_t first = range.first_group * width;
  const int64_t count = range.last_group * width - first;
  const int64_t begin = range.sample * job.shape.pixels * channels + first;
  float* sum = job.scratch + (range.sample * 4 + 2) * channels + first;
  float* square_sum = sum + channels;
  sum_channels(job.x + begin, job.shape, count, sum, square_sum);
  for (int64_t at = 0; at < count; at += width) {
    const int64_t statistic = range.sample * job.groups + range.first_group + at / width;
    combine_channels(job.x + begin + at, sum + at, square_sum + at, width, job.shape.pixels,
                     job.eps, job.mean + statistic, job.rstd + statistic);
  }
  apply_pixels<act>(job, range);
}

/// The group's figures, one per channel.
struct ChannelTables {
  const float* weight;
  const float* bias;
  float* rstd;
  float* shift;  // unit = x * rstd + shift
  float* dunit_mean;
  float* dunit_unit_mean;
  float* dbias;
  float* dweight;
};

template <typename T>
ChannelTables channel_tables(const GroupNorm<T>& job, const Range& range) {
  const int64_t channels = job.shape.channels;
  const int64_t width = channels / job.groups;
  const int64_t first = range.first_group * width;
  float* rows = job.scratch + range.sample * 4 * channels + first;
  const int64_t sums = range.sample * channels + first;
  const ChannelTables tables = {job.weight + first, job.bias + first,    rows,
                                rows + channels,    rows + 2 * channels, rows + 3 * channels,
                                job.dbias + sums,   job.dweight + sums};
  for (int64_t c = 0; c < (range.last_group - range.first_group) * width; ++c) {
    const int64_t statistic = range.sample * job.groups + range.first_group + c / width;
    tables.rstd[c] = job.rstd[statistic];
    tables.shift[c] = -job.mean[statistic] * job.rstd[statistic];
    tables.dbias[c] = tables.dweight[c] = 0;
  }
  return tables;
}

template <Act act, typename T>
void sum_pixels(const T* x, const T* dy, const Shape& shape, int64_t count,
                const ChannelTables& t) {
  for (int64_t p = 0; p < shape.pixels; ++p, x += shape.channels, dy += shape.channels) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) {
      const float unit = load(x[c]) * t.rstd[c] + t.shift[c];
      const float dz = load(dy[c]) * slope<act>(unit * t.weight[c] + t.bias[c]);
      t.dbias[c] += dz;
      t.dweight[c] += dz * unit;
    }
  }
}

template <Act act, typename T>
void backward_pixels(const GroupNorm<T>& job, const Range& range) {
  const int64_t channels = job.shape.channels;
  const int64_t width = channels / job.groups;
  const int64_t count = (range.last_group - range.first_group) * width;
  const int64_t begin = range.sample * job.shape.pixels * channels + range.first_group * width;
  const ChannelTables t = channel_tables(job, range);
  sum_pixels<act>(job.x + begin, job.dy + begin, job.shape, count, t);
  for (int64_t at = 0; at < count; at += width) {
    const GroupMeans means =
        group_means(t.weight + at, t.dbias + at, t.dweight + at, width, job.shape.pixels);
    for (int64_t c = at; c < at + width; ++c) {
      t.dunit_mean[c] = means.dunit;
      t.dunit_unit_mean[c] = means.dunit_unit;
    }
  }
  for (int64_t p = 0; p < job.shape.pixels; ++p) {
    const T* x = job.x + begin + p * channels;
    const T* dy = job.dy + begin + p * channels;
    T* dx = job.dx + begin + p * channels;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) {
      const float unit = load(x[c]) * t.rstd[c] + t.shift[c];
      const float dz = load(dy[c]) * slope<act>(unit * t.weight[c] + t.bias[c]);
      const float dunit = dz * t.weight[c];
      store(dx[c], t.rstd[c] * (dunit - t.dunit_mean[c] - unit * t.dunit_unit_mean[c]));
    }
  }
}

template <typename T>
void forward(const GroupNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? forward_pixels<act.value>(job, range_of(job, task))
                              : forward_planes<act.value>(job, range_of(job, task));
    }
  });
}

template <typename T>
void from_statistics(const GroupNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? apply_pixels<act.value>(job, range_of(job, task))
                              : planes_from_statistics<act.value>(job, range_of(job, task));
    }
  });
}

template <typename T>
void backward(const GroupNorm<T>& job, int64_t begin, int64_t end) {
  with_constant(job.act, [&](auto act) {
    for (int64_t task = begin; task < end; ++task) {
      job.shape.channels_last ? backward_pixels<act.value>(job, range_of(job, task))
                              : backward_planes<act.value>(job, range_of(job, task));
    }
  });
}

}  // namespace

extern const GroupNormKernels kGroupNorm;
const GroupNormKernels kGroupNorm = {
    {forward<float>, from_statistics<float>, backward<float>},
    {forward<BFloat16>, from_statistics<BFloat16>, backward<BFloat16>}};

}  // namespace noisemark::baselines::kernels::NOISEMARK_LEVEL
