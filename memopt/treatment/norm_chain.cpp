#include "memopt/treatment/norm_chain.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "memopt/treatment/kernels/norm_chain.h"

namespace noisemark::memopt::treatment {
namespace {

/// Elements that ATen's loops take at once: two of the widest vectors.
constexpr int64_t kVectorStep = 32;
constexpr double kEps = 1e-5;
/// Two groups, so that the second one's place matters.
constexpr int64_t kGroups = 2;

/// A guard under which trials are neither recorded nor cast, and have no history.
class TrialScope {
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
  const TrialScope silent;
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
  const TrialScope silent;
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

}  // namespace noisemark::memopt::treatment

namespace noisemark::memopt {
namespace {

using treatment::Activation;
using treatment::NormChain;
using treatment::NormForm;
using treatment::NormGroup;
using treatment::NormStore;

/// Enough for a thread that handing it over costs little beside it.
constexpr int64_t kChainElementsPerTask = 16384;

/// The facts that are read off the graph.
struct Chain {
  OperatorId norm = kNone;
  ValueId end = kNone;               ///< last value of the chain, which is in float32
  at::ScalarType type = at::kFloat;  ///< type to which that is rounded
  Activation activation = Activation::kNone;
  ValueId factor = kNone;
  int64_t cost_ns = 0;  ///< sum over its operators
};

/// aten::native_group_norm(input, weight, bias, N, C, HxW, group, eps) -> (y, mean, rstd).
struct NormArguments {
  ValueId x = kNone;
  ValueId weight = kNone;
  ValueId bias = kNone;
  int64_t groups = 0;
  double eps = 0;
};

class Reader {
 public:
  explicit Reader(const StepGraph& graph) : graph_(graph) {}

  /// Goes from the last operator back to the norm.
  [[nodiscard]] std::optional<Chain> chain_of(ValueId id) const {
    if (!is_rounded_copy(id)) return float_chain_of(id);
    std::optional<Chain> chain = float_chain_of(first_input(id));
    if (!chain) return std::nullopt;
    chain->type = value(id).dtype;
    chain->cost_ns += graph_.producer_of(id)->cost_ns;
    return chain;
  }

  [[nodiscard]] std::optional<NormArguments> arguments_of(OperatorId norm) const {
    const std::vector<Argument>& arguments = graph_.operators[static_cast<size_t>(norm)].arguments;
    if (arguments.size() != 8 || !arguments[6].constant.isInt() ||
        !arguments[7].constant.isDouble()) {
      return std::nullopt;
    }
    return NormArguments{tensor_of(arguments[0]), tensor_of(arguments[1]), tensor_of(arguments[2]),
                         arguments[6].constant.toInt(), arguments[7].constant.toDouble()};
  }

  /// Alone in memory of one type that a kernel can go through in a known order.
  [[nodiscard]] bool is_plain(ValueId id) const {
    return id != kNone && value(id).dtype == at::kFloat && value(id).fills_its_memory();
  }

  [[nodiscard]] bool is_like(ValueId id, ValueId other) const {
    return is_plain(id) && value(id).sizes == value(other).sizes &&
           value(id).strides == value(other).strides;
  }

  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }

 private:
  [[nodiscard]] std::optional<Chain> float_chain_of(ValueId id) const {
    Chain chain;
    chain.end = id;
    if (is_made_by(id, "aten::mul")) {
      const std::optional<std::pair<ValueId, ValueId>> product = product_of(id);
      if (!product) return std::nullopt;
      // Either may be the mask.
      for (const auto& [value, factor] : {*product, std::pair(product->second, product->first)}) {
        if (!ends_in_norm(value, chain)) continue;
        chain.factor = factor;
        chain.cost_ns += graph_.producer_of(id)->cost_ns;
        return chain;
      }
      return std::nullopt;
    }
    if (ends_in_norm(id, chain)) return chain;
    return std::nullopt;
  }

  /// Returns whether the value is a copy such as autocast makes of what a convolution reads: the
  /// same elements in the same order.
  [[nodiscard]] bool is_rounded_copy(ValueId id) const {
    if (!is_made_by(id, "aten::_to_copy")) return false;
    const ValueId input = first_input(id);
    const bool half = value(id).dtype == at::kBFloat16 || value(id).dtype == at::kHalf;
    return half && is_plain(input) && value(id).fills_its_memory() &&
           value(id).sizes == value(input).sizes && value(id).strides == value(input).strides &&
           stays_on_its_device(*graph_.producer_of(id));
  }

  /// _to_copy(self, dtype, layout, device, ...).
  [[nodiscard]] bool stays_on_its_device(const RecordedOperator& copy) const {
    const std::optional<c10::Device> device = graph_.model_device();
    if (copy.arguments.size() < 4 || !device) return false;
    const c10::IValue& target = copy.arguments[3].constant;
    return target.isNone() || (target.isDevice() && target.toDevice().type() == device->type());
  }

  [[nodiscard]] bool is_made_by(ValueId id, std::string_view name) const {
    const RecordedOperator* producer = graph_.producer_of(id);
    return producer != nullptr && producer->name == name && producer->overwrites == kNone &&
           value(id).result_index == 0;
  }

  static ValueId tensor_of(const Argument& argument) {
    return argument.kind == Argument::Kind::kTensor ? argument.values.front() : kNone;
  }

  [[nodiscard]] ValueId first_input(ValueId id) const {
    return tensor_of(graph_.producer_of(id)->arguments.front());
  }

  [[nodiscard]] std::optional<std::pair<ValueId, ValueId>> product_of(ValueId id) const {
    const std::vector<Argument>& arguments = graph_.producer_of(id)->arguments;
    if (arguments.size() != 2) return std::nullopt;
    const std::pair<ValueId, ValueId> product(tensor_of(arguments[0]), tensor_of(arguments[1]));
    if (!is_like(product.first, id) || !is_like(product.second, id)) return std::nullopt;
    return product;
  }

  [[nodiscard]] bool ends_in_norm(ValueId id, Chain& chain) const {
    ValueId normalized = id;
    chain.activation = Activation::kNone;
    chain.cost_ns = graph_.producer_of(id) == nullptr ? 0 : graph_.producer_of(id)->cost_ns;
    if (is_made_by(id, "aten::silu")) chain.activation = Activation::kSilu;
    if (is_made_by(id, "aten::relu")) chain.activation = Activation::kRelu;
    if (chain.activation != Activation::kNone) normalized = first_input(id);
    if (normalized == kNone || !is_made_by(normalized, "aten::native_group_norm") ||
        !is_like(normalized, id)) {
      return false;
    }
    chain.norm = value(normalized).producer;
    if (normalized != id) chain.cost_ns += graph_.producer_of(normalized)->cost_ns;
    return true;
  }

  const StepGraph& graph_;
};

bool is_contiguous(const RecordedValue& value) {
  int64_t stride = 1;
  for (size_t d = value.sizes.size(); d-- > 0;) {
    if (value.strides[d] != stride) return false;
    stride *= value.sizes[d];
  }
  return true;
}

bool is_channels_last(const RecordedValue& value) {
  return value.sizes.size() == 4 && value.strides[1] == 1 && value.strides[3] == value.sizes[1] &&
         value.strides[2] == value.sizes[1] * value.sizes[3];
}

NormStore store_of(at::ScalarType type) {
  if (type == at::kBFloat16) return NormStore::kBFloat16;
  return type == at::kHalf ? NormStore::kFloat16 : NormStore::kFloat32;
}

/// The part of the kernel's job that depends on the shape alone.
std::optional<NormChain> job_of(const Reader& reader, const NormArguments& norm, const Chain& chain,
                                c10::DeviceType device) {
  const RecordedValue& x = reader.value(norm.x);
  const bool planes = is_contiguous(x);
  if (x.sizes.size() < 2 || (!planes && !is_channels_last(x)) || x.bytes() == 0) {
    return std::nullopt;
  }
  NormChain job;
  job.samples = x.sizes[0];
  job.channels = x.sizes[1];
  job.groups = norm.groups;
  job.pixels = 1;
  for (size_t d = 2; d < x.sizes.size(); ++d) job.pixels *= x.sizes[d];
  job.channels_last = !planes;
  job.activation = chain.activation;
  if (device != c10::kCPU) job.store = store_of(chain.type);
  const NormGroup group{job.channels / job.groups,
                        x.sizes.size() == 4 ? x.sizes[2] : 1,
                        x.sizes.size() == 4 ? x.sizes[3] : job.pixels,
                        job.channels_last,
                        norm.weight != kNone,
                        norm.bias != kNone};
  const std::optional<NormForm> form = treatment::exact_norm_form(group, device);
  if (!form || !treatment::is_exact(chain.activation, device)) return std::nullopt;
  job.form = *form;
  return job;
}

/// RecipeInputs of the tensors among a recipe's inputs, which are distinct.
class RecipeInputs {
 public:
  static constexpr size_t kAbsent = static_cast<size_t>(-1);

  size_t add(ValueId id) {
    if (id == kNone) return kAbsent;
    const auto known = std::find(inputs_.begin(), inputs_.end(), id);
    if (known != inputs_.end()) return static_cast<size_t>(known - inputs_.begin());
    inputs_.push_back(id);
    return inputs_.size() - 1;
  }
  [[nodiscard]] std::vector<ValueId> take() { return std::move(inputs_); }

 private:
  std::vector<ValueId> inputs_;
};

/// Runs with what it was bound to; copies are independent.
class NormChainRun {
 public:
  NormChainRun(const NormChain& job, const Chain& chain, RecipeInputs& places,
               const NormArguments& norm, ValueId mean, ValueId rstd)
      : job_(job),
        type_(chain.type),
        eps_(norm.eps),
        x_(places.add(norm.x)),
        mean_(places.add(mean)),
        rstd_(places.add(rstd)),
        weight_(places.add(norm.weight)),
        bias_(places.add(norm.bias)),
        factor_(places.add(chain.factor)) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const {
    const at::Tensor& x = inputs[x_];
    const bool vectors =
        !x.is_cpu() || job_.activation != Activation::kSilu || treatment::is_all_vectors(x.numel());
    const at::Tensor y = vectors ? in_one_pass(inputs) : step_by_step(inputs);
    return {y.scalar_type() == type_ ? y : y.to(type_)};
  }

 private:
  static const float* data(const std::vector<at::Tensor>& inputs, size_t place) {
    return place == RecipeInputs::kAbsent ? nullptr : inputs[place].const_data_ptr<float>();
  }
  static at::Tensor tensor(const std::vector<at::Tensor>& inputs, size_t place) {
    return place == RecipeInputs::kAbsent ? at::Tensor() : inputs[place];
  }

  [[nodiscard]] at::Tensor in_one_pass(const std::vector<at::Tensor>& inputs) const {
    const at::Tensor& x = inputs[x_];
    const c10::DeviceGuard guard(x.device());
    const at::Tensor y = result_like(x);
    const Tables tables(2 * job_.samples * job_.channels, x);
    NormChain job = job_;
    job.x = data(inputs, x_);
    job.mean = data(inputs, mean_);
    job.rstd = data(inputs, rstd_);
    job.weight = data(inputs, weight_);
    job.bias = data(inputs, bias_);
    job.factor = data(inputs, factor_);
    job.scale = tables.data;
    job.shift = job.scale + job_.samples * job_.channels;
    job.y = y.mutable_data_ptr();
    find_norm_chain(x.device().type())(job);
    return y;
  }

  /// Scratch memory where x lies; on the CPU it is no tensor.
  struct Tables {
    Tables(int64_t count, const at::Tensor& x) {
      if (x.is_cpu()) {
        on_host.resize(static_cast<size_t>(count));
        data = on_host.data();
      } else {
        on_device = at::empty({count}, x.options());
        data = on_device.mutable_data_ptr<float>();
      }
    }
    std::vector<float> on_host;
    at::Tensor on_device;
    float* data = nullptr;
  };

  /// Makes a result of the type that the kernel stores; on the CPU without asking the dispatcher.
  [[nodiscard]] at::Tensor result_like(const at::Tensor& x) const {
    return x.is_cpu() ? at::detail::empty_strided_cpu(x.sizes(), x.strides(), at::kFloat)
                      : at::empty_strided(x.sizes(), x.strides(), x.options().dtype(type_));
  }

  [[nodiscard]] at::Tensor step_by_step(const std::vector<at::Tensor>& inputs) const {
    at::Tensor y = std::get<0>(
        at::native_group_norm(inputs[x_], tensor(inputs, weight_), tensor(inputs, bias_),
                              job_.samples, job_.channels, job_.pixels, job_.groups, eps_));
    if (job_.activation == Activation::kSilu) y = at::silu(y);
    if (job_.activation == Activation::kRelu) y = at::relu(y);
    return factor_ == RecipeInputs::kAbsent ? y : at::mul(y, inputs[factor_]);
  }

  NormChain job_;
  at::ScalarType type_;
  double eps_;
  size_t x_, mean_, rstd_, weight_, bias_, factor_;
};

}  // namespace

void treatment::run_norm_chain_on_cpu(const NormChain& job) {
  const NormChainKernels& kernels = norm_chain_kernels(current_cpu_level());
  kernels.prepare(job);
  const int64_t elements = job.samples * job.channels * job.pixels;
  const int64_t rows_per_task = std::max<int64_t>(1, kChainElementsPerTask * job.rows() / elements);
  at::parallel_for(0, job.rows(), rows_per_task,
                   [&](int64_t begin, int64_t end) { kernels.run(job, begin, end); });
}

std::optional<Recipe> norm_chain_recipe(const StepGraph& graph, ValueId id) {
  const Reader reader(graph);
  const std::optional<Chain> chain = reader.chain_of(id);
  const std::optional<c10::Device> device = graph.model_device();
  if (!chain || !device || find_norm_chain(device->type()) == nullptr) return std::nullopt;
  const std::optional<NormArguments> norm = reader.arguments_of(chain->norm);
  if (!norm || !reader.is_like(norm->x, chain->end)) return std::nullopt;
  for (const ValueId parameter : {norm->weight, norm->bias}) {
    if (parameter != kNone && !reader.is_plain(parameter)) return std::nullopt;
  }
  const std::vector<ValueId>& results = graph.operators[static_cast<size_t>(chain->norm)].results;
  for (const size_t statistic : {1, 2}) {
    const ValueId saved = results[statistic];
    if (!graph.is_saved_by(saved, chain->norm) || !reader.is_plain(saved)) return std::nullopt;
  }
  const std::optional<NormChain> job = job_of(reader, *norm, *chain, device->type());
  if (!job) return std::nullopt;
  RecipeInputs places;
  Recipe recipe;
  recipe.name = "group norm from its statistics";
  recipe.replaces = graph.values[static_cast<size_t>(id)].producer;
  recipe.is_shortcut = true;
  recipe.cost_ns = chain->cost_ns;  // no less than one pass takes
  recipe.results = {id};
  recipe.run = NormChainRun(*job, *chain, places, *norm, results[1], results[2]);
  recipe.inputs = places.take();
  return recipe;
}

}  // namespace noisemark::memopt
