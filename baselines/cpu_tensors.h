#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "baselines/kernels/types.h"

/// Between tensors and the kernels' plain memory. For the sources of this folder.
namespace noisemark::baselines {

/// Whether the kernels know x: a CPU tensor [N, C, ...] with at least one more dimension, float32
/// or bfloat16, not empty.
inline bool kernels_take(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return x.device().is_cpu() && x.layout() == at::kStrided && type && x.dim() >= 3 && x.numel() > 0;
}

/// x itself if it is dense in the wanted order, [N, ..., C] or [N, C, ...], else a copy that is.
inline at::Tensor arranged(const at::Tensor& x, bool channels_last) {
  return channels_last ? x.movedim(1, -1).contiguous().movedim(-1, 1) : x.contiguous();
}

/// x in one of the two orders that the kernels know: the one it has, or is nearer to.
struct Arranged {
  at::Tensor values;
  kernels::Shape shape;

  explicit Arranged(const at::Tensor& x) {
    shape = {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1)), false};
    shape.channels_last =
        shape.pixels == 1 ||
        (!x.is_contiguous() && (x.movedim(1, -1).is_contiguous() ||
                                x.suggest_memory_format() != at::MemoryFormat::Contiguous));
    values = arranged(x, shape.channels_last);
  }

  /// `other` with the type and order of `values`.
  [[nodiscard]] at::Tensor like(const at::Tensor& other) const {
    return arranged(other.to(values.scalar_type()), shape.channels_last);
  }

  /// Uninitialised, of the type and order of `values`, with another number of channels.
  [[nodiscard]] at::Tensor empty_with_channels(int64_t channels) const {
    std::vector<int64_t> sizes = values.sizes().vec();
    sizes[1] = channels;
    if (!shape.channels_last) return at::empty(sizes, values.options());
    std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
    return at::empty(sizes, values.options()).movedim(-1, 1);
  }
};

inline at::Tensor floats(at::IntArrayRef sizes) {
  return at::empty(sizes, at::kFloat);
}

inline at::Tensor as_floats(const at::Tensor& x, at::IntArrayRef sizes) {
  return x.reshape(sizes).to(at::kFloat).contiguous();
}

template <typename T>
const T* input(const at::Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}

template <typename T>
T* output(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

/// Does all tasks of a job on ATen's threads.
template <typename Job>
void run(const Job& job, void (*kernel)(const Job&, int64_t, int64_t)) {
  constexpr int64_t kGrainValues = 1 << 14;  // fewer cost less than waking a thread
  const int64_t tasks = job.shape.samples * job.tasks_per_sample();
  const int64_t values = job.shape.channels * job.shape.pixels / job.tasks_per_sample();
  at::parallel_for(0, tasks, std::max<int64_t>(1, kGrainValues / std::max<int64_t>(1, values)),
                   [&](int64_t begin, int64_t end) { kernel(job, begin, end); });
}

/// Calls `body` with a value of the kernels' storage type for x.
template <typename Body>
void with_storage_type(const at::Tensor& x, const Body& body) {
  x.scalar_type() == at::kFloat ? body(float{}) : body(kernels::BFloat16{});
}

}  // namespace noisemark::baselines
