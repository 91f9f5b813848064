#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/baselines/cudnn_convolution.cuh"

// cuDNN's convolutions called directly, at the shapes of the U-Net of Ho et al. at batch 128: every
// algorithm by itself ("algo=1"), and what keeps within a workspace limit, which is how a limit
// costs time: the first of the order that cuDNN guesses ("limit=64MiB"), and the first of the order
// of times that it measures ("timed=64MiB"), which is how PyTorch's benchmark mode chooses.
// A limit that no algorithm keeps to is listed as skipped. Counters: workspace_mib, deterministic
// (1 or 0), algo, its ranks in both orders (guessed_rank and timed_rank, from 1; no timed_rank: not
// among what was timed), TFLOP/s. Times are between events, around several launches; the label is
// the algorithm's name, and the context says of which GPU, driver and cuDNN the figures are. Keep
// the figures with
//   noisemark_cudnn_micro --benchmark_out=cudnn.json --benchmark_out_format=json
// as containers/gpu-check.sh does in its OUT.
namespace {

using noisemark::baselines::test::Choice;
using noisemark::baselines::test::Convolution;
using noisemark::baselines::test::CudaError;
using noisemark::baselines::test::CudnnError;
using noisemark::baselines::test::device_memory;
using noisemark::baselines::test::Direction;
using noisemark::baselines::test::Shape;
using noisemark::baselines::test::Type;

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kSecondsPerMillisecond = 1e-3;
constexpr size_t kNoLimit = SIZE_MAX;

/// Between two events. A GPU waits for the first of them until the host has issued it: alone, a
/// small one would be timed with the host's work.
constexpr int kLaunches = 20;

constexpr std::array<Shape, 9> kShapes{{{3, 128, 32, 1},
                                        {128, 128, 32, 1},
                                        {384, 128, 32, 1},
                                        {128, 128, 32, 2},
                                        {256, 256, 16, 1},
                                        {512, 256, 16, 1},
                                        {256, 256, 8, 1},
                                        {512, 256, 4, 1},
                                        {128, 3, 32, 1}}};

constexpr std::array kDirections{std::pair{Direction::kForward, "forward"},
                                 std::pair{Direction::kData, "data_gradient"},
                                 std::pair{Direction::kWeight, "weight_gradient"}};

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

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(status));
}

/// The first that the limit allows; null where none is.
const Choice* first_within(const std::vector<Choice>& choices, size_t bytes) {
  const auto within = std::find_if(choices.begin(), choices.end(), [bytes](const Choice& choice) {
    return choice.why_not.empty() && choice.workspace <= bytes;
  });
  return within != choices.end() ? &*within : nullptr;
}

/// From 1; 0 where it is not listed.
int rank_of(int algorithm, const std::vector<Choice>& choices) {
  std::set<int> before;
  for (const Choice& choice : choices) {
    before.insert(choice.algorithm);
    if (choice.algorithm == algorithm) return static_cast<int>(before.size());
  }
  return 0;
}

/// A convolution in one direction, and both orders of what cuDNN offers for it.
class Subject {
 public:
  Subject(cudnnHandle_t handle, const Shape& shape, const Type& type, cudnnTensorFormat_t format,
          Direction direction)
      : convolution_(handle, shape, type, format),
        direction_(direction),
        guessed_(convolution_.guessed(direction)) {}

  [[nodiscard]] const Convolution& convolution() const { return convolution_; }
  [[nodiscard]] Direction direction() const { return direction_; }
  [[nodiscard]] const std::vector<Choice>& guessed() const { return guessed_; }

  /// Measured when first asked for, since it takes time and memory. Empty where that fails.
  [[nodiscard]] const std::vector<Choice>& timed() {
    if (!timed_) {
      timed_.emplace();
      try {
        *timed_ = measured_order();
      } catch (const std::runtime_error& error) {
        (void)cudaGetLastError();
        why_not_timed_ = error.what();
      }
    }
    return *timed_;
  }
  /// Where none of timed() serves.
  [[nodiscard]] const std::string& why_not_timed() const { return why_not_timed_; }

 private:
  [[nodiscard]] std::vector<Choice> measured_order() const {
    size_t most = 0;
    for (const Choice& choice : guessed_) most = std::max(most, choice.workspace);
    const std::shared_ptr<void> workspace = device_memory(most);
    return convolution_.timed(direction_, convolution_.operands(), workspace.get(), most);
  }

  Convolution convolution_;
  Direction direction_;
  std::vector<Choice> guessed_;
  std::optional<std::vector<Choice>> timed_;
  std::string why_not_timed_ = "none of what was timed keeps within the limit";
};

/// Two marks on the GPU's own clock.
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }
  ~Stopwatch() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  double seconds_of(const std::function<void()>& work) {
    check(cudaEventRecord(begin_, nullptr), "event");
    work();
    check(cudaEventRecord(end_, nullptr), "event");
    check(cudaEventSynchronize(end_), "event");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
    return kSecondsPerMillisecond * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

void describe(benchmark::State& state, Subject& subject, const Choice& choice) {
  state.counters["workspace_mib"] = static_cast<double>(choice.workspace) / kMiB;
  state.counters["deterministic"] = choice.deterministic ? 1 : 0;
  state.counters["algo"] = choice.algorithm;
  state.SetLabel(algorithm_name(subject.direction(), choice.algorithm));
  state.counters["guessed_rank"] = rank_of(choice.algorithm, subject.guessed());
  const int rank = rank_of(choice.algorithm, subject.timed());
  if (rank > 0) state.counters["timed_rank"] = rank;
}

void measure(benchmark::State& state, Subject& subject, const Choice& choice) {
  describe(state, subject, choice);
  const Convolution& convolution = subject.convolution();
  const Convolution::Operands operands = convolution.operands();
  const std::shared_ptr<void> workspace = device_memory(choice.workspace);
  const auto run = [&] { convolution.run(subject.direction(), choice, operands, workspace.get()); };
  convolution.use(choice.math);
  run();
  Stopwatch stopwatch;
  double total_s = 0;
  for (auto _ : state) {
    const double seconds = stopwatch.seconds_of([&] {
      for (int i = 0; i < kLaunches; ++i) run();
    });
    state.SetIterationTime(seconds / kLaunches);
    total_s += seconds / kLaunches;
  }
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

/// What fails by itself is named among the figures, and the others are measured all the same.
/// Throws CudaError where the GPU is of no more use.
void measure_or_skip(benchmark::State& state, const std::function<void()>& work) {
  try {
    work();
    ++measured;
    return;
  } catch (const CudnnError& error) {
    skip(state, error.what());
  } catch (const CudaError& error) {
    skip(state, error.what());
  }
  (void)cudaGetLastError();
  check(cudaDeviceSynchronize(), "after a failure");
}

using Measure = std::function<void(benchmark::State&)>;

void add(const std::string& name, const Measure& work) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [work](benchmark::State& state) { measure_or_skip(state, [&] { work(state); }); })
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

/// Stands among the figures for what cuDNN does not do.
void add_skipped(const std::string& name, const std::string& why) {
  benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State& state) { skip(state, why); });
}

void add_algorithms(const std::string& prefix, const std::shared_ptr<Subject>& subject) {
  std::set<int> seen;
  for (const Choice& choice : subject->guessed()) {
    // The same with other arithmetic, less preferred.
    if (!seen.insert(choice.algorithm).second) continue;
    const std::string name = prefix + "/algo=" + std::to_string(choice.algorithm);
    if (!choice.why_not.empty()) {
      add_skipped(name, choice.why_not);
    } else {
      add(name, [subject, choice](benchmark::State& state) { measure(state, *subject, choice); });
    }
  }
}

void add_limits(const std::string& prefix, const std::shared_ptr<Subject>& subject) {
  for (const Limit& limit : kLimits) {
    const Choice* guess = first_within(subject->guessed(), limit.bytes);
    if (guess == nullptr) {
      add_skipped(prefix + "/limit=" + limit.name, "no algorithm keeps within this limit");
      continue;
    }
    add(prefix + "/limit=" + limit.name,
        [subject, choice = *guess](benchmark::State& state) { measure(state, *subject, choice); });
    add(prefix + "/timed=" + limit.name, [subject, limit](benchmark::State& state) {
      const Choice* fastest = first_within(subject->timed(), limit.bytes);
      if (fastest == nullptr) throw CudnnError(subject->why_not_timed());
      measure(state, *subject, *fastest);
    });
  }
}

void add_all(cudnnHandle_t handle) {
  for (const Shape& shape : kShapes) {
    for (const Type& type : kTypes) {
      for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
        for (const auto& [direction, direction_name] : kDirections) {
          const std::string prefix = std::string(direction_name) + "/" + std::to_string(shape.in) +
                                     "to" + std::to_string(shape.out) + "at" +
                                     std::to_string(shape.resolution) +
                                     (shape.stride == 1 ? "" : "stride2") + "/" + type.name +
                                     (format == CUDNN_TENSOR_NCHW ? "/nchw" : "/nhwc");
          try {
            const auto subject = std::make_shared<Subject>(handle, shape, type, format, direction);
            add_algorithms(prefix, subject);
            add_limits(prefix, subject);
          } catch (const CudnnError& error) {
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
  benchmark::AddCustomContext("batch", std::to_string(Convolution::kBatch));
}

/// 77, or 1 where the environment says that there must be a GPU.
int without_gpu(const char* why) {
  std::printf("no GPU here: %s\n", why);
  const char* required = std::getenv("NOISEMARK_REQUIRE");
  const std::string words = std::string(",") + (required == nullptr ? "" : required) + ",";
  return words.find(",cuda,") != std::string::npos ? 1 : 77;
}

void run_all() {
  cudnnHandle_t handle = nullptr;
  if (const cudnnStatus_t status = cudnnCreate(&handle); status != CUDNN_STATUS_SUCCESS) {
    throw CudnnError(std::string("cudnnCreate: ") + cudnnGetErrorString(status));
  }
  add_context();
  add_all(handle);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // their descriptors go before the handle
  (void)cudnnDestroy(handle);
  if (skipped > 0) std::fprintf(stderr, "%d measured, %d failed and named\n", measured, skipped);
  if (skipped > 0 && measured == 0) throw CudnnError("cuDNN could do none of them");
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
    run_all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
