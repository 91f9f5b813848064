#include "memopt/replay/norm_exactness.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "memopt/device_parts.h"

namespace noisemark::memopt::replay {
namespace {

/// Elements that ATen's loops take at once: two of the widest vectors.
constexpr int64_t kVectorStep = 32;
constexpr double kEps = 1e-5;
/// Two groups, so that the second one's place matters.
constexpr int64_t kGroups = 2;

/// What is tried is neither recorded nor cast, and has no history.
class SilentScope {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  at::DisableRecordFunctionGuard no_callbacks_;
};

/// Numbers of many magnitudes without a pattern that rounding could hide in.
at::Tensor numbers(at::IntArrayRef sizes, double frequency) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const at::Tensor steps = at::linspace(1, static_cast<double>(count), count, at::kFloat);
  return (at::sin(steps * frequency) * 1.7 + 0.3).view(sizes);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.cpu();
  const at::Tensor right = b.cpu();
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

struct NormSample {
  NormSample(const NormGroup& group, c10::DeviceType device)
      : channels(kGroups * group.channels),
        x(numbers({1, channels, group.rows, group.columns}, 0.37)
              .contiguous(group.channels_last ? at::MemoryFormat::ChannelsLast
                                              : at::MemoryFormat::Contiguous)
              .to(at::device(device))) {
    if (group.weight) weight = numbers({channels}, 0.71).to(at::device(device));
    if (group.bias) bias = numbers({channels}, 0.53).to(at::device(device));
    std::tie(y, mean, rstd) = at::native_group_norm(x, weight, bias, 1, channels,
                                                    group.rows * group.columns, kGroups, kEps);
  }

  [[nodiscard]] NormChain job(const NormGroup& group) const {
    NormChain job;
    job.samples = 1;
    job.channels = channels;
    job.groups = kGroups;
    job.pixels = group.rows * group.columns;
    job.channels_last = group.channels_last;
    job.x = x.const_data_ptr<float>();
    job.mean = mean.const_data_ptr<float>();
    job.rstd = rstd.const_data_ptr<float>();
    if (group.weight) job.weight = weight.const_data_ptr<float>();
    if (group.bias) job.bias = bias.const_data_ptr<float>();
    return job;
  }

  int64_t channels;
  at::Tensor x, weight, bias, y, mean, rstd;
};

std::optional<NormForm> try_forms(const NormGroup& group, c10::DeviceType device) {
  const NormChainOnDevice run = find_norm_chain(device);
  // On a GPU ATen's group norm takes nothing but planes: at::group_norm copies into them first.
  if (run == nullptr || (device != c10::kCPU && group.channels_last)) return std::nullopt;
  const SilentScope silent;
  const NormSample sample(group, device);
  const at::Tensor own = at::empty_like(sample.x);
  if (own.strides() != sample.y.strides()) return std::nullopt;
  const at::Tensor tables = at::empty({2 * sample.channels}, sample.x.options());
  NormChain job = sample.job(group);
  job.scale = tables.mutable_data_ptr<float>();
  job.shift = job.scale + sample.channels;
  job.y = own.mutable_data_ptr();
  for (const NormForm form : kNormForms) {
    const bool affine = group.weight || group.bias;
    if (affine && form == NormForm::kWithoutAffine) continue;
    job.form = form;
    run(job);
    if (same_bits(own, sample.y)) return form;
  }
  return std::nullopt;
}

bool try_activation(Activation activation, c10::DeviceType device) {
  const NormChainOnDevice run = find_norm_chain(device);
  if (run == nullptr) return false;
  const SilentScope silent;
  constexpr int64_t kSamples = 1 << 15;
  const at::Tensor x = at::linspace(-110, 110, kSamples, at::kFloat).to(at::device(device));
  const at::Tensor expected = activation == Activation::kSilu ? at::silu(x) : at::relu(x);
  const at::Tensor own = at::empty_like(x);
  // A norm that changes nothing: x * 1 + 0.
  const at::Tensor constants =
      at::tensor({0.0F, 1.0F, 0.0F, 0.0F}, at::kFloat).to(at::device(device));
  auto* constant = constants.mutable_data_ptr<float>();
  NormChain job;
  job.samples = job.channels = 1;
  job.pixels = kSamples;
  job.form = NormForm::kRounded;
  job.activation = activation;
  job.x = x.const_data_ptr<float>();
  job.mean = constant;
  job.rstd = constant + 1;
  job.scale = constant + 2;
  job.shift = constant + 3;
  job.y = own.mutable_data_ptr();
  run(job);
  return same_bits(own, expected);
}

}  // namespace

std::optional<NormForm> exact_norm_form(const NormGroup& group, c10::DeviceType device) {
  using Known = std::pair<c10::DeviceType, NormGroup>;
  static std::mutex mutex;
  static std::map<Known, std::optional<NormForm>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find({device, group});
  if (found != known.end()) return found->second;
  return known.emplace(Known(device, group), try_forms(group, device)).first->second;
}

bool is_exact(Activation activation, c10::DeviceType device) {
  using Known = std::pair<c10::DeviceType, Activation>;
  if (activation == Activation::kNone) return true;
  static std::mutex mutex;
  static std::map<Known, bool> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find({device, activation});
  if (found != known.end()) return found->second;
  return known.emplace(Known(device, activation), try_activation(activation, device)).first->second;
}

bool is_all_vectors(int64_t elements) {
  const bool shared = elements >= at::internal::GRAIN_SIZE && !at::in_parallel_region();
  const int64_t shares = !shared ? 1
                                 : std::min<int64_t>(at::get_num_threads(),
                                                     at::divup(elements, at::internal::GRAIN_SIZE));
  return elements % kVectorStep == 0 && at::divup(elements, shares) % kVectorStep == 0;
}

}  // namespace noisemark::memopt::replay
