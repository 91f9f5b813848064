#include "baselines/fused_attention.h"

#include <ATen/ops/empty_like.h>

#include "baselines/cpu_tensors.h"
#include "baselines/kernels/linear_attention.h"

namespace noisemark::baselines {
namespace {

constexpr int64_t kMaxWidth = kernels::LinearAttention<float>::kMaxWidth;

template <typename T>
kernels::LinearAttention<T> make_job(const Arranged& qkv, const at::Tensor& memory,
                                     const at::Tensor& context, const at::Tensor& key_max,
                                     const at::Tensor& key_sum) {
  kernels::LinearAttention<T> job;
  job.shape = qkv.shape;
  job.heads = memory.size(1);
  job.tokens = memory.size(3);
  job.qkv = input<T>(qkv.values);
  job.memory = input<float>(memory);
  job.context = output<float>(context);
  job.key_max = output<float>(key_max);
  job.key_sum = output<float>(key_sum);
  return job;
}

}  // namespace

bool linear_attention_takes(const at::Tensor& qkv, const at::Tensor& memory) {
  return kernels_take(qkv) && memory.dim() == 4 && memory.size(2) <= kMaxWidth;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_attention(
    const at::Tensor& qkv, const at::Tensor& memory) {
  const int64_t heads = memory.size(1);
  const int64_t width = memory.size(2);
  TORCH_CHECK(qkv.size(1) == 3 * heads * width, "linear attention: ", qkv.size(1),
              " channels are not queries, keys and values of ", heads, " heads of ", width);
  const Arranged in(qkv);
  const at::Tensor context = floats({in.shape.samples, heads, width, width});
  const at::Tensor key_max = floats({in.shape.samples, heads, width});
  const at::Tensor key_sum = floats({in.shape.samples, heads, width});
  const at::Tensor learned = as_floats(memory, memory.sizes());
  const at::Tensor out = in.empty_with_channels(heads * width);
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = make_job<T>(in, learned, context, key_max, key_sum);
    job.out = output<T>(out);
    run(job, kernels::linear_attention_kernels(kernels::current_level()).of<T>().forward);
  });
  return {out, context, key_max, key_sum};
}

std::tuple<at::Tensor, at::Tensor> linear_attention_backward(
    const at::Tensor& dout, const at::Tensor& qkv, const at::Tensor& memory,
    const at::Tensor& context, const at::Tensor& key_max, const at::Tensor& key_sum) {
  const Arranged in(qkv);
  const at::Tensor dout_like_qkv = in.like(dout);
  const at::Tensor learned = as_floats(memory, memory.sizes());
  const at::Tensor dqkv = at::empty_like(in.values);
  const at::Tensor dmemory =
      floats({in.shape.samples, 2, memory.size(1), memory.size(2), memory.size(3)});
  with_storage_type(in.values, [&](auto type) {
    using T = decltype(type);
    auto job = make_job<T>(in, learned, context, key_max, key_sum);
    job.dout = input<T>(dout_like_qkv);
    job.dqkv = output<T>(dqkv);
    job.dmemory = output<float>(dmemory);
    run(job, kernels::linear_attention_kernels(kernels::current_level()).of<T>().backward);
  });
  return {dqkv, dmemory.sum(0).to(memory.scalar_type())};
}

}  // namespace noisemark::baselines
