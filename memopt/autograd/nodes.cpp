#include "memopt/autograd/nodes.h"

#include <torch/csrc/autograd/generated/Functions.h>

#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

namespace noisemark::memopt {
namespace {

namespace nodes = torch::autograd::generated;
using torch::autograd::Node;

using Numbers = std::vector<double>;
using Read = void (*)(const Node&, Numbers&);

void put(Numbers& to, const at::Scalar& scalar) {
  const c10::complex<double> number = scalar.toComplexDouble();
  to.push_back(number.real());
  if (scalar.isComplex()) to.push_back(number.imag());
}
void put(Numbers& to, double number) {
  to.push_back(number);
}
void put(Numbers& to, bool flag) {
  to.push_back(flag ? 1 : 0);
}
void put(Numbers& to, int64_t number) {
  to.push_back(static_cast<double>(number));
}
void put(Numbers& to, const c10::SymInt& number) {
  to.push_back(static_cast<double>(number.maybe_as_int().value_or(0)));
}
void put(Numbers& to, const std::string& word) {
  to.insert(to.end(), word.begin(), word.end());
}
template <typename T>
void put(Numbers& to, const std::vector<T>& list) {
  for (const T& item : list) put(to, item);
}
template <typename T>
void put(Numbers& to, const std::optional<T>& given) {
  put(to, given.has_value());
  if (given.has_value()) put(to, *given);
}

template <typename T, auto... kMembers>
void read(const Node& node, Numbers& to) {
  const T& typed = static_cast<const T&>(node);
  (put(to, typed.*kMembers), ...);
}

template <typename T, auto... kMembers>
std::pair<const std::type_index, Read> entry() {
  const Read reader = &read<T, kMembers...>;
  return {typeid(T), reader};
}

const std::unordered_map<std::type_index, Read>& table() {
  using namespace nodes;
  static const std::unordered_map<std::type_index, Read> readers = {
      entry<AddBackward0, &AddBackward0::alpha>(),
      entry<AddmmBackward0, &AddmmBackward0::alpha, &AddmmBackward0::beta>(),
      entry<AvgPool2DBackward0, &AvgPool2DBackward0::kernel_size, &AvgPool2DBackward0::padding,
            &AvgPool2DBackward0::stride>(),
      entry<CatBackward0, &CatBackward0::dim>(),
      entry<ClampBackward1, &ClampBackward1::max, &ClampBackward1::min>(),
      entry<ClampMaxBackward0, &ClampMaxBackward0::max>(),
      entry<ClampMinBackward0, &ClampMinBackward0::min>(),
      entry<ConstantPadNdBackward0, &ConstantPadNdBackward0::pad>(),
      entry<ConvolutionBackward0, &ConvolutionBackward0::dilation, &ConvolutionBackward0::groups,
            &ConvolutionBackward0::padding, &ConvolutionBackward0::stride>(),
      entry<CumsumBackward0, &CumsumBackward0::dim>(),
      entry<DivBackward1, &DivBackward1::other>(),
      entry<EluBackward0, &EluBackward0::alpha, &EluBackward0::input_scale, &EluBackward0::scale>(),
      entry<FlipBackward0, &FlipBackward0::dims>(),
      entry<GeluBackward0, &GeluBackward0::approximate>(),
      entry<HardtanhBackward0, &HardtanhBackward0::max_val, &HardtanhBackward0::min_val>(),
      entry<LeakyReluBackward0, &LeakyReluBackward0::negative_slope>(),
      entry<LogSoftmaxBackward0, &LogSoftmaxBackward0::dim>(),
      entry<MaxPool2DWithIndicesBackward0, &MaxPool2DWithIndicesBackward0::dilation,
            &MaxPool2DWithIndicesBackward0::kernel_size, &MaxPool2DWithIndicesBackward0::padding,
            &MaxPool2DWithIndicesBackward0::stride>(),
      entry<MulBackward1, &MulBackward1::other>(),
      entry<NativeGroupNormBackward0, &NativeGroupNormBackward0::eps,
            &NativeGroupNormBackward0::group>(),
      entry<PermuteBackward0, &PermuteBackward0::dims>(),
      entry<PowBackward0, &PowBackward0::exponent>(),
      entry<RollBackward0, &RollBackward0::dims, &RollBackward0::shifts>(),
      entry<RsubBackward1, &RsubBackward1::alpha>(),
      entry<ScaledDotProductEfficientAttentionBackward0,
            &ScaledDotProductEfficientAttentionBackward0::is_causal,
            &ScaledDotProductEfficientAttentionBackward0::scale>(),
      entry<ScaledDotProductFlashAttentionBackward0,
            &ScaledDotProductFlashAttentionBackward0::is_causal,
            &ScaledDotProductFlashAttentionBackward0::scale>(),
      entry<ScaledDotProductFlashAttentionForCpuBackward0,
            &ScaledDotProductFlashAttentionForCpuBackward0::is_causal,
            &ScaledDotProductFlashAttentionForCpuBackward0::scale>(),
      entry<SelectBackward0, &SelectBackward0::dim, &SelectBackward0::index>(),
      entry<SliceBackward0, &SliceBackward0::dim, &SliceBackward0::start, &SliceBackward0::end,
            &SliceBackward0::step>(),
      entry<SoftmaxBackward0, &SoftmaxBackward0::dim>(),
      entry<SoftplusBackward0, &SoftplusBackward0::beta, &SoftplusBackward0::threshold>(),
      entry<SplitBackward0, &SplitBackward0::dim, &SplitBackward0::split_size>(),
      entry<SplitWithSizesBackward0, &SplitWithSizesBackward0::dim,
            &SplitWithSizesBackward0::split_sizes>(),
      entry<StackBackward0, &StackBackward0::dim>(),
      entry<SubBackward0, &SubBackward0::alpha>(),
      entry<ThresholdBackward0, &ThresholdBackward0::threshold>(),
      entry<TransposeBackward0, &TransposeBackward0::dim0, &TransposeBackward0::dim1>(),
      entry<UnbindBackward0, &UnbindBackward0::dim>(),
  };
  return readers;
}

}  // namespace

std::vector<double> numbers_of(const Node& node) {
  Numbers numbers;
  const auto found = table().find(typeid(node));
  if (found != table().end()) found->second(node, numbers);
  return numbers;
}

bool is_cast(const Node& node) {
  return typeid(node) == typeid(nodes::ToCopyBackward0);
}

std::optional<at::ScalarType> cast_from(const at::Tensor& tensor) {
  const at::TensorBase& result = tensor.is_view() ? tensor._base() : tensor;
  const auto& node = result.grad_fn();
  if (node == nullptr || !is_cast(*node) || result.scalar_type() != tensor.scalar_type() ||
      result._version() != 0 || result.nbytes() != result.storage().nbytes()) {
    return std::nullopt;
  }
  const auto& cast = static_cast<const torch::autograd::generated::ToCopyBackward0&>(*node);
  return c10::typeMetaToScalarType(cast.self_options.dtype());
}

}  // namespace noisemark::memopt
