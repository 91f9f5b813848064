#include "suite/run/deterministic.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";
// The two that cuBLAS documents as repeatable; the first is the faster one.
constexpr std::array kRepeatable{":4096:8", ":16:8"};

/// Of cuBLAS; "not set" without one.
std::string workspace() {
  const char* value = std::getenv(kWorkspace);
  return value == nullptr ? "not set" : value;
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
  // Not merely warned of: under a warning the fused attentions still add up their gradients in any
  // order. No operator of the networks lacks a deterministic form on CUDA: of poolings and
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

}  // namespace noisemark::suite
