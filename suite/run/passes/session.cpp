#include "suite/run/passes/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/error.h"
#include "reports/base/streams.h"
#include "suite/config/catalogue.h"
#include "suite/environment/processor.h"
#include "suite/io/safetensors.h"
#include "suite/quality/validation.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/owners.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";
// The two that cuBLAS documents as repeatable; the first is the faster one.
constexpr std::array kRepeatable{":4096:8", ":16:8"};

/// Returns the workspace setting of cuBLAS; "not set" without one.
std::string workspace() {
  const char* value = std::getenv(kWorkspace);
  return value == nullptr ? "not set" : value;
}

/// "gmm16@cpu, gmm16@gpu", in the order of lists; empty: the tensors are of no benchmark's network.
std::string benchmarks_with_network_of(const NamedTensors& tensors) {
  std::map<std::string, at::IntArrayRef> shapes;
  for (const auto& [name, tensor] : tensors) shapes.emplace(name, tensor.sizes());
  std::string fitting;
  for (const BenchmarkFile& file : benchmark_files()) {
    const Definition definition = load_definition(file.id, "cpu");
    const auto model = make_denoiser(definition.model, baselines::plain_ops());
    const NamedTensors wanted = named_parameters(*model);
    const bool fits = wanted.size() == tensors.size() &&
                      std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
                        const auto found = shapes.find(one.first);
                        return found != shapes.end() && found->second == one.second.sizes();
                      });
    if (fits) fitting += (fitting.empty() ? "" : ", ") + std::string(file.id);
  }
  return fitting;
}

bool workspace_repeats() {
  return std::find(kRepeatable.begin(), kRepeatable.end(), workspace()) != kRepeatable.end();
}

}  // namespace

void choose_cublas_workspace() {
  setenv(kWorkspace, kRepeatable.front(), /*overwrite=*/0);
}

void require_cublas_workspace() {
  if (workspace_repeats()) return;
  throw bad_input("--deterministic", kWorkspace, workspace(), ":4096:8 or :16:8");
}

void set_deterministic(bool wanted) {
  at::Context& context = at::globalContext();
  // A warning alone would not do: under a warning the fused attentions still add up their gradients
  // in any order. No operator of the networks lacks a deterministic form on CUDA: of poolings and
  // resizings LibTorch documents the 3-d and the adaptive ones and the linear and cubic ones as
  // lacking it; the networks have 2-d maximum pooling and nearest neighbours.
  context.setDeterministicAlgorithms(wanted, /*warn_only=*/false);
  context.setDeterministicCuDNN(wanted);
  if (wanted) context.setBenchmarkCuDNN(false);  // may choose another algorithm each time
}

DeterministicScope::DeterministicScope(c10::Device device) {
  at::Context& context = at::globalContext();
  algorithms_ = context.deterministicAlgorithms();
  fill_ = context.deterministicFillUninitializedMemory();
  cudnn_ = context.deterministicCuDNN();
  benchmark_ = context.benchmarkCuDNN();
  if (!device.is_cuda() || workspace_repeats()) {
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

DeterministicScope::~DeterministicScope() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(algorithms_, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(fill_);
  context.setDeterministicCuDNN(cudnn_);
  context.setBenchmarkCuDNN(benchmark_);
}

namespace {

Session build(const SessionOptions& options, BuildMemory& memory) {
  const RunSpec& spec = options.spec;
  const baselines::Execution& execution = spec.baseline.execution;
  at::manual_seed(spec.definition.seed);
  std::shared_ptr<Denoiser> model = make_denoiser(spec.definition.model, execution.ops());
  if (!options.init_weights.empty()) {
    copy_weights(read_safetensors(options.init_weights).tensors, *model, options.init_weights);
  }
  TrainerOptions trainer;
  trainer.device = spec.device;
  trainer.precision = spec.precision;
  trainer.channels_last = execution.channels_last;
  trainer.loader.threads = options.loader_threads;
  trainer.fault = options.fault;
  trainer.group = options.group;
  trainer.reduction = reduction_of(spec.reduction);
  trainer.shard_optimizer = spec.shard_optimizer;
  trainer.pipeline.schedule = pipeline_schedule_of(spec.pipeline);
  trainer.pipeline.micro_batches = spec.micro_batches;
  trainer.pipeline.division = options.division;
  if (options.timed && execution.cuda_graph) trainer.make_graph = baselines::make_device_graph;
  Session session;
  session.mode = spec.mode.make();
  session.trainer = std::make_unique<Trainer>(spec.definition, std::move(model), options.dataset,
                                              *session.mode, trainer, &memory);
  return session;
}

}  // namespace

void copy_weights(const NamedTensors& weights, Denoiser& model, const std::string& file) {
  try {
    copy_by_name(weights, named_parameters(model), file);
  } catch (const Error& error) {
    const std::string fitting = benchmarks_with_network_of(weights);
    if (fitting.empty()) throw;
    throw Error(error.code(),
                fmt::format("{}; they are weights of the network of {}", error.what(), fitting));
  }
  require_finite(weights, file);
}

Session make_session(const SessionOptions& options) {
  BuildMemory memory(options.spec.device);
  try {
    return build(options, memory);
  } catch (const std::exception& error) {
    const auto what = failed_allocation(error);
    if (!what) throw;
    throw OutOfMemory(*what + "; held then, while the model was made ready: " + memory.holders());
  }
}

void configure_process(const RunSpec& spec) {
  require_threads(spec.threads - 1);
  at::set_num_threads(static_cast<int>(spec.threads));
  if (spec.deterministic && spec.device.is_cuda()) require_cublas_workspace();
  set_deterministic(spec.deterministic);
  at::globalContext().setAllowTF32CuBLAS(spec.precision.tf32);
  at::globalContext().setAllowTF32CuDNN(spec.precision.tf32);
  const baselines::Execution& execution = spec.baseline.execution;
  at::globalContext().setBenchmarkCuDNN(execution.autotuned);
  baselines::apply_process_settings(execution);
}

SessionOptions session_options(const RunOptions& options, const PlannedRun& plan) {
  SessionOptions session;
  session.spec = plan.spec;
  session.spec.definition.seed = plan.seed;
  {
    const memopt::OwnerScope owner(memopt::Owner::kInput);
    const auto start = std::chrono::steady_clock::now();
    session.dataset = open_dataset(session.spec.definition, options.data);
    session.data_open_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const std::string note = session.dataset->note();
  if (!note.empty() && options.verdict)
    reports::say_on_stderr(fmt::format("--data {}: {}", options.data, note));
  require_evaluation_samples(session.spec.definition, *session.dataset);
  session.init_weights = options.init_weights;
  if (!options.init_weights.empty() && options.verdict) {
    tell_of_conversion(read_safetensors(options.init_weights).tensors, options.init_weights);
  }
  session.loader_threads = options.loader_threads;
  return session;
}

}  // namespace noisemark::suite
