#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// cuDNN's convolutions called directly, at the shapes of the U-Net of Ho et al. at batch 128: every
// algorithm by itself ("algo=1"), and the first of cuDNN's own order that keeps within a workspace
// limit ("limit=64MiB"), which is how a limit costs time; one that no algorithm keeps to is listed
// as skipped. Counters: workspace_mib, deterministic (1 or 0), algo, TFLOP/s; the label is the
// algorithm's name, and the context says of which GPU, driver and cuDNN the figures are. Times are
// between events. Keep the figures with
//   noisemark_cudnn_micro --benchmark_out=cudnn.json --benchmark_out_format=json
// as containers/gpu-check.sh does in its OUT.
namespace {

constexpr int kBatch = 128;
constexpr int kKernel = 3;
constexpr double kMiB = 1024.0 * 1024.0;
constexpr size_t kNoLimit = SIZE_MAX;

/// Of one configuration: the others are measured all the same.
class NotSupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string words = std::string(what) + ": " + cudnnGetErrorString(status);
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) throw NotSupported(words);
  throw std::runtime_error(words);
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

struct Shape {
  int in, out, resolution, stride;
};
constexpr std::array<Shape, 9> kShapes{{{3, 128, 32, 1},
                                        {128, 128, 32, 1},
                                        {384, 128, 32, 1},
                                        {128, 128, 32, 2},
                                        {256, 256, 16, 1},
                                        {512, 256, 16, 1},
                                        {256, 256, 8, 1},
                                        {512, 256, 4, 1},
                                        {128, 3, 32, 1}}};

enum class Direction { kForward, kData, kWeight };
constexpr std::array kDirections{Direction::kForward, Direction::kData, Direction::kWeight};

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kData:
      return "data_gradient";
    case Direction::kWeight:
      return "weight_gradient";
  }
  return "";
}

/// In the order of cuDNN's enumerations (cudnn_ops.h).
constexpr std::array<const char*, 8> kForwardAlgorithms{
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",
    "WINOGRAD",      "WINOGRAD_NONFUSED"};
constexpr std::array<const char*, 6> kDataAlgorithms{"ALGO_0",     "ALGO_1",   "FFT",
                                                     "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};
constexpr std::array<const char*, 7> kWeightAlgorithms{
    "ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"};
static_assert(kForwardAlgorithms.size() == CUDNN_CONVOLUTION_FWD_ALGO_COUNT &&
              kDataAlgorithms.size() == CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT &&
              kWeightAlgorithms.size() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);

const char* algorithm_name(Direction direction, int algorithm) {
  const auto index = static_cast<size_t>(algorithm);
  switch (direction) {
    case Direction::kForward:
      return kForwardAlgorithms.at(index);
    case Direction::kData:
      return kDataAlgorithms.at(index);
    case Direction::kWeight:
      return kWeightAlgorithms.at(index);
  }
  return "";
}

/// Of storage, and what cuDNN may do with it.
struct Type {
  const char* name;
  cudnnDataType_t storage;
  cudnnMathType_t math;
};
constexpr std::array kTypes{Type{"fp32", CUDNN_DATA_FLOAT, CUDNN_FMA_MATH},
                            Type{"tf32", CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH},
                            Type{"bf16", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH},
                            Type{"fp16", CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH}};

struct Limit {
  const char* name;
  size_t bytes;
};
constexpr std::array kLimits{Limit{"0", 0}, Limit{"8MiB", size_t{8} << 20},
                             Limit{"64MiB", size_t{64} << 20}, Limit{"512MiB", size_t{512} << 20},
                             Limit{"none", kNoLimit}};

/// Device memory that frees itself. Filled with the bytes of small numbers that are not zero: on
/// zeros a GPU can be faster.
std::shared_ptr<void> device_memory(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaMemset(memory, 0x3c, bytes), "cudaMemset");
  return {memory, [](void* gone) { (void)cudaFree(gone); }};
}

struct Choice {
  int algorithm = 0;
  size_t workspace = 0;
  bool deterministic = false;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

/// One convolution with its memory.
class Convolution {
 public:
  Convolution(cudnnHandle_t handle, const Shape& shape, const Type& type,
              cudnnTensorFormat_t format)
      : handle_(handle), math_(type.math) {
    const int out = shape.resolution / shape.stride;
    check(cudnnCreateTensorDescriptor(&x_), "x");
    check(cudnnCreateTensorDescriptor(&y_), "y");
    check(cudnnCreateFilterDescriptor(&w_), "w");
    check(cudnnCreateConvolutionDescriptor(&convolution_), "convolution");
    check(cudnnSetTensor4dDescriptor(x_, format, type.storage, kBatch, shape.in, shape.resolution,
                                     shape.resolution),
          "x");
    check(cudnnSetTensor4dDescriptor(y_, format, type.storage, kBatch, shape.out, out, out), "y");
    check(
        cudnnSetFilter4dDescriptor(w_, type.storage, format, shape.out, shape.in, kKernel, kKernel),
        "w");
    check(cudnnSetConvolution2dDescriptor(convolution_, 1, 1, shape.stride, shape.stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "convolution");
    check(cudnnSetConvolutionMathType(convolution_, math_), "math");
    const size_t element = type.storage == CUDNN_DATA_FLOAT ? 4 : 2;
    const auto pixels = static_cast<size_t>(shape.resolution) * shape.resolution;
    const auto size = [&](int channels, size_t area) {
      return element * static_cast<size_t>(kBatch) * static_cast<size_t>(channels) * area;
    };
    x_memory_ = device_memory(size(shape.in, pixels));
    y_memory_ = device_memory(size(shape.out, static_cast<size_t>(out) * out));
    w_memory_ = device_memory(element * static_cast<size_t>(shape.out) *
                              static_cast<size_t>(shape.in) * kKernel * kKernel);
    flop_ = 2.0 * kBatch * shape.in * shape.out * kKernel * kKernel * out * out;
  }
  ~Convolution() {
    (void)cudnnDestroyConvolutionDescriptor(convolution_);
    (void)cudnnDestroyFilterDescriptor(w_);
    (void)cudnnDestroyTensorDescriptor(y_);
    (void)cudnnDestroyTensorDescriptor(x_);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  [[nodiscard]] double flop() const { return flop_; }

  /// All that cuDNN offers, in its own order of preference.
  [[nodiscard]] std::vector<Choice> choices(Direction direction) const {
    switch (direction) {
      case Direction::kForward: {
        std::array<cudnnConvolutionFwdAlgoPerf_t, 32> found{};
        int count = 0;
        check(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, 32, &count,
                                                     found.data()),
              "algorithms");
        return usable(found, count);
      }
      case Direction::kData: {
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, 32> found{};
        int count = 0;
        check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, w_, y_, convolution_, x_, 32,
                                                          &count, found.data()),
              "algorithms");
        return usable(found, count);
      }
      case Direction::kWeight: {
        std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 32> found{};
        int count = 0;
        check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, x_, y_, convolution_, w_, 32,
                                                            &count, found.data()),
              "algorithms");
        return usable(found, count);
      }
    }
    return {};
  }

  void run(Direction direction, const Choice& choice, void* workspace) const {
    const float one = 1;
    const float zero = 0;
    check(cudnnSetConvolutionMathType(convolution_, choice.math), "math");
    switch (direction) {
      case Direction::kForward:
        return check(cudnnConvolutionForward(
                         handle_, &one, x_, x_memory_.get(), w_, w_memory_.get(), convolution_,
                         static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), workspace,
                         choice.workspace, &zero, y_, y_memory_.get()),
                     "forward");
      case Direction::kData:
        return check(cudnnConvolutionBackwardData(
                         handle_, &one, w_, w_memory_.get(), y_, y_memory_.get(), convolution_,
                         static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm), workspace,
                         choice.workspace, &zero, x_, x_memory_.get()),
                     "data gradient");
      case Direction::kWeight:
        return check(cudnnConvolutionBackwardFilter(
                         handle_, &one, x_, x_memory_.get(), y_, y_memory_.get(), convolution_,
                         static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), workspace,
                         choice.workspace, &zero, w_, w_memory_.get()),
                     "weight gradient");
    }
  }

 private:
  /// Tensor cores stay off where the type asks for float32.
  template <typename Found>
  [[nodiscard]] std::vector<Choice> usable(const Found& found, int count) const {
    std::vector<Choice> choices;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      if (found[i].status != CUDNN_STATUS_SUCCESS) continue;
      const bool tensor_cores = found[i].mathType == CUDNN_TENSOR_OP_MATH ||
                                found[i].mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
      const bool float32_alone = math_ == CUDNN_FMA_MATH;
      if (float32_alone && tensor_cores) continue;
      choices.push_back({static_cast<int>(found[i].algo), found[i].memory,
                         found[i].determinism == CUDNN_DETERMINISTIC,
                         float32_alone ? math_ : found[i].mathType});
    }
    return choices;
  }

  cudnnHandle_t handle_;
  cudnnMathType_t math_;
  cudnnTensorDescriptor_t x_ = nullptr;
  cudnnTensorDescriptor_t y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  std::shared_ptr<void> x_memory_, y_memory_, w_memory_;
  double flop_ = 0;
};

/// A convolution has memory only while it is timed.
struct Subject {
  cudnnHandle_t handle;
  Shape shape;
  Type type;
  cudnnTensorFormat_t format;
  Direction direction;
};

void measure(benchmark::State& state, const Subject& s, const Choice& choice) {
  const Convolution convolution(s.handle, s.shape, s.type, s.format);
  const std::shared_ptr<void> workspace = device_memory(choice.workspace);
  convolution.run(s.direction, choice, workspace.get());
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  double total_s = 0;
  for (auto _ : state) {
    check(cudaEventRecord(begin, nullptr), "event");
    convolution.run(s.direction, choice, workspace.get());
    check(cudaEventRecord(end, nullptr), "event");
    check(cudaEventSynchronize(end), "event");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    state.SetIterationTime(1e-3 * static_cast<double>(milliseconds));
    total_s += 1e-3 * static_cast<double>(milliseconds);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  state.counters["workspace_mib"] = static_cast<double>(choice.workspace) / kMiB;
  state.counters["deterministic"] = choice.deterministic ? 1 : 0;
  state.counters["algo"] = choice.algorithm;
  state.SetLabel(algorithm_name(s.direction, choice.algorithm));
  state.counters["TFLOP/s"] =
      1e-12 * convolution.flop() * static_cast<double>(state.iterations()) / total_s;
}

/// Benchmarks so far.
int measured = 0;
int skipped = 0;

void skip(benchmark::State& state, const std::string& why) {
  state.SkipWithError(why.c_str());
  ++skipped;
}

void measure_or_skip(benchmark::State& state, const Subject& subject, const Choice& choice) {
  try {
    measure(state, subject, choice);
    ++measured;
  } catch (const NotSupported& error) {
    skip(state, error.what());
  }
}

void add(const std::string& name, const Subject& subject, const Choice& choice) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [subject, choice](benchmark::State& state) { measure_or_skip(state, subject, choice); })
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

/// Stands among the figures for what cuDNN does not do at all.
void add_skipped(const std::string& name, const std::string& why) {
  benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State& state) { skip(state, why); });
}

std::vector<Choice> choices_of(const Subject& s) {
  return Convolution(s.handle, s.shape, s.type, s.format).choices(s.direction);
}

void add_choices(const std::string& prefix, const Subject& subject) {
  const std::vector<Choice> choices = choices_of(subject);
  std::vector<int> seen;
  for (const Choice& choice : choices) {
    const bool again = std::find(seen.begin(), seen.end(), choice.algorithm) != seen.end();
    if (again) continue;  // the same with other arithmetic, less preferred
    seen.push_back(choice.algorithm);
    add(prefix + "/algo=" + std::to_string(choice.algorithm), subject, choice);
  }
  for (const Limit& limit : kLimits) {
    const auto within = std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) {
      return choice.workspace <= limit.bytes;
    });
    const std::string name = prefix + "/limit=" + limit.name;
    if (within != choices.end()) {
      add(name, subject, *within);
    } else {
      add_skipped(name, "no algorithm keeps within this limit");
    }
  }
}

void add_all(cudnnHandle_t handle) {
  for (const Shape& shape : kShapes) {
    for (const Type& type : kTypes) {
      for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
        for (const Direction direction : kDirections) {
          const std::string prefix = std::string(name_of(direction)) + "/" +
                                     std::to_string(shape.in) + "to" + std::to_string(shape.out) +
                                     "at" + std::to_string(shape.resolution) +
                                     (shape.stride == 1 ? "" : "stride2") + "/" + type.name +
                                     (format == CUDNN_TENSOR_NCHW ? "/nchw" : "/nhwc");
          try {
            add_choices(prefix, {handle, shape, type, format, direction});
          } catch (const NotSupported& error) {
            add_skipped(prefix, error.what());
          }
        }
      }
    }
  }
}

/// What the figures are of.
void add_context() {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  benchmark::AddCustomContext("gpu", gpu.name);
  benchmark::AddCustomContext("cuda_driver", std::to_string(driver));
  benchmark::AddCustomContext("cudnn", std::to_string(cudnnGetVersion()));
  benchmark::AddCustomContext("batch", std::to_string(kBatch));
}

/// 77, or 1 where the environment says that there must be a GPU.
int without_gpu(const char* why) {
  std::printf("no GPU here: %s\n", why);
  const char* required = std::getenv("NOISEMARK_REQUIRE");
  const std::string words = std::string(",") + (required == nullptr ? "" : required) + ",";
  return words.find(",cuda,") != std::string::npos ? 1 : 77;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return without_gpu(cudaGetErrorString(status));
  if (devices == 0) return without_gpu("none is visible");
  try {
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle), "cudnnCreate");
    add_context();
    add_all(handle);
    benchmark::RunSpecifiedBenchmarks();
    (void)cudnnDestroy(handle);
    if (skipped > 0 && measured == 0) throw std::runtime_error("cuDNN supports none of them");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
