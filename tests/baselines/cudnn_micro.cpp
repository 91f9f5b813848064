#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/baselines/cudnn_convolution.cuh"

// cuDNN's convolutions called directly, at the shapes of the U-Net of Ho et al. at batch 128: every
// algorithm by itself ("algo=1"), and what keeps within a workspace limit, which is how a limit
// costs time: the first of the order that cuDNN guesses ("limit=64MiB"), and the first of the order
// of times that it measures ("timed=64MiB"), which is how PyTorch's benchmark mode chooses.
// A limit that no algorithm keeps to is listed as skipped. Counters: workspace_mib, deterministic
// (1 or 0), algo, its ranks in both orders (guessed_rank and timed_rank, from 1; no timed_rank: not
// among what was timed), TFLOP/s, in_graph. Times are between events, around several launches that
// lie recorded in a CUDA graph, so that none of them waits for the host (in_graph 1). Where what
// cuDNN does for an algorithm cannot be recorded the host issues each launch, which may take it
// longer than the GPU takes (in_graph 0). The label is the algorithm's name, and the context says
// of which GPU, driver and cuDNN the figures are. Keep the figures with
//   noisemark_cudnn_micro --benchmark_out=cudnn.json --benchmark_out_format=json
// as containers/gpu-check.sh does in its OUT. These are tf32 and bf16; others, instead, with
//   noisemark_cudnn_micro --types=fp32,fp16
// since each type is several hundred benchmarks. How often each is timed is fixed, so that
// --benchmark_min_time changes nothing.
namespace {

using noisemark::baselines::test::check;
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

/// The launches between two events, which take about as long as a small convolution: by many
/// launches, little.
constexpr int kLaunches = 20;

/// Each turn has so many launches. Left to itself Google Benchmark, which is told the time of one
/// of them, goes on until these make --benchmark_min_time: twenty times as long in truth, which for
/// more than a thousand benchmarks is hours. A GPU that has warmed up and does nothing else varies
/// little.
constexpr int kTurns = 3;

/// The time that a GPU that was idle works before it is timed: it raises its clocks only after a
/// while, and a benchmark lasts but milliseconds.
constexpr std::chrono::milliseconds kWarmUp{300};

constexpr std::array<Shape, 11> kShapes{{{3, 128, 32, 1},
                                         {256, 256, 32, 1},
                                         {256, 128, 32, 1},
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

/// The order is that of cuDNN's enumerations (cudnn_ops.h).
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

constexpr std::array kAllTypes{Type{"fp32", CUDNN_DATA_FLOAT, CUDNN_FMA_MATH},
                               Type{"tf32", CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH},
                               Type{"bf16", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH},
                               Type{"fp16", CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH}};

constexpr const char* kTypesOption = "--types=";
constexpr const char* kUsualTypes = "tf32,bf16";

struct Limit {
  const char* name;
  size_t bytes;
};
constexpr std::array kLimits{Limit{"0", 0}, Limit{"8MiB", size_t{8} << 20},
                             Limit{"64MiB", size_t{64} << 20}, Limit{"512MiB", size_t{512} << 20},
                             Limit{"none", kNoLimit}};

/// The first that the limit allows; null where none is.
const Choice* first_within(const std::vector<Choice>& choices, size_t bytes) {
  const auto within = std::find_if(choices.begin(), choices.end(), [bytes](const Choice& choice) {
    return choice.why_not.empty() && choice.workspace <= bytes;
  });
  return within != choices.end() ? &*within : nullptr;
}

/// Returns the place of the algorithm, from 1; 0 where it is not listed.
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

  /// Measures when first asked, since it takes time and memory. It is empty where that fails.
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
  /// Says why none of timed() serves, where that is so.
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

/// A mark in the GPU's own order of work.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "event"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "event"); }
  void wait() const { check(cudaEventSynchronize(event_), "event"); }
  [[nodiscard]] double seconds_since(const Event& before) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, before.event_, event_), "event");
    return kSecondsPerMillisecond * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Returns the seconds of each of several turns. They are issued one behind the other, and all
/// behind one that is not timed: it keeps the GPU busy while the host issues the next.
std::vector<double> seconds_of_turns(size_t turns, cudaStream_t stream,
                                     const std::function<void()>& issue_turn) {
  const std::vector<Event> marks(turns + 1);
  issue_turn();
  marks.front().record(stream);
  for (size_t i = 0; i < turns; ++i) {
    issue_turn();
    marks[i + 1].record(stream);
  }
  marks.back().wait();
  std::vector<double> seconds;
  for (size_t i = 0; i < turns; ++i) seconds.push_back(marks[i + 1].seconds_since(marks[i]));
  return seconds;
}

using Graph = std::remove_pointer_t<cudaGraph_t>;
using RunnableGraph = std::remove_pointer_t<cudaGraphExec_t>;

/// Records what `issue` issues to the stream, which does none of it meanwhile. Returns null where a
/// graph cannot hold it. Must have been issued once before: to load kernels is nothing that can be
/// recorded.
std::shared_ptr<Graph> recorded(cudaStream_t stream, const std::function<void()>& issue) {
  // The mode in which a call that a graph could repeat wrongly makes the recording fail.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
  bool issued = true;
  try {
    issue();
  } catch (const CudnnError&) {
    issued = false;
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  (void)cudaGetLastError();  // a recording that failed is no failure of what comes next
  const std::shared_ptr<Graph> owned(graph, [](cudaGraph_t gone) {
    if (gone != nullptr) (void)cudaGraphDestroy(gone);
  });
  return issued && status == cudaSuccess ? owned : nullptr;
}

/// Returns null where there is none, or not of at least so many nodes: what went elsewhere would be
/// left out of the times.
std::shared_ptr<RunnableGraph> runnable(const std::shared_ptr<Graph>& graph, size_t least_nodes) {
  if (graph == nullptr) return nullptr;
  size_t nodes = 0;
  check(cudaGraphGetNodes(graph.get(), nullptr, &nodes), "graph");
  cudaGraphExec_t runnable = nullptr;
  if (nodes < least_nodes || cudaGraphInstantiate(&runnable, graph.get(), 0) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return {runnable, [](cudaGraphExec_t gone) { (void)cudaGraphExecDestroy(gone); }};
}

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
  const cudaStream_t stream = convolution.stream();
  const auto run = [&] { convolution.run(subject.direction(), choice, operands, workspace.get()); };
  const auto launch = [&] {
    for (int i = 0; i < kLaunches; ++i) run();
  };
  convolution.use(choice.math);
  run();  // loads the kernels
  check(cudaStreamSynchronize(stream), "the first launch");
  const std::shared_ptr<RunnableGraph> graph = runnable(recorded(stream, launch), kLaunches);
  const std::vector<double> seconds = seconds_of_turns(
      static_cast<size_t>(state.max_iterations), stream,
      [&] { graph != nullptr ? check(cudaGraphLaunch(graph.get(), stream), "graph") : launch(); });
  auto turn = seconds.begin();
  for (auto _ : state) state.SetIterationTime(*turn++ / kLaunches);
  const double launch_s = std::reduce(seconds.begin(), seconds.end()) /
                          (static_cast<double>(seconds.size()) * kLaunches);
  state.counters["in_graph"] = graph != nullptr ? 1 : 0;
  state.counters["TFLOP/s"] = 1e-12 * convolution.flop() / launch_s;
}

/// Benchmarks so far.
int measured = 0;
int skipped = 0;

void skip(benchmark::State& state, const std::string& why) {
  state.SkipWithError(why.c_str());
  ++skipped;
}

/// A measurement that fails by itself is named among the figures, and the others are measured all
/// the same. Throws CudaError where the GPU is of no more use.
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
      ->Iterations(kTurns)
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

void add_all(cudnnHandle_t handle, const std::vector<Type>& types) {
  for (const Shape& shape : kShapes) {
    for (const Type& type : types) {
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

/// Says what was measured.
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

void warm_up() {
  constexpr size_t kBytes = size_t{256} << 20;
  const std::shared_ptr<void> memory = device_memory(kBytes);
  const auto end = std::chrono::steady_clock::now() + kWarmUp;
  while (std::chrono::steady_clock::now() < end) {
    check(cudaMemset(memory.get(), 0, kBytes), "warm-up");
    check(cudaDeviceSynchronize(), "warm-up");
  }
}

void run_all(const std::vector<Type>& types) {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  check(cudnnCreate(&handle), "cudnnCreate");
  // The default stream cannot be recorded. This one waits for it, as it must: operands are copied
  // there.
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(cudnnSetStream(handle, stream), "cudnnSetStream");
  add_context();
  add_all(handle, types);
  warm_up();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // their descriptors go before the handle
  (void)cudnnDestroy(handle);
  (void)cudaStreamDestroy(stream);
  if (skipped > 0) std::fprintf(stderr, "%d measured, %d failed and named\n", measured, skipped);
  if (skipped > 0 && measured == 0) throw CudnnError("cuDNN could do none of them");
}

/// Takes an option out of the arguments, as Google Benchmark does with its own.
std::optional<std::string> take_option(std::string_view option, int& argc, char** argv) {
  char** const end = argv + argc;
  char** const found = std::find_if(argv + 1, end, [option](const char* word) {
    return std::string_view(word).starts_with(option);
  });
  if (found == end) return std::nullopt;
  const std::string value = *found + option.size();
  std::copy(found + 1, end, found);
  --argc;
  return value;
}

/// Returns none where one of the names, which commas part, is unknown.
std::vector<Type> types_named(const std::string& names) {
  std::vector<Type> types;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    const auto* const type = std::find_if(kAllTypes.begin(), kAllTypes.end(),
                                          [&](const Type& one) { return one.name == name; });
    if (type == kAllTypes.end()) return {};
    types.push_back(*type);
  }
  return types;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string names = take_option(kTypesOption, argc, argv).value_or(kUsualTypes);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::vector<Type> types = types_named(names);
  if (types.empty()) {
    std::fprintf(stderr, "%s%s: expected one or several of fp32,tf32,bf16,fp16\n", kTypesOption,
                 names.c_str());
    return 2;
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return without_gpu(cudaGetErrorString(status));
  if (devices == 0) return without_gpu("none is visible");
  try {
    run_all(types);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
