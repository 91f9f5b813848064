#include "tests/baselines/cudnn_convolution.cuh"

#include <cuda_runtime_api.h>

namespace noisemark::baselines::test {
namespace {

constexpr int kKernel = 3;
constexpr int kMostFound = 32;

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudnnError(std::string(what) + ": " + cudnnGetErrorString(status));
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(status));
}

bool on_tensor_cores(cudnnMathType_t math) {
  return math == CUDNN_TENSOR_OP_MATH || math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

}  // namespace

std::shared_ptr<void> device_memory(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  std::shared_ptr<void> owned(memory, [](void* gone) { (void)cudaFree(gone); });
  // The bytes of small numbers that are not zero: on zeros a GPU can be faster.
  check(cudaMemset(memory, 0x3c, bytes), "cudaMemset");
  return owned;
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
  const size_t element = type_.storage == CUDNN_DATA_FLOAT ? 4 : 2;
  return {device_memory(element * kBatch * in * side * side),
          device_memory(element * kBatch * out * small_side * small_side),
          device_memory(element * out * in * kKernel * kKernel)};
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
      // What was found holds for its own arithmetic, which may not be the one that is used.
      choice.workspace = workspace_of(direction, choice);
    } catch (const CudnnError& error) {
      choice.why_not = error.what();
    }
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace noisemark::baselines::test
