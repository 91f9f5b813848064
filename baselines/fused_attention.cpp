#include "baselines/fused_attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <vector>

#include "baselines/kernels/attention.h"

namespace noisemark::baselines {
namespace {

using kernels::kHeadChannels;

at::Tensor run(const kernels::AttentionKernel& kernel, const at::Tensor& qkv,
               const at::Tensor& mem_kv, int64_t memory_tokens) {
  const at::Tensor memory = mem_kv.contiguous();
  const int64_t heads = memory.size(1);
  const at::Tensor out = at::empty({qkv.size(0), heads * kHeadChannels, qkv.size(2), qkv.size(3)},
                                   qkv.options(), at::MemoryFormat::ChannelsLast);
  kernels::Attention job;
  job.samples = qkv.size(0);
  job.heads = heads;
  job.tokens = qkv.size(2) * qkv.size(3);
  job.memory_tokens = memory_tokens;
  job.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeadChannels)));
  job.qkv = qkv.const_data_ptr<float>();
  job.memory_k = memory.const_data_ptr<float>();
  job.memory_v = job.memory_k + memory.numel() / 2;
  job.out = out.mutable_data_ptr<float>();
  at::parallel_for(0, job.tasks(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<size_t>(kernel.scratch_floats(job)));
    kernel.forward(job, begin, end, scratch.data());
  });
  return out;
}

const kernels::AttentionKernels& chosen_kernels() {
  return kernels::attention_kernels(memopt::current_cpu_level());
}

}  // namespace

bool fused_attention_takes(const at::Tensor& qkv, const at::Tensor& mem_kv, int64_t head_channels) {
  return !at::GradMode::is_enabled() && head_channels == kHeadChannels && qkv.device().is_cpu() &&
         qkv.scalar_type() == at::kFloat && mem_kv.scalar_type() == at::kFloat && qkv.numel() > 0 &&
         qkv.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor fused_linear_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) {
  return run(chosen_kernels().linear, qkv, mem_kv, mem_kv.size(3));
}

at::Tensor fused_softmax_attention(const at::Tensor& qkv, const at::Tensor& mem_kv) {
  return run(chosen_kernels().softmax, qkv, mem_kv, mem_kv.size(2));
}

}  // namespace noisemark::baselines
