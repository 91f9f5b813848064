#pragma once

#include <c10/core/Device.h>

namespace noisemark::suite {

/// Gives cuBLAS a workspace under which its results repeat, unless the environment chooses one:
/// --deterministic asks for it, and so do the passes that compare modes bit for bit. It is the one
/// that LibTorch takes on Hopper anyway. To be called before anything touches CUDA: cuBLAS reads
/// the environment once.
void choose_cublas_workspace();

/// Throws Error, exit code 2, when the environment gives cuBLAS a workspace that does not repeat.
void require_cublas_workspace();

/// Admits only operators that give the same bits every time; any other one throws. `wanted` false
/// takes it back.
void set_deterministic(bool wanted);

/// Deterministic algorithms for as long as it lives, then what was in force before. Memory is not
/// filled, which --deterministic does to find reads of uninitialised memory: that takes time. On
/// CUDA without a repeatable cuBLAS workspace only cuDNN is made deterministic; LibTorch would
/// refuse matrix products otherwise.
class DeterministicScope {
 public:
  explicit DeterministicScope(c10::Device device);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool algorithms_;
  bool fill_;
  bool cudnn_;
  bool benchmark_;
};

}  // namespace noisemark::suite
