#include "tests/baselines/cudnn_convolution.cuh"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace noisemark::baselines::test {
namespace {

constexpr int kKernel = 3;
constexpr int kMostFound = 32;

/// Says where the bits of a floating-point type lie.
struct Layout {
  size_t bytes;
  int mantissa_bits;
  uint32_t exponent_of_one;
};

Layout layout_of(cudnnDataType_t storage) {
  switch (storage) {
    case CUDNN_DATA_FLOAT:
      return {4, 23, 127};
    case CUDNN_DATA_BFLOAT16:
      return {2, 7, 127};
    case CUDNN_DATA_HALF:
      return {2, 10, 15};
    default:
      throw CudnnError("no values are made of this type");
  }
}

/// MurmurHash3's last step: every bit of the number changes about half of the result's.
uint32_t scrambled(uint32_t number) {
  number = (number ^ number >> 16) * 0x85ebca6b;
  number = (number ^ number >> 13) * 0xc2b2ae35;
  return number ^ number >> 16;
}

/// The bits of a value of either sign, its magnitude in [1/16, 1): what a convolution adds up of
/// them fits float16, and none is so small that hardware could treat it specially.
uint32_t small_value(const Layout& layout, uint32_t number) {
  const uint32_t random = scrambled(number);
  const uint32_t sign = random >> 31;
  const uint32_t exponent = layout.exponent_of_one - 1 - (random >> 29 & 3);
  const uint32_t mantissa = random & ((1U << layout.mantissa_bits) - 1);
  return sign << (8 * layout.bytes - 1) | exponent << layout.mantissa_bits | mantissa;
}

/// Eight times a prime: copies of it stay aligned, and neighbouring rows, planes and images,
/// whose sizes have no prime above three, come out different.
constexpr uint32_t kTileValues = 8 * 8191;

std::vector<std::byte> tile_of_values(const Layout& layout, uint32_t seed) {
  static_assert(std::endian::native == std::endian::little, "takes the first bytes of a word");
  std::vector<std::byte> tile(kTileValues * layout.bytes);
  for (uint32_t i = 0; i < kTileValues; ++i) {
    const uint32_t bits = small_value(layout, seed * kTileValues + i);
    std::memcpy(tile.data() + i * layout.bytes, &bits, layout.bytes);
  }
  return tile;
}

/// Returns values that were made on the host once, and are repeated on the device.
std::shared_ptr<void> device_values(const Layout& layout, size_t count, uint32_t seed) {
  const size_t bytes = count * layout.bytes;
  std::shared_ptr<void> memory = device_memory(bytes);
  auto* const first = static_cast<std::byte*>(memory.get());
  const std::vector<std::byte> tile = tile_of_values(layout, seed);
  size_t filled = std::min(bytes, tile.size());
  check(cudaMemcpy(first, tile.data(), filled, cudaMemcpyHostToDevice), "cudaMemcpy");
  while (filled < bytes) {
    const size_t more = std::min(filled, bytes - filled);
    check(cudaMemcpy(first + filled, first, more, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    filled += more;
  }
  return memory;
}

bool on_tensor_cores(cudnnMathType_t math) {
  return math == CUDNN_TENSOR_OP_MATH || math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

}  // namespace

std::shared_ptr<void> device_memory(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return {memory, [](void* gone) { (void)cudaFree(gone); }};
}

Convolution::Convolution(cudnnHandle_t handle, const Shape& shape, const Type& type,
                         cudnnTensorFormat_t format)
    : handle_(handle), shape_(shape), type_(type) {
  const int out = shape.resolution / shape.stride;
  check(cudnnSetTensor4dDescriptor(x_.get(), format, type.storage, kBatch, shape.in,
                                   shape.resolution, shape.resolution),
        "x");
  check(cudnnSetTensor4dDescriptor(y_.get(), format, type.storage, kBatch, shape.out, out, out),
        "y");
  check(cudnnSetFilter4dDescriptor(w_.get(), type.storage, format, shape.out, shape.in, kKernel,
                                   kKernel),
        "w");
  check(cudnnSetConvolution2dDescriptor(rule_.get(), 1, 1, shape.stride, shape.stride, 1, 1,
                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "convolution");
  check(cudnnSetConvolutionMathType(rule_.get(), type.math), "math");
}

double Convolution::flop() const {
  const int out = shape_.resolution / shape_.stride;
  return 2.0 * kBatch * shape_.in * shape_.out * kKernel * kKernel * out * out;
}

Convolution::Operands Convolution::operands() const {
  const auto in = static_cast<size_t>(shape_.in);
  const auto out = static_cast<size_t>(shape_.out);
  const auto side = static_cast<size_t>(shape_.resolution);
  const size_t small_side = side / static_cast<size_t>(shape_.stride);
  const Layout layout = layout_of(type_.storage);
  return {device_values(layout, kBatch * in * side * side, 0),
          device_values(layout, kBatch * out * small_side * small_side, 1),
          device_values(layout, out * in * kKernel * kKernel, 2)};
}

cudaStream_t Convolution::stream() const {
  cudaStream_t stream = nullptr;
  check(cudnnGetStream(handle_, &stream), "stream");
  return stream;
}

std::vector<Choice> Convolution::guessed(Direction direction) const {
  int count = 0;
  use(type_.math);
  switch (direction) {
    case Direction::kForward: {
      std::vector<cudnnConvolutionFwdAlgoPerf_t> found(kMostFound);
      check(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_.get(), w_.get(), rule_.get(),
                                                   y_.get(), kMostFound, &count, found.data()),
            "algorithms");
      return usable(direction, found, count);
    }
    case Direction::kData: {
      std::vector<cudnnConvolutionBwdDataAlgoPerf_t> found(kMostFound);
      check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, w_.get(), y_.get(), rule_.get(),
                                                        x_.get(), kMostFound, &count, found.data()),
            "algorithms");
      return usable(direction, found, count);
    }
    case Direction::kWeight: {
      std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> found(kMostFound);
      check(
          cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, x_.get(), y_.get(), rule_.get(),
                                                        w_.get(), kMostFound, &count, found.data()),
          "algorithms");
      return usable(direction, found, count);
    }
  }
  return {};
}

std::vector<Choice> Convolution::timed(Direction direction, const Operands& operands,
                                       void* workspace, size_t workspace_bytes) const {
  int count = 0;
  use(type_.math);
  switch (direction) {
    case Direction::kForward: {
      std::vector<cudnnConvolutionFwdAlgoPerf_t> found(kMostFound);
      check(cudnnFindConvolutionForwardAlgorithmEx(handle_, x_.get(), operands.x.get(), w_.get(),
                                                   operands.w.get(), rule_.get(), y_.get(),
                                                   operands.y.get(), kMostFound, &count,
                                                   found.data(), workspace, workspace_bytes),
            "times of algorithms");
      return usable(direction, found, count);
    }
    case Direction::kData: {
      std::vector<cudnnConvolutionBwdDataAlgoPerf_t> found(kMostFound);
      check(cudnnFindConvolutionBackwardDataAlgorithmEx(
                handle_, w_.get(), operands.w.get(), y_.get(), operands.y.get(), rule_.get(),
                x_.get(), operands.x.get(), kMostFound, &count, found.data(), workspace,
                workspace_bytes),
            "times of algorithms");
      return usable(direction, found, count);
    }
    case Direction::kWeight: {
      std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> found(kMostFound);
      check(cudnnFindConvolutionBackwardFilterAlgorithmEx(
                handle_, x_.get(), operands.x.get(), y_.get(), operands.y.get(), rule_.get(),
                w_.get(), operands.w.get(), kMostFound, &count, found.data(), workspace,
                workspace_bytes),
            "times of algorithms");
      return usable(direction, found, count);
    }
  }
  return {};
}

void Convolution::use(cudnnMathType_t math) const {
  check(cudnnSetConvolutionMathType(rule_.get(), math), "math");
}

void Convolution::run(Direction direction, const Choice& choice, const Operands& operands,
                      void* workspace) const {
  const float one = 1;
  const float zero = 0;
  switch (direction) {
    case Direction::kForward:
      return check(cudnnConvolutionForward(
                       handle_, &one, x_.get(), operands.x.get(), w_.get(), operands.w.get(),
                       rule_.get(), static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm),
                       workspace, choice.workspace, &zero, y_.get(), operands.y.get()),
                   "forward");
    case Direction::kData:
      return check(cudnnConvolutionBackwardData(
                       handle_, &one, w_.get(), operands.w.get(), y_.get(), operands.y.get(),
                       rule_.get(), static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm),
                       workspace, choice.workspace, &zero, x_.get(), operands.x.get()),
                   "data gradient");
    case Direction::kWeight:
      return check(cudnnConvolutionBackwardFilter(
                       handle_, &one, x_.get(), operands.x.get(), y_.get(), operands.y.get(),
                       rule_.get(), static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm),
                       workspace, choice.workspace, &zero, w_.get(), operands.w.get()),
                   "weight gradient");
  }
}

size_t Convolution::workspace_of(Direction direction, const Choice& choice) const {
  size_t bytes = 0;
  use(choice.math);
  switch (direction) {
    case Direction::kForward:
      check(cudnnGetConvolutionForwardWorkspaceSize(
                handle_, x_.get(), w_.get(), rule_.get(), y_.get(),
                static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), &bytes),
            "workspace");
      break;
    case Direction::kData:
      check(cudnnGetConvolutionBackwardDataWorkspaceSize(
                handle_, w_.get(), y_.get(), rule_.get(), x_.get(),
                static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm), &bytes),
            "workspace");
      break;
    case Direction::kWeight:
      check(cudnnGetConvolutionBackwardFilterWorkspaceSize(
                handle_, x_.get(), y_.get(), rule_.get(), w_.get(),
                static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), &bytes),
            "workspace");
      break;
  }
  return bytes;
}

/// Tensor cores stay off where the type asks for float32.
template <typename Found>
std::vector<Choice> Convolution::usable(Direction direction, const std::vector<Found>& found,
                                        int count) const {
  std::vector<Choice> choices;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (found[i].status != CUDNN_STATUS_SUCCESS) continue;
    const bool float32_alone = type_.math == CUDNN_FMA_MATH;
    if (float32_alone && on_tensor_cores(found[i].mathType)) continue;
    Choice choice;
    choice.algorithm = static_cast<int>(found[i].algo);
    choice.deterministic = found[i].determinism == CUDNN_DETERMINISTIC;
    choice.math = float32_alone ? type_.math : found[i].mathType;
    try {
      // The choice holds for its own arithmetic, which may not be the one that is used.
      choice.workspace = workspace_of(direction, choice);
    } catch (const CudnnError& error) {
      choice.why_not = error.what();
    }
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace noisemark::baselines::test
